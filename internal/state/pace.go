package state

import "time"

const (
	// queueDelay is the delay that a standing queue of updates may cause. If the round trip is
	// longer than that, they may cause a delay of a round trip. A shorter limit would mistake
	// jitter for a queue: on Unreal's Bad network profile, jitter alone moves the minimum of a few
	// round trips by more than 50 ms, and slowing down for it made updates seconds old.
	queueDelay = 50 * time.Millisecond

	// longQueue is by how much a queue may exceed that before we halve the rate once more. Waiting
	// for the usual cut to take effect would then take too long, because the queue continues to
	// grow until we see that it has drained.
	longQueue = 250 * time.Millisecond

	// bulkShare is how many bytes of updates we send for each byte of bulk (transfers) that is
	// waiting. Updates slow down if bulk gets less, because otherwise a client whose path they
	// fill would never receive its transfer. One eighth of the path slows updates only a little.
	bulkShare = 7

	// minRate is the lowest rate in bytes per second, however long the queue. It allows about
	// twenty small updates a second, or a full packet every two seconds.
	minRate = 600

	// If the delay is still the same after trialRounds rounds at ever lower rates, give or take
	// sameDelay, our updates are not to blame: either the path has become longer or others fill
	// the queue. A queue of our own would be half a second shorter, or still growing.
	//
	// sameDelay must allow for other traffic. At 25 ms, a TCP upload on the return path kept
	// updates at minRate until it ended.
	trialRounds, sameDelay = 4, 100 * time.Millisecond

	// firstGrowth is the factor by which the rate grows in each round until the first queue. After
	// that it grows by 1/growth in each round. A round is 8 measured round trips, about a quarter
	// of a second at 30 Hz.
	firstGrowth, growth = 1.4, 10

	// After a round with a queue, we send usualCut of what we sent in it, or deepCut if the queue
	// is long.
	usualCut, deepCut = 0.7, usualCut / 2

	// firstRate is the initial rate in bytes per second, Unreal's ConfiguredInternetSpeed. A
	// game that needs ten times as much gets it after about two seconds.
	firstRate = 10_000
	maxRate   = 1 << 30 // bytes per second; keeps sums finite

	// calmTime is how long there must be no queue until the rate may grow as fast as initially.
	calmTime = 10 * time.Second

	// idleTime is the length of a pause after which earlier measurements are worthless.
	idleTime = time.Second

	// burstTime says how much may be sent at once after a pause: what the rate allows in this time.
	burstTime = 100 * time.Millisecond

	// minBurst is the minimum of that in bytes, so that a full packet can be sent at any rate.
	minBurst = 1200

	// fewPackets is a number of packets that is too small to measure their loss: a single lost one
	// would already be 6%.
	fewPackets = 16

	// longTick is the longest tick for which Room allows the whole rate.
	longTick = 250 * time.Millisecond
)

