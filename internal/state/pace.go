package state

import "time"

const (
	// standing is how much queueing delay updates may add. If the round trip is longer, they may
	// add that much instead. On Unreal's Bad network profile, jitter alone moves the minimum of
	// a few round trips by more than 50 ms, and slowing down for it made updates seconds old.
	standing = 50 * time.Millisecond
	// long is a queueing delay beyond standing. Above it, the rate is halved once more, because
	// the queue continues to grow until we see that it has drained.
	long = 250 * time.Millisecond
	// Bulk gets at least one byte for every bulkShare bytes of updates. Updates slow down while
	// it gets less. Otherwise a client whose path they fill would never receive its transfer.
	bulkShare = 7
	// leastRate is the minimum rate in bytes per second, however long the queue. That is about
	// twenty small updates a second, or a full packet every two seconds.
	leastRate = 600
	// If the delay is still the same, within alike, after trials rounds at ever lower rates, our
	// updates are not the cause: either the path has become longer or others fill the queue. A
	// queue of our own would be half a second shorter by then, or still grow.
	//
	// alike must allow for other traffic. At 25 ms, a TCP upload on the return path kept updates
	// at leastRate as long as it lasted.
	trials, alike = 4, 100 * time.Millisecond
	// After the first queue, the rate grows by 1/growth in each round. A round is 8 measured
	// round trips, about a quarter of a second at 30 Hz.
	growth = 10
	// firstRate is the initial rate in bytes per second, Unreal's ConfiguredInternetSpeed. A
	// game that needs ten times as much gets it after about two seconds.
	firstRate = 10_000
	mostRate  = 1 << 30 // bytes per second; keeps sums finite
	// calm is the time without a queue after which the rate grows as fast as initially.
	calm  = 10 * time.Second
	idle  = time.Second            // pause after which Look drops its measurements
	burst = 100 * time.Millisecond // after a pause, what the rate allows in this time may be sent at once
	// fewPackets is a number of packets too small to measure their loss.
	fewPackets = 16
	// longTick is the longest tick for which Room allows the whole rate.
	longTick = 250 * time.Millisecond
)

// A Pace slows updates down while packets queue on the path, because queued updates delay
// calls and become old.
//
// The rate grows by 40 % in each round until the first queue. It then drops to 70 % of what
// was sent, and grows by 10 % a round until no queue was seen for calm. It does not grow while
// less than half of it is used and nothing is held back.
//
// Times are measured from a fixed point and must be positive. The zero Pace is ready to use.
// It is not safe for concurrent use.
type Pace struct {
	rate   float64       // bytes per second; 0 before the first Room
	saved  float64       // bytes that may be sent now
	filled time.Duration // when Room last added to saved

	// The current round.
	looked     time.Duration // when the round began
	rounds     int           // argument of Look at that time
	called     time.Duration // when Look was last called
	sent       int           // bytes sent in the round
	bulkSent   int           // bytes of bulk sent in the round
	bulkWaited bool          // bulk waited behind updates in the round

	// The queue on the path.
	base       time.Duration // round trip without a queue
	met        time.Duration // when a queue last stood; 0 = not within calm
	queueSince time.Duration // when the standing queue was met; 0 if none stands
	shrunk     int           // rounds in which shrink cut the rate, since the queue was met or last judged
	rttBefore  time.Duration // round trip before these rounds
	rateBefore float64       // rate before these rounds
	crowd      Crowd         // argument of Among

	lost    float64 // smoothed share of packets that were lost
	losses  uint64  // lost packets so far, when lost was last updated
	packets uint64  // all packets so far, when lost was last updated

	starved    int     // rounds in a row in which bulk did not get its share
	usedBefore float64 // rate of sending when bulk first did not get its share; 0 if it does
}

// Beside records the number of bulk bytes the connection sent since the last call, and
// whether more bulk waits behind unsent updates.
func (p *Pace) Beside(left int, waits bool) {
	p.bulkSent += left
	p.bulkWaited = p.bulkWaited || waits
}

// Among records the state of the paces of all the server's connections.
func (p *Pace) Among(crowd Crowd) { p.crowd = crowd }

// Lost records the number of the connection's packets so far that were lost, and their total.
func (p *Pace) Lost(lost, of uint64) {
	if of < p.packets+fewPackets {
		return
	}
	share := float64(lost-p.losses) / float64(of-p.packets)
	p.lost += (min(1, share) - p.lost) / 4
	p.losses = lost
	p.packets = of
}

