package state

import "time"

const (
	// standing is the delay by a standing queue that updates may cause. If the round trip is
	// longer than that, they may cause a delay of a round trip. On Unreal's Bad network profile,
	// jitter alone moves the minimum of a few round trips by more than 50 ms, and slowing down for
	// it made updates seconds old.
	standing = 50 * time.Millisecond
	// long is by how much a queue may exceed that before we halve the rate once more. It's too long
	// to wait for the usual cut to take effect, because the queue continues to grow until we
	// see that it has drained.
	long = 250 * time.Millisecond
	// bulkShare is how many bytes of updates we send for each byte of bulk (transfers) that is
	// waiting. Updates slow down if bulk gets less. Otherwise a client whose path they fill
	// would never receive its transfer.
	bulkShare = 7
	// leastRate is the lowest rate in bytes per second, however long the queue. That is about
	// twenty small updates a second, or a full packet every two seconds.
	leastRate = 600
	// After trials rounds at ever lower rates, our updates are not to blame if the delay is
	// still the same, give or take alike: either the path has become longer or others fill the
	// queue. A queue of our own would be half a second shorter by then, or still grow.
	//
	// alike must allow for other traffic. At 25 ms, a TCP upload on the return path kept updates
	// at leastRate for as long as it lasted.
	trials, alike = 4, 100 * time.Millisecond
	// growth is how slowly the rate grows after the first queue, by 1/growth in each round. A
	// round is 8 measured round trips, about a quarter of a second at 30 Hz.
	growth = 10
	// firstRate is the initial rate in bytes per second, Unreal's ConfiguredInternetSpeed. A
	// game that needs ten times as much gets it after about two seconds.
	firstRate = 10_000
	mostRate  = 1 << 30 // bytes per second; keeps sums finite
	// calm is how long there must be no queue until the rate may grow as fast as initially.
	calm = 10 * time.Second
	// idle is how long a pause makes the measurements before it worthless.
	idle = time.Second
	// burst is how much may be sent at once after a pause: what the rate allows in this time.
	burst = 100 * time.Millisecond
	// fewPackets is a number of packets that is too small to measure their loss.
	fewPackets = 16
	// longTick is the longest tick for which Room allows the whole rate.
	longTick = 250 * time.Millisecond
)

// A Pace is the congestion control of updates to one client. It slows them down while packets
// queue on the path, because in a queue updates become old and delay the game's calls.
//
// It works in rounds of a few measured round trips. The rate grows by 40 % in each round until we
// first see a queue. We then cut it to 70 % of what was sent, and let it grow by 10 % a round
// until there has been no queue for calm. It does not grow while less than half of it is used and
// nothing is held back.
//
// Times are measured from a fixed point and must be positive. The zero Pace is ready to use.
// It is not safe for concurrent use.
type Pace struct {
	// A token bucket.
	rate   float64       // bytes per second; 0 before the first Room
	saved  float64       // bytes that may be sent now
	filled time.Duration // when Room last added to saved

	// The current round.
	looked     time.Duration // when the round began
	rounds     int           // Look's argument when the round began
	called     time.Duration // when Look was last called
	sent       int           // bytes of updates sent
	bulkSent   int           // bytes of bulk sent
	bulkWaited bool          // bulk has had to wait behind updates

	// The queue on the path.
	base       time.Duration // round trip without a queue
	met        time.Duration // when we last saw a queue; 0 if not within calm
	queueSince time.Duration // when we first saw the present queue; 0 if there is none
	crowd      Crowd         // the other connections' paces; set by Among

	// The trial that is to show whether the queue is ours.
	shrunk     int           // rounds in which we cut the rate; 0 if there is no trial
	rttBefore  time.Duration // round trip before the trial
	rateBefore float64       // rate before the trial

	// Packet loss.
	lost    float64 // smoothed share of packets that were lost
	losses  uint64  // lost packets so far, when lost was last updated
	packets uint64  // all packets so far, when lost was last updated

	// Bulk that gets less than its share.
	starved    int     // rounds in a row
	usedBefore float64 // rate at which we sent before we slowed down for it; 0 if we haven't
}

// Beside records how many bytes of bulk the connection has sent since the last call, and whether
// more bulk waits behind unsent updates.
func (p *Pace) Beside(left int, waits bool) {
	p.bulkSent += left
	p.bulkWaited = p.bulkWaited || waits
}

// Among records what the paces of all the server's connections add up to.
func (p *Pace) Among(crowd Crowd) { p.crowd = crowd }

// Lost records how many of the connection's packets have been lost so far, and of how many.
func (p *Pace) Lost(lost, of uint64) {
	if of < p.packets+fewPackets {
		return
	}
	share := float64(lost-p.losses) / float64(of-p.packets)
	p.lost += (min(1, share) - p.lost) / 4
	p.losses = lost
	p.packets = of
}

