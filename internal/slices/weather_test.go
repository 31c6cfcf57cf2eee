package slices

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// weather sends parts over one path for 4 s, which then becomes another one.
func weather(t *testing.T, before, after netsim.Config) (p *netsim.Pair, a, b *side) {
	a, b = newSide(parts(2000, 32_000)...), newSide()
	p = netsim.NewPair(a, b, netsim.PairConfig{AtoB: before, BtoA: before, Max: 1243, Window: 1 << 20})
	require.NoError(t, p.RunFor(4*time.Second))
	p.A.Link.SetConfig(after)
	p.B.Link.SetConfig(after)
	return p, a, b
}

// TestQueueOfAPathThatBecameSlowDrains: the minimum RTT expired while what fitted the faster
// path still stood in the queue, and the drain let three quarters of that be in flight. So
// the queue was taken for the path, and more was let into it, up to all that it holds: 42 s.
func TestQueueOfAPathThatBecameSlowDrains(t *testing.T) {
	for _, c := range []struct {
		rtt          time.Duration
		before, rate int64
		most         time.Duration
	}{
		{50 * time.Millisecond, 10e6, 200e3, 250 * time.Millisecond},
		{50 * time.Millisecond, 100e6, 1e6, 100 * time.Millisecond},
		{200 * time.Millisecond, 10e6, 1e6, 100 * time.Millisecond},
	} {
		path := netsim.Config{Delay: c.rtt / 2, Rate: c.before, Queue: 1 << 20}
		slow := path
		slow.Rate = c.rate
		p, _, _ := weather(t, path, slow)
		require.NoError(t, p.RunFor(18*time.Second))
		for range 100 {
			require.NoError(t, p.RunFor(100*time.Millisecond))
			queue := time.Duration(p.A.Link.Backlog(p.Now())) * 8 * time.Second / time.Duration(c.rate)
			require.Less(t, queue, c.most, "%v, %d to %d bit/s", c.rtt, c.before, c.rate)
		}
	}
}

// TestPathThatBecameLongIsFilledSoon: while its round trips looked like a queue the window closed
// to four packets, until the minimum RTT expired after 10 s, and then grew by two packets in each
// round trip. When a path of 6 ms became one of 600, a minute later a tenth of it was used.
func TestPathThatBecameLongIsFilledSoon(t *testing.T) {
	for _, c := range []struct {
		before, after time.Duration // round trips
		within        time.Duration
	}{
		{6 * time.Millisecond, 60 * time.Millisecond, 2 * time.Second},
		{20 * time.Millisecond, 120 * time.Millisecond, 2 * time.Second},
		{50 * time.Millisecond, 120 * time.Millisecond, 2 * time.Second},
		{6 * time.Millisecond, 600 * time.Millisecond, 7 * time.Second},
	} {
		path := netsim.Config{Delay: c.before / 2, Rate: 10e6}
		long := path
		long.Delay = c.after / 2
		p, _, b := weather(t, path, long)
		require.NoError(t, p.RunFor(c.within))
		had := len(b.got)
		require.NoError(t, p.RunFor(2*time.Second))
		require.GreaterOrEqual(t, len(b.got)-had, 66, "%v to %v: of 77 parts that the path takes", c.before, c.after)
	}
}

// TestWeatherThatBeginsIsLearnt: jitter that keeps the order makes all round trips longer by
// about as much, and clumps do. The gate counted with the least ones for 10 s, each window
// carried less than the one before it, and no queue showed: transfers took twice as long.
func TestWeatherThatBeginsIsLearnt(t *testing.T) {
	for _, after := range []netsim.Config{{Jitter: 25 * time.Millisecond}, {Clump: 20 * time.Millisecond}} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Queue: 250e3}
		after.Delay, after.Rate, after.Queue = path.Delay, path.Rate, path.Queue
		p, _, b := weather(t, path, after)
		had := len(b.got)
		require.NoError(t, p.RunFor(6*time.Second))
		require.GreaterOrEqual(t, len(b.got)-had, 350, "jitter %v, clumps %v: of 469 parts that the path takes", after.Jitter, after.Clump)
	}
}

// TestStandstillIsNoRoundTrip: everything is stopped on the path for a while and then arrives.
// After that a lost slice was once sent again only after as long as the standstill had lasted.
func TestStandstillIsNoRoundTrip(t *testing.T) {
	for _, hold := range []time.Duration{5 * time.Second, 20 * time.Second} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6}
		stands := path
		stands.Clump = hold
		a, b := newSide(parts(10, 32_000)...), newSide()
		p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
		require.NoError(t, p.RunFor(2*time.Second))
		until := p.Now().Truncate(hold).Add(hold)
		p.A.Link.SetConfig(stands)
		a.parts = parts(3, 32_000)
		require.NoError(t, p.RunFor(until.Sub(p.Now())-40*time.Millisecond))
		p.A.Link.SetConfig(path)
		require.NoError(t, p.RunFor(700*time.Millisecond))

		p.Dark(100 * time.Millisecond)
		a.parts = append(a.parts, content(32_000))
		begin := p.Now()
		require.NoError(t, p.Run(time.Minute, func() bool { return len(a.parts) == 0 && a.out.idle() }))
		require.Less(t, p.Now().Sub(begin), 3*time.Second, "%v", hold)
	}
}
