package state

import "time"

const (
	// queueDelay is how much delay a standing queue may add to the round trip before updates slow
	// down. On a path whose round trip is longer than queueDelay, the queue may add a whole round
	// trip (see queueLimit), because long paths often have more jitter. On Unreal's Bad network
	// profile, jitter alone moves the minimum of a few round trips by more than queueDelay. If
	// updates slowed down for that, they would become seconds old.
	queueDelay = 50 * time.Millisecond

	// longQueue is how far a queue may exceed that limit before we cut the rate by deepCut instead
	// of usualCut. The queue drains only as fast as we send below the path's rate, so the usual cut
	// would take too long to drain such a queue.
	longQueue = 250 * time.Millisecond

	// updatesPerBulk is how many bytes of updates we send per byte of bulk (transfers) while bulk
	// is waiting. If bulk gets less, updates slow down, because a client whose path they fill would
	// otherwise never receive its transfer. Bulk's share, one eighth, slows updates only a little.
	updatesPerBulk = 7

	// minRate is the lowest rate in bytes per second, however long the queue. It allows about
	// twenty small updates a second, or a full packet every two seconds.
	minRate = 600

	// If the delay is still the same after trialRounds rounds at ever lower rates, give or take
	// sameDelay, our updates aren't to blame: either the path has become longer or others fill
	// the queue. A queue of our own would be half a second shorter, or still growing.
	//
	// sameDelay must allow for other traffic. At 25 ms, a TCP upload on the return path kept
	// updates at minRate until it ended.
	trialRounds, sameDelay = 4, 100 * time.Millisecond

	// fastGrowth is the factor by which the rate grows in each round until we see a queue. After
	// that, it grows by 1/slowGrowth of itself. A round is 8 measured round trips, about a quarter
	// of a second at 30 Hz.
	fastGrowth, slowGrowth = 1.4, 10

	// If a round had a queue, the rate becomes usualCut of the rate at which we sent in that round,
	// or deepCut of it if the queue exceeds longQueue.
	usualCut, deepCut = 0.7, usualCut / 2

	// firstRate is the initial rate in bytes per second, which is Unreal's
	// ConfiguredInternetSpeed. A game that needs ten times as much gets it after about two seconds.
	firstRate = 10_000
	maxRate   = 1 << 30 // bytes per second; keeps sums finite

	// calmTime is how long there must be no queue before the rate grows by fastGrowth again.
	calmTime = 10 * time.Second

	// idleTime is the length of a pause after which earlier measurements are worthless.
	idleTime = time.Second

	// burstTime limits bursts: after a pause, we may send what the rate allows in burstTime.
	burstTime = 100 * time.Millisecond

	// minBurst is the number of bytes that a burst may have even if burstTime allows less, so that
	// a full packet can be sent at any rate.
	minBurst = 1200

	// minRound is the shortest round. The rate used in a shorter one would depend on whether it
	// happened to contain a burst.
	minRound = burstTime

	// minLossSample is the smallest number of packets over which we measure loss. In a smaller
	// sample, a single lost packet would count as a loss of more than 6 %.
	minLossSample = 16

	// longTick is the longest tick for which Room allows the whole rate.
	longTick = 250 * time.Millisecond
)

// A Pace is the congestion control for the state updates to one client. It slows them down while
// packets queue on the path, because updates that wait in a queue become old and delay the game's
// calls.
//
// It works in rounds of a few measured round trips. The rate grows by fastGrowth in each round
// until we first see a queue. Then it's cut to usualCut of what was sent, and grows by 1/slowGrowth
// per round until there has been no queue for calmTime. It doesn't grow while less than half of it
// is used and no update has to wait.
//
// Times are measured from a fixed point and must be positive. The zero Pace is ready to use.
// It isn't safe for concurrent use.
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
	base time.Duration // round trip without a queue
	// When we last saw a queue ourselves or slowed down for bulk; 0 if not within calmTime. Until
	// it's 0, the rate grows slowly and the Crowd counts this pace among those that met a queue.
	lastQueue  time.Duration
	queueSince time.Duration // when we first saw the present queue; 0 if there is none
	crowd      Crowd         // all connections' paces, this one included; set by SetCrowd

	// The trial that shows whether the queue is ours.
	cuts       int           // rounds in which we cut the rate; 0 if there is no trial
	rttBefore  time.Duration // round trip before the trial
	rateBefore float64       // rate before the trial

	// Packet loss.
	lost    float64 // smoothed share of packets that were lost
	losses  uint64  // lost packets when lost was last updated
	packets uint64  // all packets when lost was last updated

	// Bulk that gets less than its share.
	starved    int     // consecutive rounds in which it got less
	usedBefore float64 // rate at which we sent before we slowed down for bulk; 0 if we haven't
}

