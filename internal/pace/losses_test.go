package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// passing sends 120 packets from a cruising controller, one each millisecond,
// over 100 ms and a queue as deep as met returns. Of the last 40 packets run
// are lost, one after the other, which shows when the next ones arrive.
func passing(met func(i int) time.Duration, run int) *Controller {
	c, begin := New(Config{Packet: 1000}), time.Unix(1000, 0)
	c.rates.set(0, 1e6)
	c.enter(Cruise, 1)
	left := func(i int) time.Time { return begin.Add(time.Duration(i) * ms) }
	var sent []Sample
	for i := range 120 {
		sent = append(sent, c.Sent(left(i), 1000, 100_000))
	}
	first := 80
	for i, s := range sent {
		now := left(i).Add(100*ms + met(i))
		if i >= first && i < first+run {
			continue
		}
		if i == first+run+3 {
			for _, lost := range sent[first : first+run] {
				c.Lost(now, lost, 1000)
			}
		}
		c.Acked(now, s, 1000, now.Add(-50*ms))
		c.Feedback(now, 100_000)
	}
	return c
}

// TestARunBesideAQueueIsOneEvent: a queue that drops packets is full, so a run
// of lost packets beside one that was deeper a moment ago was not dropped by
// it, although a look may have made that queue. When each of them counted, a
// transfer alone believed that it competed, and that the queue was short.
func TestARunBesideAQueueIsOneEvent(t *testing.T) {
	rises := func(most, last time.Duration) func(i int) time.Duration {
		return func(i int) time.Duration {
			switch {
			case i < 20:
				return time.Duration(i) * most / 20
			case i < 60:
				return most
			}
			return last
		}
	}
	for _, met := range []time.Duration{8 * ms, 12 * ms, 14 * ms} {
		c := passing(rises(20*ms, met), 30)
		require.Equal(t, 29, c.round.fates.consecutive, met)
		require.False(t, c.flooded(), met)
		require.Equal(t, Cruise, c.State(), met)
		require.Zero(t, c.delay.depth, met)
		require.Zero(t, c.competition.lossAnswered, met)
	}
	full := passing(rises(20*ms, 19*ms), 30)
	require.Equal(t, Compete, full.State(), "a full queue")
	require.Equal(t, 20*ms, full.delay.depth.Round(ms))
}

// TestARunInALookIsOneEvent: a run of losses does not invalidate what a look
// has found, and does not show that the path drops instead of queueing.
func TestARunInALookIsOneEvent(t *testing.T) {
	looked := func(rate float64, outcome tally) (c *Controller, found bool) {
		c = New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 1e6)
		c.openLook(2)
		c.rates.set(0, rate)
		c.look.outcome = outcome
		found = c.judgeLook(3)
		c.round.number = c.look.until
		c.judgeLook(4)
		return c, found
	}
	run, each := tally{lost: 20, acked: 40, consecutive: 19}, tally{lost: 20, acked: 40}
	_, found := looked(1.25e6, run)
	require.True(t, found)
	_, found = looked(1.25e6, each)
	require.False(t, found)
	c, _ := looked(1e6, run)
	require.False(t, c.looks.shallow)
	require.NotZero(t, c.looks.extra)
	c, _ = looked(1e6, each)
	require.True(t, c.looks.shallow)
}

// TestRunsOfAPolicerAreNoOutages: what exceeds the rate of a policer, or of a
// short queue, is lost in runs between which few packets pass, each time. A
// radio that fades often spares few too, but not each time.
func TestRunsOfAPolicerAreNoOutages(t *testing.T) {
	oneEvent := func(passed ...uint16) (continues bool) {
		var r run
		number := uint16(1000)
		for _, n := range passed {
			number += n + 1
			require.False(t, r.add(number), "a run begins")
			number++
			continues = r.add(number)
		}
		return continues
	}
	require.True(t, oneEvent(100))
	require.False(t, oneEvent(4, 4, 4, 4, 4, 4))
	require.True(t, oneEvent(4, 4, 100, 4, 4, 100, 4, 4))
	require.True(t, oneEvent(12, 12, 12, 12, 12, 12))
}

