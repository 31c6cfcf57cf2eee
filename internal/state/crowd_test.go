package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCrowd checks which paces count in a crowd, and what the crowd concludes
// about the queue that they meet.
func TestCrowd(t *testing.T) {
	const now = time.Minute
	none := Pace{rate: minRate, lastLook: now}
	low := Pace{rate: minRate, lastLook: now, lastQueue: now}
	high := Pace{rate: 2 * minRate, lastLook: now, lastQueue: now}
	idler := Pace{rate: minRate, lastQueue: now, lastLook: now - idleTime - 1}
	unacked := Pace{rate: minRate, lastLook: now, lost: 1}
	losing := Pace{rate: minRate, lastLook: now, lastQueue: now, lost: 2.5 * overflow}
	for name, row := range map[string]struct {
		paces                        []Pace
		queues, overflows, undecided bool // undecided of a pace that has the least rate
	}{
		"nobody":                           {},
		"one":                              {paces: []Pace{high}},
		"half of them":                     {paces: []Pace{high, high, none, none}},
		"most, and most are high":          {paces: []Pace{high, high, high, none}, queues: true, undecided: true},
		"most, and half are high":          {paces: []Pace{high, high, low, low}, queues: true},
		"most, who are low":                {paces: []Pace{low, low, none}, queues: true},
		"who pauses does not count":        {paces: []Pace{high, none, idler, idler}},
		"who has not begun does not":       {paces: []Pace{low, low, {}, {}}, queues: true},
		"most, and the queue is full":      {paces: []Pace{low, low, losing, losing}, queues: true, overflows: true, undecided: true},
		"most, and one in four loses":      {paces: []Pace{low, low, low, losing}, queues: true},
		"losses without a queue":           {paces: []Pace{none, none, none, losing, losing}},
		"losses of those that meet none":   {paces: []Pace{low, low, low, unacked, unacked}, queues: true, overflows: true, undecided: true},
		"losses of those that have paused": {paces: []Pace{low, low, {rate: minRate, lost: 1}}, queues: true},
	} {
		var c Crowd
		for i := range row.paces {
			c.Add(&row.paces[i], now)
		}
		require.Equal(t, row.queues, c.mostQueue(), name)
		require.Equal(t, row.overflows, c.overflows(overflow/4), name)
		require.False(t, c.overflows(overflow/5), "it is not the queue of one that loses nothing")
		undecided := func(rate float64, lasted time.Duration) bool {
			return c.undecided(&Pace{rate: rate, lost: overflow}, lasted)
		}
		require.Equal(t, row.undecided, undecided(minRate, patience-1), name)
		require.Equal(t, row.queues, undecided(minRate+1, patience-1), name)
		require.Equal(t, row.overflows, undecided(minRate+1, patience), name)
	}
}

// TestLost: a pace follows the share that is lost of so many packets that few
// losses by chance do not move it much.
func TestLost(t *testing.T) {
	var p Pace
	p.NoteLoss(1, minLossSample-1)
	require.Zero(t, p.lost, "too few to tell")
	p.NoteLoss(minLossSample/2, minLossSample)
	require.Equal(t, 0.125, p.lost)
	for i := range uint64(50) {
		p.NoteLoss(minLossSample/2*(i+2), minLossSample*(i+2))
	}
	require.InDelta(t, 0.5, p.lost, 0.001)
	p.NoteLoss(1e6, minLossSample*52) // more than were decided
	require.LessOrEqual(t, p.lost, 1.0)
}

// shared is a link on which the updates of many connections meet, beside calls,
// and which drops what its queue does not hold.
type shared struct {
	bottleneck
	holds float64 // bytes
	paces []Pace
	// How many of paces, the first ones, are of clients that tell of round
	// trips of 5 s, and acknowledge a packet in a hundred.
	lie  int
	ours int // bytes that left for the others

	given  []int
	held   []bool
	lost   []float64     // packets of each, at ten a tick
	again  float64       // bytes of calls that were dropped, and leave again
	asked  time.Duration // when a round trip was last measured
	rounds int
}

func newShared(b bottleneck, holds float64, paces int) *shared {
	return &shared{bottleneck: b, holds: holds, paces: make([]Pace, paces), given: make([]int, paces), held: make([]bool, paces), lost: make([]float64, paces)}
}

// run has bytes of updates wait on each connection at each tick. It returns the
// bytes sent a second over all connections, the share of these and of the calls
// that was dropped, and the longest round trip.
func (s *shared) run(from, to time.Duration, wants int) (rate, dropped float64, longest time.Duration) {
	const tick = time.Second / 30
	left := 0
	for now := from; now < to; now += tick {
		rtt := s.delay + time.Duration(s.queue/s.rate*float64(time.Second))
		longest = max(longest, rtt)
		if now-s.asked > max(rtt, 8*tick) {
			s.asked, s.rounds = now, s.rounds+1
		}
		var crowd Crowd
		for i := range s.paces {
			crowd.Add(&s.paces[i], now)
		}
		sum := 0
		for i := range s.paces {
			if i < s.lie {
				sum += s.flush(i, now, 5*time.Second, wants, crowd)
				s.lost[i] += 9.9
				continue
			}
			n := s.flush(i, now, rtt, wants, crowd)
			sum, s.ours = sum+n, s.ours+n
		}
		left += sum
		calls := s.others*tick.Seconds() + s.again
		offered := float64(sum) + calls
		s.queue = max(0, s.queue+offered-s.rate*tick.Seconds())
		over := max(0, s.queue-s.holds) / offered
		s.queue, s.again = min(s.queue, s.holds), over*calls
		dropped += over * tick.Seconds() / (to - from).Seconds()
		for i := range s.lost {
			s.lost[i] += 10 * over
		}
	}
	return float64(left) / (to - from).Seconds(), dropped, longest
}