// NoteBulk records that the connection sent that many bytes of bulk since the last call, and
// whether more bulk is waiting behind unsent updates.
func (p *Pace) NoteBulk(bytes int, waiting bool) {
	p.bulkSent += bytes
	p.bulkWaited = p.bulkWaited || waiting
}

// SetCrowd records the sum of the paces of all the server's connections.
func (p *Pace) SetCrowd(crowd Crowd) { p.crowd = crowd }

// NoteLoss records how many of the connection's packets have been lost so far, out of a total.
func (p *Pace) NoteLoss(lost, total uint64) {
	if total < p.packets+minLossSample {
		return
	}
	share := float64(lost-p.losses) / float64(total-p.packets)
	p.lost += (min(1, share) - p.lost) / 4
	p.losses = lost
	p.packets = total
}

// A Sample holds the measurements for Look: those of the path, and of the updates since the last
// call.
type Sample struct {
	// Round trips, as bunch.Conn.RecentRTT returns them.
	RecentRTT time.Duration // minimum of the latest ones
	MinRTT    time.Duration // minimum of all
	Rounds    int           // how often RecentRTT has been measured

	Sent int  // bytes of updates that were sent
	More bool // more updates had to wait
}

// Look adapts the rate to the path. It does so once per round, which ends when Rounds changes, but
// not before minRound.
func (p *Pace) Look(now time.Duration, s Sample) {
	if now-p.lastLook > idleTime {
		// We don't know what happened on the path since the last call.
		p.beginRound(now)
		p.rounds = s.Rounds
	}
	p.lastLook = now
	p.sent += s.Sent
	if s.Rounds == p.rounds || s.RecentRTT == 0 || p.rate == 0 || now-p.roundStart < minRound {
		return
	}
	p.rounds = s.Rounds
	used := float64(p.sent) / (now - p.roundStart).Seconds()
	bulkStarved := p.bulkWaited && p.bulkSent < p.sent/updatesPerBulk
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
		// The queue that most connections share is full, although it looks short to this one: it
		// may hold less than queueDelay, or base may include it.
		//
		// Leave lastQueue as it is, because the Crowd must count only paces that saw a queue
		// themselves. If it also counted those that took its word for it, most would soon seem to
		// have met a queue. The price is that the rate may grow by fastGrowth in the next calm
		// round.
		p.shrink(now, s.RecentRTT, used)
	default:
		p.cuts = 0
		p.queueSince = 0
		p.adapt(now, used, bulkStarved, s.More)
	}
}

// beginRound starts a round.
func (p *Pace) beginRound(now time.Duration) {
	p.roundStart = now
	p.sent = 0
	p.bulkSent = 0
	p.bulkWaited = false
}

// adapt adapts the rate while there is no queue. bulkStarved is set if bulk got less than its share
// in the last round, and more is set if updates had to wait.
func (p *Pace) adapt(now time.Duration, used float64, bulkStarved, more bool) {
	if !bulkStarved {
		p.starved = 0
		p.usedBefore = 0
		p.grow(now, used, more)
		return
	}
	p.starved++
	if p.starved == 1 && p.lastQueue == 0 {
		return // perhaps bulk was queued only at the end of the round
	}
	p.lastQueue = now // so that the rate grows slowly from now on
	p.yieldToBulk(used)
}

// yieldToBulk lowers the rate below used, the rate at which we have been sending, so that bulk gets
// its share. Over several rounds, the rate falls to no less than half of what we used at first. If
// bulk still gets too little, it must be waiting for something else.
func (p *Pace) yieldToBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(minRate, p.usedBefore/2, used*updatesPerBulk/(updatesPerBulk+1))
}

// queueLimit returns the round trip above which we assume that the path has a standing queue.
func (p *Pace) queueLimit() time.Duration { return p.base + max(queueDelay, p.base) }

// shrink cuts the rate below used, the rate at which we have been sending. If trialRounds such cuts
// made no difference to the queue, the queue isn't ours, so shrink restores the rate instead.
//
// Rounds in which the Crowd is undecided don't count. If they did, many connections would cut their
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
		// Restart the trial, but still remember the rate before its first cut.
		p.rttBefore = recent
		p.cuts = 0
	}
	p.cuts++
	if p.cuts > trialRounds {
		p.cuts = 0
		if (recent - p.rttBefore).Abs() <= sameDelay {
			// The queue isn't ours, so from now on its delay counts as part of the path's.
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
		p.rate = min(fastGrowth*p.rate, maxRate)
	default:
		p.rate += p.rate / slowGrowth
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

// Sent takes n bytes from the bucket, because they were passed on for sending. To put back bytes
// that weren't sent after all, call it with a negative n.
func (p *Pace) Sent(n int) { p.tokens -= float64(n) }