// A Pace is the congestion control of updates to one client. It slows them down while packets
// queue on the path, because updates that wait in a queue become old and delay the game's calls.
//
// It works in rounds of a few measured round trips. The rate grows by 40% in each round until we
// first see a queue. We then cut it to 70% of what was sent, and let it grow by 10% a round until
// there has been no queue for calmTime. It doesn't grow while less than half of it is used and
// nothing is held back.
//
// Times are measured from a fixed point and must be positive. The zero Pace is ready to use.
// It is not safe for concurrent use.
type Pace struct {
	// A token bucket.
	rate     float64       // bytes per second; 0 before the first Room
	tokens   float64       // bytes that may be sent now
	lastFill time.Duration // when Room last added to tokens

	// The current round.
	roundStart time.Duration // when the round began
	rounds     int           // Sample.Rounds when the round began
	lastLook   time.Duration // when Look was last called
	sent       int           // bytes of updates sent
	bulkSent   int           // bytes of bulk sent
	bulkWaited bool          // bulk had to wait behind updates

	// The queue on the path.
	base       time.Duration // round trip without a queue
	lastQueue  time.Duration // when we last saw a queue; 0 if not within calmTime
	queueSince time.Duration // when we first saw the present queue; 0 if there is none
	crowd      Crowd         // the other connections' paces; set by SetCrowd

	// The trial that shows whether the queue is ours.
	cuts       int           // rounds in which we cut the rate; 0 if there is no trial
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

// NoteBulk records that the connection has sent that many bytes of bulk since the last call, and
// whether more bulk waits behind unsent updates.
func (p *Pace) NoteBulk(bytes int, waits bool) {
	p.bulkSent += bytes
	p.bulkWaited = p.bulkWaited || waits
}

// SetCrowd records what the paces of all the server's connections add up to.
func (p *Pace) SetCrowd(crowd Crowd) { p.crowd = crowd }

// NoteLoss records how many of the connection's packets have been lost so far, and of how many.
func (p *Pace) NoteLoss(lost, of uint64) {
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

// Look adapts the rate to the path, but only if Rounds has changed since the last call.
func (p *Pace) Look(now time.Duration, s Sample) {
	if now-p.lastLook > idleTime {
		// We don't know what happened on the path since the last call.
		p.beginRound(now)
		p.rounds = s.Rounds
	}
	p.lastLook = now
	p.sent += s.Sent
	if s.Rounds == p.rounds || p.rate == 0 || now-p.roundStart < burstTime {
		return
	}
	p.rounds = s.Rounds
	used := float64(p.sent) / (now - p.roundStart).Seconds()
	bulkLacks := p.bulkWaited && p.bulkSent < p.sent/bulkShare
	p.beginRound(now)
	if p.base == 0 {
		p.base = s.MinRTT
	}
	p.base = min(p.base, s.RecentRTT)
	switch {
	case s.RecentRTT > p.queueLimit():
		p.lastQueue = now
		p.shrink(now, s.RecentRTT, used)
	case p.crowd.overflows(p.lost) && s.RecentRTT > s.MinRTT+queueDelay/2:
		// The queue that most connections share is full, although it looks short here: it may hold
		// less than queueDelay, or base may include it.
		p.shrink(now, s.RecentRTT, used)
	default:
		p.cuts = 0
		p.queueSince = 0
		p.adapt(now, used, bulkLacks, s.More)
	}
}

// beginRound starts a round.
func (p *Pace) beginRound(now time.Duration) {
	p.roundStart = now
	p.sent = 0
	p.bulkSent = 0
	p.bulkWaited = false
}

// adapt adapts the rate while there is no queue. bulkLacks says that bulk got less than its share
// in the last round, and more that updates had to wait.
func (p *Pace) adapt(now time.Duration, used float64, bulkLacks, more bool) {
	if !bulkLacks {
		p.starved = 0
		p.usedBefore = 0
		p.grow(now, used, more)
		return
	}
	p.starved++
	if p.starved > 1 || p.lastQueue > 0 { // a first round may only mean that bulk was just queued
		p.lastQueue = now // so that the rate grows by a tenth from now on
		p.yieldToBulk(used)
	}
}

// yieldToBulk lowers the rate below used, so that bulk gets its share of what we have been sending.
// However many rounds that takes, the rate falls no lower than half of what it was at the start,
// because bulk that gets no more even then must be waiting for something else.
func (p *Pace) yieldToBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(minRate, p.usedBefore/2, used*bulkShare/(bulkShare+1))
}

// queueLimit returns the round trip above which we assume that the path has a standing queue.
func (p *Pace) queueLimit() time.Duration { return p.base + max(queueDelay, p.base) }

// shrink cuts the rate below used, the rate at which we have been sending. If that has made no
// difference to the queue after trialRounds rounds, it restores the rate instead, since the queue
// isn't ours.
//
// Rounds in which the crowd is undecided don't count. If they did, many connections would cut their
// rates in vain while calls and resends also fill the path. Each of them would conclude that the
// queue must be somebody else's and restore its rate, so the queue would stay full.
func (p *Pace) shrink(now, recent time.Duration, used float64) {
	if p.queueSince == 0 {
		p.queueSince = now
	}
	switch {
	case p.cuts == 0:
		p.rttBefore = recent
		p.rateBefore = p.rate
	case p.crowd.undecided(p, now-p.queueSince):
		// Begin the trial again, but remember the rate before it.
		p.rttBefore = recent
		p.cuts = 0
	}
	p.cuts++
	if p.cuts > trialRounds {
		p.cuts = 0
		if (recent - p.rttBefore).Abs() <= sameDelay {
			// The queue isn't ours. Regard it as a part of the path from now on.
			p.base = recent
			p.rate = p.rateBefore
			p.queueSince = 0
			return
		}
	}
	cut := usualCut
	if recent > p.queueLimit()+longQueue {
		cut = deepCut
	}
	p.rate = max(minRate, cut*used)
}

// grow raises the rate, unless less than half of it was used and nothing had to wait.
func (p *Pace) grow(now time.Duration, used float64, more bool) {
	if now-p.lastQueue > calmTime {
		p.lastQueue = 0
	}
	switch {
	case !more && used < p.rate/2:
		// The updates don't need more.
	case p.lastQueue == 0:
		p.rate = min(firstGrowth*p.rate, maxRate)
	default:
		p.rate += p.rate / growth
	}
}

// Room refills the bucket and returns how many bytes may be sent now, but no more than limit.
func (p *Pace) Room(now time.Duration, limit int) int {
	if p.rate == 0 {
		p.rate = firstRate
		p.tokens = firstRate * burstTime.Seconds()
		p.lastFill = now
		p.roundStart = now
	}
	span := min(now-p.lastFill, longTick)
	size := max(p.rate*max(burstTime, span).Seconds(), minBurst)
	p.tokens = min(p.tokens+p.rate*span.Seconds(), size)
	p.lastFill = now
	return min(limit, max(0, int(p.tokens)))
}

// Sent removes n bytes from the bucket, because they were passed on for sending. If some of them
// weren't sent after all, call it again with a negative n.
func (p *Pace) Sent(n int) { p.tokens -= float64(n) }
