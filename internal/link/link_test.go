package link_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/testkit"
)

// pair links a machine to each end of a pipe until the test ends.
func pair(t *testing.T, cfg link.Config) (la, lb *link.Link, ma, mb *machine, a, b *linktest.Carrier) {
	a, b = linktest.Pipe()
	ma, mb = &machine{first: 1}, &machine{first: 1}
	la, lb = link.New(a, cfg, ma), link.New(b, link.Config{}, mb)
	t.Cleanup(func() { end(la); end(lb) })
	return la, lb, ma, mb, a, b
}

func end(l *link.Link) {
	l.Abort(0, "")
	<-l.Done()
}

func TestCarriesDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, mb, a, _ := pair(t, link.Config{})
		under(la, func() { ma.ready, ma.size = 3, 50 })
		synctest.Wait()
		under(lb, func() {
			require.Len(t, mb.received, 3)
			for _, datagram := range mb.received {
				require.Len(t, datagram, 50)
			}
		})
		require.Equal(t, 3, a.Sent())
	})
}

func TestSendsInOrderOfPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := linktest.Pipe()
		high, low := &machine{first: 1, size: 10}, &machine{first: 2, size: 10}
		var order []byte
		note := func(_ time.Time, d []byte) { order = append(order, d[0]) }
		la := link.New(a, link.Config{}, high, low)
		lb := link.New(b, link.Config{}, &machine{first: 1, onPacket: note}, &machine{first: 2, onPacket: note})
		under(la, func() { low.ready, high.ready = 2, 2 })
		synctest.Wait()
		under(lb, func() { require.Equal(t, []byte{1, 1, 2, 2}, order) })
		la.Abort(0, "")
		<-la.Done()
		<-lb.Done()
	})
}

// TestDatagramsWaitInTheMachines: datagrams that the path cannot take yet are
// built late, after those that become ready in the meantime.
func TestDatagramsWaitInTheMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := linktest.Pipe()
		a.SetPath(link.Path{Cwnd: 64_150, SmoothedRTT: 100 * time.Millisecond, MaxDatagram: 1243}) // a datagram a millisecond
		play, bulk := &machine{first: 1, size: 1243}, &machine{first: 2, size: 1243}
		order, begin := "", time.Now()
		note := func(_ time.Time, d []byte) { order += string('0' + d[0]) }
		la := link.New(a, link.Config{}, play, bulk)
		lb := link.New(b, link.Config{}, &machine{first: 1, onPacket: note}, &machine{first: 2, onPacket: note})
		under(la, func() { bulk.ready = 14 })
		synctest.Wait()
		under(lb, func() { require.Equal(t, "2222222222", order, "a burst of ten") })
		time.Sleep(1500 * time.Microsecond)
		under(la, func() { play.ready = 1 })
		for !func() bool { lb.Lock(); defer lb.Unlock(); return len(order) == 15 }() {
			time.Sleep(100 * time.Microsecond)
		}
		require.Equal(t, "222222222221222", order)
		require.InDelta(t, 5, time.Since(begin).Milliseconds(), 1)
		end(la)
		end(lb)
	})
}

func TestUnknownFirstByteIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lb, _, mb, a, _ := pair(t, link.Config{})
		require.NoError(t, a.SendDatagram([]byte{9, 1, 2}))
		require.NoError(t, a.SendDatagram(nil))
		synctest.Wait()
		under(lb, func() { require.Empty(t, mb.received) })
		require.Equal(t, uint64(2), lb.Stats().DroppedUnknown)
	})
}

func TestPassesWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, a, b := pair(t, link.Config{})
		synctest.Wait()
		a.SetPath(link.Path{Cwnd: 20000, MaxDatagram: 1372})
		require.NoError(t, b.SendDatagram([]byte{1})) // an ack may have opened the window
		synctest.Wait()
		a.SetPath(link.Path{MaxDatagram: 1372}) // unknown: the last one stays
		require.NoError(t, b.SendDatagram([]byte{1}))
		synctest.Wait()
		// Less what QUIC adds to each datagram: one too many waits for the
		// window, at the start a round trip, and looks like a queue.
		under(la, func() { require.Equal(t, []int{256 << 10 * 1243 / 1283, 20000 * 1372 / 1412}, ma.windows) })
	})
}

func TestWakeIsCalledWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *link.Link
		var m *machine
		var b *linktest.Carrier
		var woken atomic.Int32
		l, _, m, _, _, b = pair(t, link.Config{Wake: func() {
			l.Lock()
			woken.Add(1)
			l.Unlock()
		}})
		under(l, func() { m.onPacket = func(time.Time, []byte) { m.wakes = 1 } })
		synctest.Wait()
		require.Zero(t, woken.Load())
		require.NoError(t, b.SendDatagram([]byte{1}))
		synctest.Wait()
		require.Equal(t, int32(1), woken.Load())
		under(l, func() { m.wakes = 1 }) // the owner's own doing counts as well
		synctest.Wait()
		require.Equal(t, int32(2), woken.Load())
		end(l)
		synctest.Wait()
		require.Equal(t, int32(3), woken.Load(), "and once at the end")
	})
}

func TestUnlockWakesOnlyWhenItCouldMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := linktest.Pipe()
		m := &quietMachine{machine: &machine{first: 1, size: 10}}
		l := link.New(a, link.Config{}, m)
		synctest.Wait()
		rounds := len(m.advanced)
		under(l, func() {})
		synctest.Wait()
		under(l, func() { require.Len(t, m.advanced, rounds) })
		under(l, func() { m.ready, m.changed = 1, true })
		synctest.Wait()
		under(l, func() { require.Equal(t, uint64(1), m.number) })
		l.Abort(0, "")
		<-l.Done()
	})
}

func TestTimeoutsAreMetAndRoundedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, _, _ := pair(t, link.Config{})
		start := time.Now()
		under(la, func() { ma.next = start.Add(5*time.Millisecond + 1) })
		synctest.Wait()
		under(la, func() { ma.advanced = nil })
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		under(la, func() {
			require.NotEmpty(t, ma.advanced)
			// The Unlock above made the first round; the second is the timer's.
			late := ma.advanced[1].Sub(start.Add(5*time.Millisecond + 1))
			require.GreaterOrEqual(t, late, time.Duration(0))
			require.Less(t, late, time.Millisecond)
		})
	})
}

func TestOverdueTimerDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, _, _ := pair(t, link.Config{})
		under(la, func() { ma.next = time.Now().Add(-time.Hour) })
		time.Sleep(time.Second)
		under(la, func() { require.LessOrEqual(t, len(ma.advanced), 1005) })
	})
}

func TestFarTimeoutDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, _, _ := pair(t, link.Config{})
		under(la, func() { ma.next = time.Now().AddDate(500, 0, 0) })
		time.Sleep(time.Second)
		under(la, func() { require.LessOrEqual(t, len(ma.advanced), 3) })
	})
}

func TestIdleLinkHasNoTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, _, _ := pair(t, link.Config{})
		time.Sleep(24 * time.Hour)
		under(la, func() { require.Len(t, ma.advanced, 1) })
	})
}

// TestBlockedSendDelaysNothingThatComesIn holds the writer in SendDatagram.
func TestBlockedSendDelaysNothingThatComesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int32
		la, _, ma, _, a, b := pair(t, link.Config{Wake: func() { woken.Add(1) }})
		a.Block(true)
		under(la, func() {
			ma.ready = 1
			ma.onPacket = func(time.Time, []byte) { ma.wakes = 1 }
		})
		synctest.Wait()
		require.NoError(t, b.SendDatagram([]byte{1}))
		synctest.Wait()
		under(la, func() { require.Len(t, ma.received, 1) })
		require.Equal(t, int32(1), woken.Load())
		a.Block(false)
		synctest.Wait()
		require.Equal(t, 1, a.Sent())
	})
}

// counted counts the datagrams that the link's reader has taken.
type counted struct {
	*linktest.Carrier
	taken *atomic.Int32
}

func (c counted) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	datagram, err := c.Carrier.ReceiveDatagram(ctx)
	if err == nil {
		c.taken.Add(1)
	}
	return datagram, err
}