// TestAPathIsNoPolicerFourTimesAsFast: a run swallowed all of a first flight but
// one packet, and the transfer continued at a three-hundredth of its rate. For ten
// seconds no look was believed, as behind a policer: it took four times the ideal.
func TestAPathIsNoPolicerFourTimesAsFast(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.start.hint = 1e6
	c.round.fates = tally{lost: 49, acked: 1, consecutive: 48}
	c.endByLoss(time.Second)
	left := c.Estimate()
	require.NotZero(t, left)
	c.rates.set(0, 3.9*left)
	require.True(t, c.startDroppedLately(2*time.Second))
	c.rates.set(0, 4*left)
	require.False(t, c.startDroppedLately(2*time.Second))
}

// TestALookOfFewPacketsIsNotInVain: a look of two packets can find nothing, so
// after a start that met losses it does not delay the next one.
func TestALookOfFewPacketsIsNotInVain(t *testing.T) {
	for _, row := range []struct {
		packets int
		dropped instant
		inVain  bool
	}{{minLookPackets, 1, true}, {minLookPackets - 1, 1, false}, {minLookPackets - 1, 0, true}} {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 1e5)
		c.start.dropped = row.dropped
		c.openLook(2)
		c.look.outcome.acked = row.packets
		c.closeLook()
		require.Equal(t, row.inVain, c.looks.inVain)
	}
}

// TestFloodOfFewPackets: three packets of a round show nothing, those of many rounds do.
func TestFloodOfFewPackets(t *testing.T) {
	dice := testkit.Rand(t)
	shows := func(share float64, rounds int) bool {
		var f flood
		var r round
		for range rounds {
			for range 3 {
				if left := r.sentIn(uint8(r.number)); dice.Float64() < share {
					left.lost++
				} else {
					left.acked++
				}
			}
			if f.roundOver(&r); f.shows() {
				return true
			}
			r.next(0, 0, 0)
		}
		return false
	}
	require.True(t, shows(0.35, 400))
	require.False(t, shows(1, 3+lossMemory/4/3), "too few")
	for range 20 {
		require.False(t, shows(maxRandomLoss/2, 400))
	}
}

// TestARoundOfManyShowsItsFlood: a round of as many packets as a train needs no
// others, and discards what was gathered before it.
func TestARoundOfManyShowsItsFlood(t *testing.T) {
	var f flood
	var r round
	play := func(left tally, rounds int) {
		for range rounds {
			*r.sentIn(uint8(r.number)) = left
			f.roundOver(&r)
			r.next(0, 0, 0)
		}
	}
	play(tally{lost: trainPackets, acked: trainPackets}, 9)
	require.False(t, f.shows(), "each has shown it")
	play(tally{lost: 2, acked: 2}, 3+lossMemory/4/4)
	require.True(t, f.shows())
	play(tally{acked: trainPackets}, 4)
	require.False(t, f.shows())
}

// TestAFloodIsAnsweredOnce: packets that were sent before the flood was
// answered, in a start or before a competition, no longer count.
func TestAFloodIsAnsweredOnce(t *testing.T) {
	c := New(Config{})
	lose := func(rounds int) {
		for range rounds {
			*c.round.sentIn(uint8(c.round.number)) = tally{lost: trainPackets / 4, acked: trainPackets / 4}
			c.endRound(0)
		}
	}
	lose(12)
	require.True(t, c.flooded())
	c.enter(Drain, 0)
	require.False(t, c.flooded(), "a start has ended")
	lose(3)
	require.False(t, c.flooded(), "no packet's fate is known that left later")
	lose(9)
	require.True(t, c.flooded())
	c.compete(0)
	require.False(t, c.flooded())
}
