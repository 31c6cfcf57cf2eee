package link_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// since runs fn and returns the virtual time that it took.
func since(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

func wait(l *link.Link) func() { return func() { <-l.Done() } }

func TestCloseWithNothingQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, _, _, a, _ := pair(t, link.Config{})
		require.NoError(t, la.Err())
		la.Close(5, "good bye")
		require.Zero(t, since(wait(la)))
		require.Equal(t, &link.CloseError{Code: 5, Reason: "good bye"}, la.Err())
		code, reason, ok := a.Closed()
		require.Equal(t, []any{uint64(5), "good bye", true}, []any{code, reason, ok})

		<-lb.Done()
		require.Equal(t, &link.CloseError{Code: 5, Reason: "good bye", Remote: true}, lb.Err())
		require.EqualError(t, lb.Err(), "link: closed by the peer: code 5: good bye")
	})
}

func TestCloseDrainsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, mb, a, b := pair(t, link.Config{})
		a.SetDelay(30 * time.Millisecond)
		b.SetDelay(30 * time.Millisecond)
		under(lb, func() { mb.onPacket = func(time.Time, []byte) { mb.ready++ } }) // acks
		under(la, func() {
			ma.ready, ma.undrained = 3, true
			ma.onPacket = func(time.Time, []byte) { ma.undrained = len(ma.received) < 3 }
		})
		la.Close(5, "good bye")
		require.Equal(t, 60*time.Millisecond, since(wait(la)))
		require.Equal(t, &link.CloseError{Code: 5, Reason: "good bye"}, la.Err())
		<-lb.Done()
		under(lb, func() { require.Len(t, mb.received, 3) })
	})
}

func TestCloseUncorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, _, _ := pair(t, link.Config{})
		under(la, func() { ma.undrained = true })
		la.Close(1, "")
		<-la.Done()
		under(la, func() { require.Equal(t, 1, ma.uncorked) })
		<-lb.Done()
	})
}

func TestCloseWithoutAcksEndsAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, _, _ := pair(t, link.Config{})
		under(la, func() { ma.undrained = true })
		la.Close(5, "good bye")
		require.Equal(t, time.Second, since(wait(la)))
		require.ErrorIs(t, la.Err(), link.ErrUndelivered)
		var closed *link.CloseError
		require.ErrorAs(t, la.Err(), &closed)
		require.Equal(t, []any{uint64(5), "good bye"}, []any{closed.Code, closed.Reason})
		<-lb.Done()
	})
}

func TestCloseWhenSendBlocksForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, a, _ := pair(t, link.Config{})
		a.Block(true)
		under(la, func() { ma.ready = 1 })
		synctest.Wait()
		la.Close(5, "good bye")
		require.Equal(t, time.Second, since(wait(la)))
		require.ErrorIs(t, la.Err(), link.ErrUndelivered)
		<-lb.Done()
	})
}

func TestAbortWhenSendBlocksForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, a, _ := pair(t, link.Config{})
		a.Block(true)
		under(la, func() { ma.ready = 1 })
		synctest.Wait()
		la.Abort(6, "cheat")
		require.Zero(t, since(wait(la)))
		<-lb.Done()
		require.Equal(t, &link.CloseError{Code: 6, Reason: "cheat", Remote: true}, lb.Err())
	})
}

func TestFirstCloseStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, a, _ := pair(t, link.Config{})
		la.Lock() // both may be called under the lock
		ma.undrained = true
		la.Close(1, "first")
		la.Close(2, "second")
		la.Unlock()
		synctest.Wait()
		la.Abort(3, "third")
		<-la.Done()
		code, reason, _ := a.Closed()
		require.Equal(t, []any{uint64(1), "first"}, []any{code, reason})
		var cause *link.CloseError
		require.ErrorAs(t, errors.Unwrap(la.Err()), &cause)
		require.Equal(t, uint64(3), cause.Code)
		la.Close(4, "fourth")
		la.Abort(5, "fifth")
		<-lb.Done()
		require.Equal(t, &link.CloseError{Code: 1, Reason: "first", Remote: true}, lb.Err())
	})
}

func TestReasonIsCutAtACharacter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, _, _, a, _ := pair(t, link.Config{})
		long := "x" + strings.Repeat("ä", 200)
		la.Abort(5, long)
		<-la.Done()
		_, reason, _ := a.Closed()
		require.Equal(t, long[:253]+"…", reason)
		<-lb.Done()
	})
}

func TestViolationClosesWithItsCode(t *testing.T) {
	for _, when := range []string{"receive", "advance", "blocked"} {
		synctest.Test(t, func(t *testing.T) {
			la, lb, ma, _, a, b := pair(t, link.Config{})
			a.Block(when == "blocked")
			under(la, func() {
				ma.ready = 1
				switch when {
				case "advance":
					ma.advanceErr = fmt.Errorf("wrapped: %w", errViolation)
				default:
					ma.receiveErr = fmt.Errorf("wrapped: %w", errViolation)
				}
			})
			synctest.Wait()
			if when != "advance" {
				require.NoError(t, b.SendDatagram([]byte{1}))
				_ = b.SendDatagram([]byte{1}) // the first one may have closed the carrier by now
			}
			require.Zero(t, since(wait(la)))
			require.ErrorIs(t, la.Err(), errViolation)
			<-lb.Done()
			require.Equal(t, &link.CloseError{Code: 7, Reason: "bad header", Remote: true}, lb.Err())
			under(la, func() { require.LessOrEqual(t, len(ma.received), 1, "none is called after it failed") })
		})
	}
}

