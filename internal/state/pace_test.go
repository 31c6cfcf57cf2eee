package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inFlight is what the machine lets be under way of all that is no bulk.
const inFlight = 12_000

// bottleneck is a link that queues what arrives too fast.
type bottleneck struct {
	rate   float64 // bytes a second
	queue  float64 // bytes
	others float64 // bytes a second that others send
	delay  time.Duration
}

func (b *bottleneck) tick(sent int, tick time.Duration) (rtt time.Duration) {
	b.queue = max(0, b.queue+float64(sent)+(b.others-b.rate)*tick.Seconds())
	return b.delay + time.Duration(b.queue/b.rate*float64(time.Second))
}

// run has bytes of updates wait at each tick for a time. It returns the bytes
// sent a second and the longest round trip, both of the second half.
func (b *bottleneck) run(p *Pace, from, to time.Duration, wants int) (rate float64, longest time.Duration) {
	const tick = time.Second / 30
	bytes, given, held := 0, 0, false
	asked, rounds := from, int(from)
	rtt := b.delay
	for now := from; now < to; now += tick {
		if now-asked > rtt {
			asked, rounds = now, rounds+1
		}
		p.Look(now, Sample{RecentRTT: rtt, MinRTT: b.delay, Rounds: rounds, Sent: given, More: held})
		room := p.Room(now, 64<<10)
		given = min(wants, room, max(0, inFlight-int(b.queue)))
		held = given < wants
		p.Sent(given)
		rtt = b.tick(given, tick)
		if now > (from+to)/2 {
			bytes, longest = bytes+given, max(longest, rtt)
		}
	}
	return float64(bytes) / (to - (from+to)/2).Seconds(), longest
}

func TestPaceLetsAllPass(t *testing.T) {
	b, p := bottleneck{rate: 1e6, delay: 80 * time.Millisecond}, Pace{}
	rate, longest := b.run(&p, time.Second, 20*time.Second, 3000)
	require.InDelta(t, 90_000, rate, 3000)
	require.Less(t, longest, 90*time.Millisecond)
}

func TestPaceKeepsNoQueue(t *testing.T) {
	for _, rate := range []float64{4000, 20_000, 40_000, 60_000, 100_000} {
		b, p := bottleneck{rate: rate, delay: 80 * time.Millisecond}, Pace{}
		b.run(&p, 0, 3*time.Second, 100) // what was sent while nothing was held back is no debt
		got, longest := b.run(&p, 3*time.Second, 60*time.Second, 6000)
		t.Logf("%v of %v bytes a second, at most %v", got, rate, longest)
		require.Greater(t, got, 0.6*rate)
		require.Less(t, longest, 600*time.Millisecond)
	}
}

// A queue that stays whatever is held back is that of others, or the path has become longer.
func TestPaceGivesUpInVain(t *testing.T) {
	b, p := bottleneck{rate: 1e6, delay: 50 * time.Millisecond}, Pace{}
	b.run(&p, time.Second, 10*time.Second, 3000)
	b.delay = 150 * time.Millisecond
	b.run(&p, 10*time.Second, 40*time.Second, 3000)
	rate, _ := b.run(&p, 40*time.Second, 80*time.Second, 3000)
	require.InDelta(t, 90_000, rate, 9000)
}

// A queue on the return path that varies, as that of a TCP upload does, is not caused
// by updates. Before, they had the least rate for as long as it varied, and sixteen
// players saw each other half a second late although the path to them was idle.
func TestPaceBesideAQueueThatSways(t *testing.T) {
	const step, steps = 300 * time.Millisecond, 200
	for _, sway := range []time.Duration{50 * time.Millisecond, 75 * time.Millisecond, 100 * time.Millisecond} {
		for _, period := range []int{4, 7, 10, 20} { // in steps
			b, p := bottleneck{rate: 1e6, delay: 50 * time.Millisecond}, Pace{}
			b.run(&p, time.Second, 10*time.Second, 500)
			sum := 0.0
			for i := range steps {
				b.delay = 150*time.Millisecond + sway*time.Duration(i%period)/time.Duration(period)
				from := 10*time.Second + time.Duration(i)*step
				rate, _ := b.run(&p, from, from+step, 500)
				sum += rate / steps
			}
			require.Greater(t, sum, 14_000.0, "sway %v, period %v", sway, time.Duration(period)*step) // all that waits
		}
	}
}

// A server that ticks five times a second has all of its rate.
func TestPaceOfLongTicks(t *testing.T) {
	var p Pace
	left := 0
	for now := time.Second; now < 11*time.Second; now += 200 * time.Millisecond {
		room := p.Room(now, 64<<10)
		p.Sent(room)
		left += room
	}
	require.InDelta(t, 10*firstRate, left, firstRate/2)
}

// TestPaceLeavesBulkAPart: updates that never pause leave some of the path to bulk that waits
// behind them, and take all of it if none waits. Before, bulk had nothing for as long as they
// filled the path. Bulk that does not use its part costs updates little, or half at worst.
func TestPaceLeavesBulkAPart(t *testing.T) {
	const tick, perTick = time.Second / 30, 100_000 / 30
	for _, row := range []struct {
		name        string
		waits, full bool // full: others fill the path when updates do not
		takes       int  // bytes of bulk a tick, at most what updates leave
		least, most float64
	}{
		{"no bulk", false, false, 0, 0.99, 1},
		{"bulk", true, false, perTick, 0.85, 0.96},
		{"bulk that takes nothing", true, false, 0, 0.85, 1},
		{"bulk beside others", true, true, 0, 0.4, 0.6},
	} {
		p := Pace{}
		waiting, updates := 0, 0
		for i := range 30 * 60 {
			now := time.Duration(i) * tick
			left := min(waiting, perTick)
			unsent, bulk := waiting-left, min(row.takes, perTick-left)
			if i >= 15*30 {
				updates += left
			}
			p.NoteBulk(bulk, row.waits && (unsent > 0 || row.full && i > 10*30))
			p.Look(now, Sample{RecentRTT: 50 * time.Millisecond, MinRTT: 50 * time.Millisecond, Rounds: i / 2, Sent: left, More: true})
			p.Sent(-unsent)
			waiting = p.Room(now, 3*perTick)
			p.Sent(waiting)
		}
		share := float64(updates) / (perTick * 45 * 30)
		t.Logf("%s: %.2f", row.name, share)
		require.InDelta(t, (row.least+row.most)/2, share, (row.most-row.least)/2+0.01, row.name)
	}
}