// TestReaderSparesTheCarriersQueue lets the owner hold the lock while more
// arrives than quic-go would keep.
func TestReaderSparesTheCarriersQueue(t *testing.T) {
	a, b := linktest.Pipe()
	mb, taken := &machine{first: 1}, new(atomic.Int32)
	la, lb := link.New(a, link.Config{}, &machine{first: 1}), link.New(counted{b, taken}, link.Config{}, mb)
	t.Cleanup(func() { end(la); end(lb) })
	b.SetDepth(128)
	lb.Lock()
	const n = 1200
	datagram := make([]byte, 1200)
	datagram[0] = 1
	for i := range n {
		require.NoError(t, a.SendDatagram(datagram))
		for int(taken.Load()) < i-64 {
			runtime.Gosched()
		}
	}
	for taken.Load() < n {
		runtime.Gosched()
	}
	lb.Unlock()
	require.Zero(t, b.Dropped())
	dropped := lb.Stats().DroppedRing
	require.Greater(t, dropped, uint64(0), "the ring is bounded")
	require.Less(t, dropped, uint64(n-link.RingBytes/1300))
	for lb.Stats().DroppedUnknown == 0 { // the last one, behind all others
		require.NoError(t, a.SendDatagram([]byte{9}))
		runtime.Gosched()
	}
	under(lb, func() { require.Len(t, mb.received, n-int(dropped)) })
	require.Zero(t, la.Stats().DroppedRing)
}

func TestBurstsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, mb, _, _ := pair(t, link.Config{})
		under(la, func() { ma.ready, ma.size = 960, 20 })
		synctest.Wait()
		under(la, func() { require.Equal(t, 10, ma.rests) })
		under(la, func() { ma.losses, ma.ready = 5, 96 })
		time.Sleep(time.Millisecond)
		under(la, func() { ma.ready = 96 })
		time.Sleep(time.Millisecond)
		under(la, func() { require.Equal(t, 12, ma.rests, "after the first of 96 comes one of 48, then of 56") })
		under(lb, func() { require.Len(t, mb.received, 960+2*96) })
	})
}

// echo is a carrier without a peer that allocates nothing.
type echo struct {
	linktest.Carrier
	in   chan []byte
	out  chan int
	path link.Path
}

func (e *echo) SendDatagram(p []byte) error { e.out <- len(p); return nil }

func (e *echo) Path() link.Path { return e.path }

func (e *echo) CloseWithError(uint64, string) error { return nil }

func (e *echo) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select {
	case d := <-e.in:
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// counter is a machine that allocates nothing.
type counter struct {
	machine
	got chan struct{}
}

func (c *counter) Receive(time.Time, []byte) error { c.got <- struct{}{}; return nil }

func (c *counter) Advance(time.Time) error { return nil }

func (c *counter) AppendPacket(_ time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	if c.ready == 0 {
		return nil, 0, false
	}
	c.ready--
	return buf[:size], 1, true
}

func newEcho() (*echo, *counter) {
	e := &echo{in: make(chan []byte), out: make(chan int), path: link.Path{Cwnd: 10000, MaxDatagram: 1243}}
	return e, &counter{machine: machine{first: 1, next: time.Now().Add(time.Hour)}, got: make(chan struct{}, 1)}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	e, m := newEcho()
	l := link.New(e, link.Config{}, m)
	datagram := []byte{1, 2, 3}
	round := func() {
		l.Lock()
		m.ready++
		l.Unlock()
		<-e.out
		e.in <- datagram
		<-m.got
	}
	round()
	require.Zero(t, testkit.Allocs(1000, round))
	l.Abort(0, "")
	<-l.Done()
}

func BenchmarkRoundTrip(b *testing.B) {
	e, m := newEcho()
	l := link.New(e, link.Config{}, m)
	datagram := []byte{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		l.Lock()
		m.ready++
		l.Unlock()
		<-e.out
		e.in <- datagram
		<-m.got
	}
	l.Abort(0, "")
	<-l.Done()
}

func BenchmarkLockUnlock(b *testing.B) {
	e, m := newEcho()
	l := link.New(e, link.Config{}, &quietCounter{counter: m})
	for b.Loop() {
		l.Lock()
		l.Unlock()
	}
	l.Abort(0, "")
	<-l.Done()
}

type quietCounter struct{ *counter }

func (quietCounter) Changed() bool { return false }

// BenchmarkIdle reports what an idle end costs here, stacks of both goroutines included.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		const n = 1000
		links := make([]*link.Link, n)
		before := memory()
		for i := range links {
			links[i] = link.New(idle{}, link.Config{}, &machine{first: 1})
		}
		for _, l := range links {
			for l.Stats().MaxDatagram == 0 {
				runtime.Gosched()
			}
		}
		after := memory()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/link")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/n, "stack-B/link")
		for _, l := range links {
			l.Abort(0, "")
			<-l.Done()
		}
	}
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// idle is a carrier without a peer.
type idle struct{}

func (idle) SendDatagram([]byte) error { return nil }

func (idle) SendQueue() int { return 0 }

func (idle) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (idle) Path() link.Path { return link.Path{} }

func (idle) CloseWithError(uint64, string) error { return nil }
