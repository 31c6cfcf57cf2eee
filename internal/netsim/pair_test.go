package netsim

import (
	"github.com/quivernet/quiver/internal/testkit"

	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiter sends total numbered packets, one at a time: the next when the last was
// acknowledged, again after a timeout. It acknowledges what it gets with the same number.
type waiter struct {
	total, acked uint32
	size         int
	unsent       bool
	retry        time.Time // zero = nothing outstanding
	owed         []uint32  // acks to send

	got    []uint32
	window int
	last   time.Time // latest now; it must never run back
}

const (
	waiterRetry = 200 * ms
	waiterAck   = 1 << 31
)

var errBackwards = errors.New("time runs back")

func newWaiter(total uint32, size int) *waiter {
	return &waiter{total: total, size: size, unsent: total > 0}
}

func (w *waiter) SetWindow(bytes int) { w.window = bytes }

func (w *waiter) Receive(now time.Time, p []byte) error {
	if err := w.clock(now); err != nil {
		return err
	}
	number := binary.BigEndian.Uint32(p)
	if number&waiterAck != 0 {
		if number&^waiterAck == w.acked {
			w.acked++
			w.unsent, w.retry = w.acked < w.total, time.Time{}
		}
		return nil
	}
	w.owed = append(w.owed, number)
	if int(number) == len(w.got) {
		w.got = append(w.got, number)
	}
	return nil
}

func (w *waiter) AppendPacket(now time.Time, buf []byte, limit int) ([]byte, uint64, bool) {
	switch {
	case len(w.owed) > 0:
		buf = binary.BigEndian.AppendUint32(buf, w.owed[0]|waiterAck)
		w.owed = w.owed[1:]
		return buf, 0, true
	case w.unsent:
		w.unsent, w.retry = false, now.Add(waiterRetry)
		buf = binary.BigEndian.AppendUint32(buf, w.acked)
		return append(buf, make([]byte, min(w.size, limit)-4)...), 0, true
	}
	return buf, 0, false
}

func (w *waiter) Advance(now time.Time) error {
	if !w.retry.IsZero() && !w.retry.After(now) {
		w.unsent, w.retry = true, time.Time{}
	}
	return w.clock(now)
}

func (w *waiter) clock(now time.Time) error {
	if now.Before(w.last) {
		return errBackwards
	}
	w.last = now
	return nil
}

func (w *waiter) NextTimeout() (time.Time, bool) { return w.retry, !w.retry.IsZero() }

func (w *waiter) done() bool { return w.acked == w.total }

func TestPairRoundTrips(t *testing.T) {
	a, b := newWaiter(10, 100), newWaiter(0, 0)
	p := NewPair(a, b, PairConfig{AtoB: Config{Delay: 30 * ms}, BtoA: Config{Delay: 20 * ms}, Window: 12_345})
	require.NoError(t, p.Run(time.Minute, a.done))
	require.Equal(t, 500*ms, p.Now().Sub(Epoch), "ten round trips of 50 ms")
	require.Len(t, b.got, 10)
	require.EqualValues(t, 10, p.A.Sent)
	require.EqualValues(t, 10, p.A.Received)
	require.Equal(t, []int{12_345, 12_345}, []int{a.window, b.window})
	require.NoError(t, p.RunUntilIdle(time.Minute))
	require.Equal(t, 500*ms, p.Now().Sub(Epoch), "an idle pair's clock stands")
	more, err := p.Step()
	require.NoError(t, err)
	require.False(t, more)
}

func TestPairBadPath(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.2, 0.5} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			cfg := everything(testkit.Seed(t))
			cfg.Loss = loss
			a, b := newWaiter(300, 100), newWaiter(300, 100)
			p := NewPair(a, b, PairConfig{AtoB: cfg, BtoA: cfg})
			require.NoError(t, p.Run(time.Hour, func() bool { return a.done() && b.done() }))
			require.Len(t, a.got, 300)
			require.Len(t, b.got, 300)
			require.NotEqual(t, p.A.Link.Stats(), p.B.Link.Stats(), "one seed, two fates")
		})
	}
}

func TestPairSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) (trace []string) {
		a, b := newWaiter(200, 100), newWaiter(200, 100)
		var p *Pair
		p = NewPair(a, b, PairConfig{AtoB: everything(seed), BtoA: everything(seed),
			OnPacket: func(from *Side, packet []byte, fate Fate) {
				trace = append(trace, fmt.Sprint(p.Now(), from.Name, len(packet), fate))
			}})
		require.NoError(t, p.Run(time.Hour, func() bool { return a.done() && b.done() }))
		return trace
	}
	seed := testkit.Seed(t)
	require.Equal(t, run(seed), run(seed))
	require.NotEqual(t, run(seed), run(seed+1))
}

func TestPairMax(t *testing.T) {
	var sizes []int
	tap := func(_ *Side, packet []byte, _ Fate) {
		if len(packet) > 4 {
			sizes = append(sizes, len(packet))
		}
	}
	a, b := newWaiter(3, 5000), newWaiter(0, 0)
	p := NewPair(a, b, PairConfig{AtoB: Config{Delay: ms}, OnPacket: tap})
	require.NoError(t, p.RunFor(0))
	t.Logf("# the path gets an MTU, which the machine is told")
	p.SetMTU(1163)
	require.NoError(t, p.Run(time.Second, a.done))
	t.Logf("# the path shrinks behind the machine's back, for 1 s")
	p.A.Max = 1200
	a.total, a.unsent = 4, true
	require.NoError(t, p.RunFor(time.Second))
	require.EqualValues(t, 3, a.acked)
	require.NotZero(t, p.A.Link.Stats().LostMTU)
	p.SetMTU(0)
	require.NoError(t, p.Run(time.Second, a.done))
	require.Equal(t, []int{DefaultMax, 1163, 1163, 1200}, sizes[:4])
}

func TestPairDark(t *testing.T) {
	a, b := newWaiter(100, 100), newWaiter(0, 0)
	p := NewPair(a, b, PairConfig{AtoB: Config{Delay: 25 * ms}, BtoA: Config{Delay: 25 * ms}})
	require.NoError(t, p.RunFor(time.Second))
	require.EqualValues(t, 20, a.acked)
	p.Dark(5 * time.Second)
	require.NoError(t, p.RunFor(5*time.Second))
	require.LessOrEqual(t, a.acked, uint32(21), "what was under way arrives")
	require.NoError(t, p.Run(5*time.Second, a.done))
	require.NotZero(t, p.A.Link.Stats().LostDark)
}

func TestPairRunForLandsExactly(t *testing.T) {
	a, b := newWaiter(1, 100), newWaiter(0, 0)
	p := NewPair(a, b, PairConfig{AtoB: Config{Delay: 10 * ms}, BtoA: Config{Delay: 10 * ms}})
	require.NoError(t, p.RunFor(10*ms))
	require.Len(t, b.got, 1, "what is due at the end happens")
	require.NoError(t, p.RunFor(7*ms))
	require.Equal(t, 17*ms, p.Now().Sub(Epoch))
	require.False(t, a.done())
	require.NoError(t, p.RunFor(time.Hour))
	require.True(t, a.done())
	require.Equal(t, time.Hour+17*ms, p.Now().Sub(Epoch))
}

func TestPairHooks(t *testing.T) {
	a, b := newWaiter(1, 100), newWaiter(0, 0)
	var ticks, steps []time.Duration
	start := Epoch.Add(time.Hour)
	p := NewPair(a, b, PairConfig{
		AtoB: Config{Delay: 5 * ms}, BtoA: Config{Delay: 5 * ms}, Start: start,
		OnStep: func(now time.Time) { steps = append(steps, now.Sub(start)) },
		Tick:   33 * ms,
		OnTick: func(now time.Time) {
			ticks = append(ticks, now.Sub(start))
			a.total++
			a.unsent = true
		},
	})
	require.NoError(t, p.RunFor(100*ms))
	require.Equal(t, []time.Duration{33 * ms, 66 * ms, 99 * ms}, ticks)
	require.EqualValues(t, 3, a.acked)
	require.Subset(t, steps, []time.Duration{0, 5 * ms, 10 * ms, 33 * ms, 38 * ms, 43 * ms})
	require.ErrorIs(t, p.RunUntilIdle(time.Second), ErrLimit)
}

// flood sends so many packets as fast as it is asked.
type flood struct{ left, size, got int }

func (f *flood) Receive(time.Time, []byte) error { f.got++; return nil }

