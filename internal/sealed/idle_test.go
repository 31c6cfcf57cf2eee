package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
)

const day = 24 * time.Hour

// send has the source of a send so many pieces more, which all arrive, and
// reports how long the last of them took.
func (s *step) send(n int) {
	s.up.total += n
	s.up.acked = append(s.up.acked, make([]bool, n)...)
	s.a.Wake()
	for range 1000 {
		if s.up.delivered() {
			break
		}
		s.exchange(10 * ms)
	}
	require.Empty(s, s.errors)
	require.True(s, s.up.delivered(), "%v %v, control %v, %d acked, at %v", s.a.State(), s.a.Stats(), s.a.Controller().State(), s.up.ackedN, s.a.now)
	require.Equal(s, Open, s.a.State())
	require.Equal(s, Open, s.b.State())
}

// TestIdleSessionGivesUpItsMemory: an idle session frees its memory about
// single packets, and continues when there is something to send again.
func TestIdleSessionGivesUpItsMemory(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.send(300)
	s.exchange(time.Second)
	require.NotEmpty(t, s.b.reporter.arrivals.slots)
	for range 3 {
		s.now = s.now.Add(trimInterval)
		require.NoError(t, s.a.Advance(s.now))
		require.NoError(t, s.b.Advance(s.now))
	}
	for _, end := range []*Session{s.a, s.b} {
		require.Nil(t, end.reporter.arrivals.slots)
		require.Nil(t, end.arrivals)
		require.LessOrEqual(t, end.records.Cap(), initialRecords)
	}
	s.send(300)
}

// TestIdleForWeeks: if the packets of a report arrived further apart than it can encode, it
// leaves out the older time. Before, the peer took it for malformed and closed the connection.
func TestIdleForWeeks(t *testing.T) {
	for _, idle := range []time.Duration{time.Hour, 2 * time.Hour, 12 * day, 13 * day, 400 * day, 4 * 365 * day} {
		s := newStep(t, 0, nil).open()
		s.send(3)
		s.now = s.now.Add(idle)
		require.NoError(t, s.a.Advance(s.now))
		require.NoError(t, s.b.Advance(s.now))
		s.send(200)
		_, smoothed, _ := s.a.Controller().RTT()
		require.InDelta(t, 20*ms, smoothed, float64(10*ms), "idle for %v", idle)
		require.Less(t, s.a.Controller().Queue(), 20*ms, "idle for %v", idle)
	}
}

// TestPeersClockComesRound after 48 bits of microseconds, 9 years: arrivals
// before and after compare.
func TestPeersClockComesRound(t *testing.T) {
	const round = (clockMask + 1) * clockUnit
	s := newStep(t, 0, nil)
	s.now = clockOrigin.Add(round - 100*ms)
	s.open()
	s.send(300)
	require.Greater(t, s.b.reporter.arrivals.offset+s.b.now, round)
	require.InDelta(t, float64(round+s.b.reporter.arrivals.offset+s.b.now), float64(s.a.peerClock)*1e3, float64(time.Second), "it began one round above 0")
	require.Less(t, s.a.Controller().Queue(), 20*ms)
	rate := s.a.Controller().Estimate()

	same := newStep(t, 0, nil).open()
	same.send(300)
	require.InEpsilon(t, same.a.Controller().Estimate(), rate, 0.01, "as where it does not come round")
}

func TestUnwrap(t *testing.T) {
	const round = clockMask + 1
	for _, c := range []struct{ last, low, want uint64 }{
		{0, 5, round + 5}, {round + 5, 4, round + 4}, {round + 5, round - 1, round - 1}, {2*round - 1, 0, 2 * round},
		{2 * round, round - 1, 2*round - 1}, {round, round/2 - 1, round + round/2 - 1}, {round, round / 2, round / 2},
	} {
		require.Equal(t, c.want, unwrapClock(c.last, c.low), "%d after %d", c.low, c.last)
	}
}

// at makes the packets from from to to continue at a number, as after that many packets.
func (s *step) at(from, to *Session, number uint64) {
	from.records = records{Ring: recovery.Ring[record]{Oldest: number, Next: number}, searchFrom: number}
	from.skips.draw(number)
	to.opener.window = recovery.Window{Next: number}
	to.reporter.knownBelow, to.reporter.ends = number, [reportMemory]uint64{}
	for to.opener.current.index < (number-recovery.WindowSize)>>generationBits {
		var err error
		to.opener.current, err = to.opener.current.next()
		require.NoError(s, err)
	}
	to.opener.rotateKeys()
}

// TestNumbersComeRound where the number on the wire begins again at 0, which is
// a change of keys too.
func TestNumbersComeRound(t *testing.T) {
	s := newStep(t, 0, nil)
	s.at(s.a, s.b, 1<<32-100)
	s.at(s.b, s.a, 1<<32-20)
	s.open()
	s.send(400)
	require.Greater(t, s.a.records.Next, uint64(1<<32+250))
	require.EqualValues(t, 1<<32>>generationBits, s.a.sealer.keys.index)
	require.Zero(t, s.a.Stats().Dropped()+s.b.Stats().Dropped())
	require.Zero(t, s.a.Stats().Lost)
}

// TestClockThatRunsBack: a clock that runs back stands still for a session
// until it is where it was.
func TestClockThatRunsBack(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.send(10)
	s.now = netsim.Epoch.Add(-time.Hour)
	s.up.total, s.up.acked = 20, make([]bool, 20)
	s.up.ackedN, s.up.next = 0, 0
	s.a.Wake()
	require.NoError(t, s.a.Advance(s.now))
	require.NoError(t, s.b.Advance(s.now))
	s.now = netsim.Epoch.Add(time.Second)
	s.send(0)
}