// A Sample is what Look is told about the path and about the updates since the last call.
type Sample struct {
	// Round trips, as bunch.Conn.RecentRTT returns them.
	RecentRTT time.Duration // minimum of the latest ones
	MinRTT    time.Duration // minimum ever
	Rounds    int           // how often RecentRTT has been measured

	Sent int  // bytes of updates that were sent
	More bool // there were more updates, which could not be sent or were held back
}

// Look adapts the rate to the path. It only does so if Rounds has changed since the last call.
func (p *Pace) Look(now time.Duration, s Sample) {
	if now-p.called > idle {
		// We don't know what has happened on the path in the meantime.
		p.begin(now)
		p.rounds = s.Rounds
	}
	p.called = now
	p.sent += s.Sent
	if s.Rounds == p.rounds || p.rate == 0 || now-p.looked < burst {
		return
	}
	p.rounds = s.Rounds
	used := float64(p.sent) / (now - p.looked).Seconds()
	lacks := p.bulkWaited && p.bulkSent < p.sent/bulkShare
	p.begin(now)
	if p.base == 0 {
		p.base = s.MinRTT
	}
	p.base = min(p.base, s.RecentRTT)
	switch {
	case s.RecentRTT > p.limit():
		p.met = now
		p.shrink(now, s.RecentRTT, used)
	case p.crowd.overflows(p.lost) && s.RecentRTT > s.MinRTT+standing/2:
		// The queue that most connections share is full, although it looks short here. It may
		// hold less than standing, or base may include it.
		p.shrink(now, s.RecentRTT, used)
	default:
		p.shrunk = 0
		p.queueSince = 0
		p.share(now, used, lacks, s.More)
	}
}

// begin starts a round.
func (p *Pace) begin(now time.Duration) {
	p.looked = now
	p.sent = 0
	p.bulkSent = 0
	p.bulkWaited = false
}

// share adapts the rate while there is no queue. lacks says that bulk got less than its share in
// the last round.
func (p *Pace) share(now time.Duration, used float64, lacks, short bool) {
	if !lacks {
		p.starved = 0
		p.usedBefore = 0
		p.grow(now, used, short)
		return
	}
	p.starved++
	if p.starved > 1 || p.met > 0 { // a first round may only mean that bulk was just queued
		p.met = now // so that the rate grows by a tenth from now on
		p.leaveBulk(used)
	}
}

// leaveBulk lowers the rate below used, so that bulk gets its share of what we have been sending.
// However many rounds that takes, the rate falls no lower than half of what it was at the start.
// If bulk still gets no more by then, it is waiting for something else.
func (p *Pace) leaveBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(leastRate, p.usedBefore/2, used*bulkShare/(bulkShare+1))
}

// limit returns the round trip above which we take the path to have a standing queue.
func (p *Pace) limit() time.Duration { return p.base + max(standing, p.base) }

// shrink cuts the rate below used, the rate at which we have been sending. If that has made no
// difference to the queue after trials rounds, it restores the rate instead, since the queue isn't
// ours.
//
// Rounds in which the crowd is undecided do not count. When they did, 32 connections cut their
// rates in vain, because calls and resends filled the path as well. Each of them concluded that
// the queue must be somebody else's and restored its rate, and so the queue stayed full.
func (p *Pace) shrink(now, recent time.Duration, used float64) {
	if p.queueSince == 0 {
		p.queueSince = now
	}
	switch {
	case p.shrunk == 0:
		p.rttBefore = recent
		p.rateBefore = p.rate
	case p.crowd.undecided(p, now-p.queueSince):
		// Begin the trial again, but remember the rate before it.
		p.rttBefore = recent
		p.shrunk = 0
	}
	p.shrunk++
	if p.shrunk > trials {
		p.shrunk = 0
		if (recent - p.rttBefore).Abs() <= alike {
			// The queue isn't ours. Take it for a part of the path from now on.
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

// grow raises the rate, unless less than half of it was used and nothing had to wait.
func (p *Pace) grow(now time.Duration, used float64, short bool) {
	if now-p.met > calm {
		p.met = 0
	}
	switch {
	case !short && used < p.rate/2:
		// The updates don't need more.
	case p.met == 0:
		p.rate = min(1.4*p.rate, mostRate)
	default:
		p.rate += p.rate / growth
	}
}

// Room returns how many bytes may be sent now, at most most. It refills the bucket first.
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

// Sent takes n bytes out of the bucket, because they were passed on for sending. If some of them
// weren't sent after all, call it again with a negative n.
func (p *Pace) Sent(n int) { p.saved -= float64(n) }