func (f *flood) AppendPacket(_ time.Time, buf []byte, _ int) ([]byte, uint64, bool) {
	if f.left == 0 {
		return nil, 0, false
	}
	f.left--
	return append(buf, make([]byte, f.size)...), 0, true
}

func (f *flood) Advance(time.Time) error { return nil }

// NextTimeout is in the past while a packet is ready, which the contract allows.
func (f *flood) NextTimeout() (time.Time, bool) { return Epoch, f.left > 0 }

func TestPairRate(t *testing.T) {
	const n, size = 2000, 972 // 1,000 B each with overhead
	a, b := &flood{left: n, size: size}, &flood{}
	p := NewPair(a, b, PairConfig{AtoB: Config{Rate: 8e6, Delay: 10 * ms}})
	require.NoError(t, p.RunUntilIdle(time.Minute))
	require.Equal(t, 65, b.got, "all but the queue is dropped at once")
}

// script is a machine that misbehaves.
type script struct {
	flood
	receive, advance error
	timeout          func() (time.Time, bool)
}

func (s *script) Receive(time.Time, []byte) error { return s.receive }
func (s *script) Advance(time.Time) error         { return s.advance }
func (s *script) NextTimeout() (time.Time, bool) {
	if s.timeout == nil {
		return time.Time{}, false
	}
	return s.timeout()
}

func TestPairMachineErrors(t *testing.T) {
	boom := errors.New("boom")
	t.Run("receive", func(t *testing.T) {
		bad := &script{receive: boom}
		p := NewPair(&flood{left: 5, size: 10}, bad, PairConfig{AtoB: Config{Delay: ms}})
		err := p.Run(time.Second, func() bool { return false })
		require.ErrorIs(t, err, boom)
		require.ErrorContains(t, err, "side B: Receive: boom")
		require.Equal(t, boom, p.B.Err)
		require.EqualValues(t, 1, p.B.Received)
		require.NoError(t, p.RunUntilIdle(time.Second), "the other side goes on")
		require.EqualValues(t, 1, p.B.Received, "a dead machine gets nothing")
	})
	t.Run("advance", func(t *testing.T) {
		p := NewPair(&script{advance: boom}, &flood{}, PairConfig{})
		_, err := p.Step()
		require.ErrorIs(t, err, boom)
		require.ErrorContains(t, err, "side A: Advance")
	})
	t.Run("too large", func(t *testing.T) {
		p := NewPair(&flood{left: 1, size: 1201}, &flood{}, PairConfig{Max: 1200})
		require.ErrorContains(t, p.RunFor(ms), "built a packet of 1201 bytes; the limit was 1200")
	})
}

func TestPairFindsSpinning(t *testing.T) {
	late := Epoch
	for _, test := range []struct {
		name string
		a, b Machine
		want string
	}{
		{"timeout in the past", &script{timeout: func() (time.Time, bool) { return Epoch, true }}, &flood{}, "NextTimeout stays"},
		{"timeouts without end", &script{timeout: func() (time.Time, bool) { late = late.Add(1); return late, true }}, &flood{}, "in a row without a packet"},
		{"packets without end", &flood{left: 1 << 30, size: 1}, &flood{}, "packets at one time"},
		{"empty packet", &flood{left: 1}, &flood{}, "empty packet"},
		{"echo", newEcho(), newEcho(), "without delay"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewPair(test.a, test.b, PairConfig{})
			err := p.Run(time.Hour, func() bool { return false })
			require.ErrorIs(t, err, ErrSpin)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// echo answers each packet with a packet.
type echo struct{ flood }

func newEcho() *echo { return &echo{flood{left: 1, size: 1}} }

func (e *echo) Receive(time.Time, []byte) error { e.left++; return nil }

func TestPairSaysWhyItStopped(t *testing.T) {
	p := NewPair(newWaiter(1, 10), newWaiter(0, 0), PairConfig{AtoB: Config{Loss: 1}})
	err := p.Run(time.Second, func() bool { return false })
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "A sent 6 packets and received 0, B sent 0 and received 0")
	require.Equal(t, time.Second, p.Now().Sub(Epoch))
	p = NewPair(newWaiter(1, 10), newWaiter(0, 0), PairConfig{})
	require.ErrorIs(t, p.Run(time.Second, func() bool { return false }), ErrIdle)
}