// Look adapts the rate to the path.
//
// recent is the minimum of the latest round trips, least is the minimum ever, and rounds
// counts the measurements of recent, as bunch.Conn.RecentRTT returns them. The rate changes
// only if rounds has changed. left is the number of bytes sent since the last call. short
// says whether some bytes were not sent or were held back.
func (p *Pace) Look(now, recent, least time.Duration, rounds, left int, short bool) {
	if now-p.called > idle { // measurements from before the pause no longer apply
		p.begin(now)
		p.rounds = rounds
	}
	p.called = now
	p.sent += left
	if rounds == p.rounds || p.rate == 0 || now-p.looked < burst {
		return
	}
	p.rounds = rounds
	used := float64(p.sent) / (now - p.looked).Seconds()
	lacks := p.bulkWaited && p.bulkSent < p.sent/bulkShare
	p.begin(now)
	if p.base == 0 {
		p.base = least
	}
	p.base = min(p.base, recent)
	switch {
	case recent > p.limit():
		p.met = now
		p.shrink(now, recent, used)
	case p.crowd.overflows() && recent > least+standing/2:
		// A full queue may be shorter than standing or part of base.
		p.shrink(now, recent, used)
	default:
		p.shrunk = 0
		p.queueSince = 0
		p.share(now, used, lacks, short)
	}
}

// begin starts a round.
func (p *Pace) begin(now time.Duration) {
	p.looked = now
	p.sent = 0
	p.bulkSent = 0
	p.bulkWaited = false
}

// share adapts the rate on a path without a queue. lacks says that bulk got less than its share.
func (p *Pace) share(now time.Duration, used float64, lacks, short bool) {
	if !lacks {
		p.starved = 0
		p.usedBefore = 0
		p.grow(now, used, short)
		return
	}
	p.starved++
	if p.starved > 1 || p.met > 0 { // one round may only mean that bulk was just queued
		p.met = now // so that the rate grows by a tenth from now on
		p.leaveBulk(used)
	}
}

// leaveBulk lowers the rate below used to leave bulk a share. Over several rounds, it lowers
// the rate to half at most. Bulk that still gets no more then waits for something else.
func (p *Pace) leaveBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(leastRate, p.usedBefore/2, used*bulkShare/(bulkShare+1))
}

// limit returns the round trip above which a queue stands.
func (p *Pace) limit() time.Duration { return p.base + max(standing, p.base) }

// shrink cuts the rate below used, the rate at which bytes were sent. After trials rounds
// without an effect, it restores the rate instead.
//
// Rounds in which the crowd is undecided do not count. When they did, 32 connections cut
// their rates in vain, because calls and resends filled the path as well. Each connection
// then took the queue for one of others and restored its rate, and the queue stayed full.
func (p *Pace) shrink(now, recent time.Duration, used float64) {
	if p.queueSince == 0 {
		p.queueSince = now
	}
	switch {
	case p.shrunk == 0:
		p.rttBefore = recent
		p.rateBefore = p.rate
	case p.crowd.undecided(p.rate, now-p.queueSince):
		p.rttBefore = recent
		p.shrunk = 0
	}
	p.shrunk++
	if p.shrunk > trials {
		p.shrunk = 0
		if (recent - p.rttBefore).Abs() <= alike { // the queue is not ours
			p.base = recent
			p.rate = p.rateBefore
			p.queueSince = 0
			return
		}
	}
	share := 0.7
	if recent > p.limit()+long {
		share = 0.35
	}
	p.rate = max(leastRate, share*used)
}

// grow raises the rate if at least half of it was used.
func (p *Pace) grow(now time.Duration, used float64, short bool) {
	if now-p.met > calm {
		p.met = 0
	}
	switch {
	case !short && used < p.rate/2:
	case p.met == 0:
		p.rate = min(1.4*p.rate, mostRate)
	default:
		p.rate += p.rate / growth
	}
}

// Room returns the number of bytes that may be sent now, at most most.
func (p *Pace) Room(now time.Duration, most int) int {
	if p.rate == 0 {
		p.rate = firstRate
		p.saved = firstRate * burst.Seconds()
		p.filled = now
		p.looked = now
	}
	span := min(now-p.filled, longTick)
	limit := max(p.rate*max(burst, span).Seconds(), 1200)
	p.saved = min(p.saved+p.rate*span.Seconds(), limit)
	p.filled = now
	return min(most, max(0, int(p.saved)))
}

// Sent subtracts n bytes that were passed on for sending. A negative n adds bytes that were
// not sent after all.
func (p *Pace) Sent(n int) { p.saved -= float64(n) }