// TestEndedMayWaitForWhoUsesTheLink: also for a goroutine that wakes the link's owner.
func TestEndedMayWaitForWhoUsesTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used, ended := make(chan struct{}), false
		la, lb, ma, _, _, _ := pair(t, link.Config{Ended: func() { <-used; ended = true }})
		la.Abort(5, "good bye")
		<-la.Done()
		under(la, func() { ma.wakes = 1 })
		require.False(t, ended)
		used <- struct{}{}
		synctest.Wait()
		require.True(t, ended)
		<-lb.Done()
	})
}

func TestErrorWithoutACodeClosesWithZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, _, _ := pair(t, link.Config{})
		under(la, func() { ma.advanceErr = errBroken })
		<-la.Done()
		require.ErrorIs(t, la.Err(), errBroken)
		<-lb.Done()
		require.Equal(t, &link.CloseError{Reason: errBroken.Error(), Remote: true}, lb.Err())
	})
}

func TestCarrierErrorEndsTheLink(t *testing.T) {
	for _, blocked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			la, _, ma, _, a, _ := pair(t, link.Config{})
			a.Block(blocked)
			under(la, func() { ma.ready, ma.undrained = 1, true })
			synctest.Wait()
			a.Fail(errBroken)
			require.Zero(t, since(wait(la)))
			require.ErrorIs(t, la.Err(), errBroken)
		})
	}
}

func TestCarrierErrorCutsTheDrainShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, a, _ := pair(t, link.Config{})
		under(la, func() { ma.undrained = true })
		la.Close(5, "good bye")
		synctest.Wait()
		a.Fail(errBroken)
		require.Zero(t, since(wait(la)))
		var closed *link.CloseError
		require.ErrorAs(t, la.Err(), &closed)
		require.False(t, closed.Remote)
		require.ErrorIs(t, la.Err(), errBroken)
	})
}

func TestWhatCameBeforeTheEndIsReceived(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			a, b := linktest.Pipe()
			for range 500 {
				require.NoError(t, a.SendDatagram([]byte{1}))
			}
			require.NoError(t, a.CloseWithError(5, "good bye"))
			mb := &machine{first: 1}
			lb := link.New(b, link.Config{}, mb)
			<-lb.Done()
			under(lb, func() { require.Len(t, mb.received, 500) })
		})
	}
}

// lingering is a carrier whose last ReceiveDatagram returns late, and with a datagram.
type lingering struct {
	link.Carrier
	last chan []byte
}

func (c lingering) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	<-ctx.Done()
	return <-c.last, nil
}

// TestDoneWaitsForTheReader: when Done is closed nothing of the link runs any
// more, and the machines have what the carrier gave at last.
func TestDoneWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := linktest.Pipe()
		m, last := &machine{first: 1}, make(chan []byte)
		l := link.New(lingering{a, last}, link.Config{}, m)
		synctest.Wait()
		l.Abort(1, "")
		synctest.Wait()
		select {
		case <-l.Done():
			t.Fatal("the reader has not returned")
		default:
		}
		last <- []byte{1}
		<-l.Done()
		under(l, func() { require.Len(t, m.received, 1) })
	})
}

// TestAlwaysEnds lets two links live through random trouble. Whatever happens,
// a close ends each within a second.
func TestAlwaysEnds(t *testing.T) {
	first := rand.Uint64()
	rounds := 100
	if s := os.Getenv("QUIVER_SEED"); s != "" {
		var err error
		first, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		rounds = 1
	}
	for i := range rounds {
		s := first + uint64(i)
		ok := t.Run(fmt.Sprintf("QUIVER_SEED=%d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveAndDie(t, rand.New(rand.NewPCG(s, 0))) })
		})
		if !ok {
			return
		}
	}
}

func liveAndDie(t *testing.T, random *rand.Rand) {
	la, lb, ma, mb, a, b := pair(t, link.Config{})
	a.SetDelay(time.Duration(random.IntN(50)) * time.Millisecond)
	for range random.IntN(30) {
		trouble(random, la, ma, a)
		trouble(random, lb, mb, b)
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
	la.Close(1, "")
	require.LessOrEqual(t, since(wait(la)), time.Second)
	lb.Close(2, "")
	require.LessOrEqual(t, since(wait(lb)), time.Second)
	require.Error(t, la.Err())
	require.Error(t, lb.Err())
}

func trouble(random *rand.Rand, l *link.Link, m *machine, c *linktest.Carrier) {
	switch random.IntN(16) {
	case 0:
		c.Block(true)
	case 1:
		c.Block(false)
	case 2:
		c.SetLimit(200 + random.IntN(1300))
	case 3:
		under(l, func() { m.hole, m.losses = true, m.losses+1 })
	case 4:
		under(l, func() { m.next = time.Now().Add(time.Duration(random.IntN(20)-5) * time.Millisecond) })
	case 5:
		under(l, func() { m.undrained = !m.undrained })
	case 6:
		if random.IntN(10) == 0 {
			c.Fail(errBroken)
		}
	case 7:
		if random.IntN(10) == 0 {
			under(l, func() { m.receiveErr = errViolation })
		}
	case 8:
		if random.IntN(10) == 0 {
			l.Close(3, "early")
		}
	default:
		under(l, func() { m.ready += random.IntN(200) })
	}
}