func (s *shared) flush(i int, now, rtt time.Duration, wants int, crowd Crowd) int {
	p := &s.paces[i]
	p.SetCrowd(crowd)
	p.NoteLoss(uint64(s.lost[i]), uint64(10*now/(time.Second/30)))
	p.Look(now, Sample{RecentRTT: rtt, MinRTT: s.delay, Rounds: s.rounds, Sent: s.given[i], More: s.held[i]})
	s.given[i] = min(wants, p.Room(now, 64<<10))
	s.held[i] = s.given[i] < wants
	p.Sent(s.given[i])
	return s.given[i]
}

// TestCrowdEmptiesItsQueue: connections on one link, of which calls take more than half, find
// out that the queue is theirs. Before, each cut its rate by three quarters, which did not empty
// the queue, and took it for that of others: from then on eight in ten packets were dropped.
func TestCrowdEmptiesItsQueue(t *testing.T) {
	for _, holds := range []float64{16_000, 64_000, 1e6} {
		s := newShared(bottleneck{rate: 250_000, others: 140_000, delay: 40 * time.Millisecond}, holds, 32)
		s.run(time.Second, 20*time.Second, 600)
		rate, dropped, longest := s.run(20*time.Second, 80*time.Second, 600)
		t.Logf("queue of %.0f: %.0f B/s of states, %.3f dropped, round trips of up to %v", holds, rate, dropped, longest)
		require.Greater(t, rate, 0.8*(s.rate-s.others))
		require.Less(t, dropped, 0.05)
		require.Less(t, longest, 200*time.Millisecond)
	}
}

// TestCrowdInSomebodysQueue: if all connections meet a queue that they do not
// cause, such as that of a TCP upload on the return path, it takes some seconds
// longer than with one connection until all their updates are sent again.
func TestCrowdInSomebodysQueue(t *testing.T) {
	for _, sway := range []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond} {
		const step = 300 * time.Millisecond
		s := newShared(bottleneck{rate: 10e6, delay: 50 * time.Millisecond}, 1e9, 16)
		s.run(time.Second, 10*time.Second, 500)
		sum, late := 0.0, 0.0
		for i := range 200 {
			from := 10*time.Second + time.Duration(i)*step
			s.queue = s.rate * (100*time.Millisecond + sway*time.Duration(i%7)/7).Seconds()
			s.others = s.rate
			rate, _, _ := s.run(from, from+step, 500)
			if sum += rate / 200; i >= 100 {
				late += rate / 100
			}
		}
		const all = 16 * 500 * 10 / 0.3 // B/s: a step has ten ticks
		t.Logf("sway %v: %.3f of all, %.3f after 30 s", sway, sum/all, late/all)
		require.Greater(t, late, 0.99*all)
		require.Greater(t, sum, 0.93*all, "the rate from before comes back at once; 0.84 while it grew again from the least")
	}
}

// TestLiarsInACrowd: a few clients that acknowledge next to nothing, or whose paths lose much,
// do not keep the others from recognising a queue that they do not cause. While only the mean
// counted, one of nine was enough to make the others' updates continue at the least rate.
func TestLiarsInACrowd(t *testing.T) {
	for _, row := range []struct{ paces, lie int }{{2, 1}, {4, 1}, {9, 2}, {16, 4}} {
		s := newShared(bottleneck{rate: 10e6, delay: 50 * time.Millisecond}, 1e9, row.paces)
		s.lie = row.lie
		s.run(time.Second, 10*time.Second, 500)
		s.others = s.rate
		for at := 10 * time.Second; at < 40*time.Second; at += time.Second {
			s.queue = s.rate * 0.15 // which somebody else keeps there
			if at == 30*time.Second {
				s.ours = 0
			}
			s.run(at, at+time.Second, 500)
		}
		wants := 10 * (row.paces - row.lie) * 15_000
		t.Logf("%d of %d lie: %d bytes of %d", row.lie, row.paces, s.ours, wants)
		require.Greater(t, s.ours, wants*9/10)
	}
}

// TestOthersWithQueuesOfTheirOwn: beside two on narrow links, whose updates keep
// meeting queues there, a connection whose path has become longer sends all its updates
// again. Before, it waited forever, at the least rate, for the others to slow down.
func TestOthersWithQueuesOfTheirOwn(t *testing.T) {
	const tick = time.Second / 30
	narrow := bottleneck{rate: 9000, others: 5000, delay: 80 * time.Millisecond}
	links := []bottleneck{narrow, narrow, {rate: 1e6, delay: 40 * time.Millisecond}}
	paces, given := make([]Pace, len(links)), make([]int, len(links))
	const want = 700 // bytes at a tick
	rounds, sum := 0, 0
	for n := range 60 * 30 {
		now := time.Second + time.Duration(n)*tick
		if n%10 == 0 {
			rounds++
		}
		if n == 20*30 {
			links[2].delay += 100 * time.Millisecond
		}
		var crowd Crowd
		for i := range paces {
			crowd.Add(&paces[i], now)
		}
		for i := range paces {
			p := &paces[i]
			p.SetCrowd(crowd)
			p.Look(now, Sample{RecentRTT: links[i].tick(given[i], tick), MinRTT: 40 * time.Millisecond, Rounds: rounds, Sent: given[i], More: given[i] < want})
			given[i] = min(want, p.Room(now, 64<<10))
			p.Sent(given[i])
		}
		if n >= 50*30 {
			sum += given[2]
		}
	}
	require.Greater(t, sum, want*300*9/10)
}
