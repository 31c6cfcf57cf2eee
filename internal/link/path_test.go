package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
)

func TestTooLargeIsTakenBackAndSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, mb, a, _ := pair(t, link.Config{})
		a.SetPath(link.Path{MaxDatagram: 1404})
		a.SetLimit(1163)
		under(la, func() { ma.ready = 2 })
		synctest.Wait()
		under(la, func() {
			require.Equal(t, []uint64{1}, ma.unsent)
			require.Equal(t, []int{1404, 1163, 1163}, ma.maxes)
		})
		under(lb, func() { require.Len(t, mb.received, 2) })
		require.Equal(t, 1163, la.Stats().MaxDatagram)
	})
}

func TestRefusalCountsUntilThePathChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, a, _ := pair(t, link.Config{})
		send := func() int {
			under(la, func() { ma.ready = 1 })
			synctest.Wait()
			return la.Stats().MaxDatagram
		}
		a.SetPath(link.Path{MaxDatagram: 1404})
		a.SetLimit(1200)
		require.Equal(t, 1200, send())
		a.SetPath(link.Path{MaxDatagram: 1329})
		require.Equal(t, 1329, send())

		a.SetLimit(1200)
		require.Equal(t, 1200, send())
		a.SetLimit(1329) // the carrier grew without saying so
		require.Equal(t, 1200, send())
		time.Sleep(10 * time.Second)
		require.Equal(t, 1329, send())
		under(la, func() { require.Len(t, ma.unsent, 2) })
	})
}

func TestDatagramsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, a, _ := pair(t, link.Config{})
		a.SetPath(link.Path{MaxDatagram: 65535})
		under(la, func() { ma.ready = 1 })
		synctest.Wait()
		a.SetPath(link.Path{})
		a.SetLimit(1500)
		under(la, func() { ma.ready = 1 })
		synctest.Wait()
		under(la, func() { require.Equal(t, []int{1500, link.SafeDatagram}, ma.maxes) })
	})
}

// TestCarrierThatTakesTooLittleEndsTheLink: before, a path of 256 to 1,162
// bytes was used, and no bunch was ever sent on it.
func TestCarrierThatTakesTooLittleEndsTheLink(t *testing.T) {
	for _, limit := range []int{0, 100, 1162} {
		synctest.Test(t, func(t *testing.T) {
			la, lb, ma, _, a, _ := pair(t, link.Config{})
			a.SetPath(link.Path{MaxDatagram: limit})
			under(la, func() { ma.ready = 1 })
			<-la.Done()
			require.ErrorContains(t, la.Err(), "a path must carry at least 1163")
			var tooLarge *link.TooLargeError
			require.ErrorAs(t, la.Err(), &tooLarge)
			require.Equal(t, limit, tooLarge.Max)
			<-lb.Done()
		})
	}
}

// TestMachineThatIgnoresTheLimitEndsTheLink shows that refusals in a row are bounded.
func TestMachineThatIgnoresTheLimitEndsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, lb, ma, _, a, _ := pair(t, link.Config{})
		a.SetLimit(1200)
		under(la, func() {
			ma.ready = 1
			ma.ignoreMax = true
		})
		<-la.Done()
		require.ErrorContains(t, la.Err(), "carrier refused 9 datagrams in a row")
		<-lb.Done()
	})
}

func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		la, _, ma, _, a, _ := pair(t, link.Config{})
		a.SetPath(link.Path{MaxDatagram: 1404})
		size := func(hole bool) int {
			under(la, func() { ma.ready, ma.hole = 1, hole })
			synctest.Wait()
			return la.Stats().MaxDatagram
		}
		require.Equal(t, 1404, size(false))
		require.Equal(t, 1163, size(true))
		require.Equal(t, 1163, size(true), "an old report changes nothing")
		time.Sleep(9999 * time.Millisecond)
		require.Equal(t, 1163, size(false))
		time.Sleep(time.Millisecond)
		require.Equal(t, 1404, size(false), "tried again after 10 s")

		require.Equal(t, 1163, size(true))
		time.Sleep(19 * time.Second)
		require.Equal(t, 1163, size(false))
		time.Sleep(time.Second)
		require.Equal(t, 1404, size(false), "the wait doubles")

		time.Sleep(21 * time.Second)
		require.Equal(t, 1163, size(true))
		time.Sleep(10 * time.Second)
		require.Equal(t, 1404, size(false), "a path that held for longer than the wait starts anew")
	})
}

// flyer is a machine that has so many bytes in flight.
type flyer struct {
	*machine
	flying int
}

func (m *flyer) InFlight() int { return m.flying }

// overtaken records the calls of Overtaken.
type overtaken struct {
	*machine
	times []time.Time
}

func (m *overtaken) Overtaken(_, sent time.Time) { m.times = append(m.times, sent) }

// arriver is a machine whose peer has acknowledged a datagram that was sent at that time.
type arriver struct {
	*machine
	arrived time.Time
}

func (m *arriver) Arrived() time.Time { return m.arrived }

func TestFirstMachineHearsWhatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := linktest.Pipe()
		first, second := &overtaken{machine: &machine{first: 1}}, &arriver{machine: &machine{first: 2}}
		l := link.New(a, link.Config{}, first, second)
		receive := func(arrived time.Time) {
			under(l, func() { second.arrived = arrived })
			require.NoError(t, b.SendDatagram([]byte{2}))
			synctest.Wait()
		}
		begin := time.Now()
		receive(time.Time{})
		require.Empty(t, first.times)
		for range 2 {
			receive(begin)
		}
		receive(begin.Add(1))
		require.Equal(t, []time.Time{begin, begin.Add(1)}, first.times, "each once")
		end(l)
		require.NoError(t, b.CloseWithError(0, ""))
	})
}

func TestMachinesShareTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := linktest.Pipe()
		first, second := &flyer{machine: &machine{first: 1}}, &flyer{machine: &machine{first: 2}}
		a.SetPath(link.Path{Cwnd: 103_200, MaxDatagram: 1250})
		l := link.New(a, link.Config{}, first, second)
		windows := func(flying1, flying2 int) (int, int) {
			under(l, func() { first.flying, second.flying = flying1, flying2 })
			synctest.Wait()
			return first.windows[len(first.windows)-1], second.windows[len(second.windows)-1]
		}
		for _, c := range [][4]int{
			{0, 0, 100_000, 100_000},
			{10_000, 0, 100_000, 90_000},
			{100_000, 0, 100_000, 50_000},
			{80_000, 50_000, 50_000, 50_000},
			{50_000, 50_000, 50_000, 50_000},
		} {
			one, two := windows(c[0], c[1])
			require.Equal(t, c, [4]int{c[0], c[1], one, two})
		}
		end(l)
		require.NoError(t, b.CloseWithError(0, ""))
	})
}
