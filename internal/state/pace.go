package state

import "time"

const (
	// standing is the queueing time that updates may cause; on a path with a longer round trip, that round trip. The least of a few round
	// trips varies with jitter, on UE's profile Bad by more than this, and updates that yielded to jitter would be seconds old.
	standing = 50 * time.Millisecond
	// long is a queueing time beyond standing after which the rate is halved once more: such a queue grows by what leaves before its end is
	// seen.
	long = 250 * time.Millisecond
	// bulkShare: updates that fill the path slow down while bulk has less than one byte for every bulkShare of theirs. A client whose path they fill
	// for ever would never have its transfer.
	bulkShare = 7
	// leastRate is the least rate in bytes a second, whatever the queue: twenty small updates, or half a packet.
	leastRate = 600
	// If a queue still has its length, give or take alike, after trials rounds in which ever less left, it is not caused by updates: the
	// path has become longer, or others fill it. A queue of ours is half a second shorter by then, or still grows. One that others fill sways,
	// as that of an upload in TCP on the way back does: with 25 ms it took updates to the least rate for as long as it did.
	trials, alike = 4, 100 * time.Millisecond
	// growth: the rate grows by a growth-th of itself in each round of 8 measured round trips, which takes a third of a second at 30 Hz.
	growth = 10
	// firstRate is the rate at the beginning in bytes a second, Unreal's ConfiguredInternetSpeed; a game that needs ten times as much has it
	// after about two seconds.
	firstRate = 10_000
	mostRate  = 1 << 30 // bytes a second; keeps sums finite
	// calm is the time without a queue after which the rate grows as fast as at the beginning.
	calm  = 10 * time.Second
	idle  = time.Second            // a pause after which Look forgets what it has measured
	burst = 100 * time.Millisecond // the time at the rate whose bytes may leave at once after a pause
	// fewPackets are too few to tell how many are lost.
	fewPackets = 16
	// longTick is the longest time between two ticks for which Room saves up the whole rate.
	longTick = 250 * time.Millisecond
)

// Pace limits the rate of updates while a queue stands on the path, where they would delay calls and grow old. Round by round the rate
// grows by 0.4 of itself until a queue stands for the first time; then it becomes 0.7 of what left, and grows by a tenth a round. A rate
// that is not used does not grow. Times count from any epoch. The zero Pace is ready to use; it is not safe for concurrent use.
type Pace struct {
	rate   float64       // bytes a second; 0 before the first Room
	saved  float64       // bytes that may leave now
	at     time.Duration // when Room last added to saved
	looked time.Duration // when Look last evaluated a round
	rounds int           // argument of Look at that time
	called time.Duration // when Look was last called
	left   int           // bytes that left since looked
	base   time.Duration // round trip without a queue
	shrunk int           // rounds in which shrink has cut the rate since the queue was met or last judged
	then   time.Duration // round trip before these rounds
	before float64       // rate before these rounds
	stood  time.Duration // when the queue that now stands was met; 0 = none stands
	met    time.Duration // when a queue last stood; 0 = not within calm
	crowd  Crowd         // argument of Among

	lost         float64 // share of the packets of the last rounds that were lost
	losses, told uint64  // arguments of Lost when it last changed lost

	bulkLeft   int     // bytes of bulk that left since looked
	bulkWaited bool    // bulk has waited behind updates since looked
	lacking    int     // rounds in a row in which bulk had less than its share
	usedBefore float64 // used when bulk began to have less than its share; 0 = it has that
}

// Beside notes how many bytes of the connection's bulk have left since the last call, and whether more of it waits behind updates that have not
// left either.
func (p *Pace) Beside(left int, waits bool) {
	p.bulkLeft += left
	p.bulkWaited = p.bulkWaited || waits
}

// Among notes how the paces of all connections of the server fare.
func (p *Pace) Among(crowd Crowd) { p.crowd = crowd }

// Lost notes how many of the connection's packets were lost so far, and of how many.
func (p *Pace) Lost(lost, of uint64) {
	if of < p.told+fewPackets {
		return
	}
	p.lost += (min(1, float64(lost-p.losses)/float64(of-p.told)) - p.lost) / 4
	p.losses, p.told = lost, of
}

// Look adapts the rate to the path. recent is the least of the latest round trips, least the least ever, and rounds how often recent was
// measured, as bunch.Conn.RecentRTT returns them; unless rounds has changed the rate stays. left is the number of bytes that left since
// the last call. short says that some bytes did not leave or were held back.
func (p *Pace) Look(now, recent, least time.Duration, rounds, left int, short bool) {
	if now-p.called > idle { // what was measured before the pause no longer holds
		p.looked, p.left, p.bulkLeft, p.bulkWaited, p.rounds = now, 0, 0, false, rounds
	}
	p.called = now
	p.left += left
	if rounds == p.rounds || p.rate == 0 || now-p.looked < burst {
		return
	}
	p.rounds = rounds
	used := float64(p.left) / (now - p.looked).Seconds()
	lacks := p.bulkWaited && p.bulkLeft < p.left/bulkShare
	p.looked, p.left, p.bulkLeft, p.bulkWaited = now, 0, 0, false
	if p.base == 0 {
		p.base = least
	}
	p.base = min(p.base, recent)
	switch {
	case recent > p.limit():
		p.met = now
		p.shrink(now, recent, used)
		return
	case p.crowd.overflows() && recent > least+standing/2: // a full queue may be shorter than standing, or be part of base
		p.shrink(now, recent, used)
		return
	}
	p.shrunk, p.stood = 0, 0
	if !lacks {
		p.lacking, p.usedBefore = 0, 0
		p.grow(now, used, short)
		return
	}
	if p.lacking++; p.lacking > 1 || p.met > 0 { // bulk that has just come waits, too
		p.met = now // from here on the rate grows by a tenth
		p.leaveBulk(used)
	}
}

// leaveBulk lowers the rate below used, to leave bulk a share. In all it takes half at most: bulk that has no more by then waits for something else.
func (p *Pace) leaveBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(leastRate, p.usedBefore/2, used*bulkShare/(bulkShare+1))
}

// limit returns the round trip above which a queue stands.
func (p *Pace) limit() time.Duration { return p.base + max(standing, p.base) }

// shrink cuts the rate below used, the rate at which bytes left. After trials rounds without an effect it restores the rate instead. Rounds in which
// the crowd is undecided do not count: 32 connections cut their rates in vain, since calls and what left again filled the path as well. Then each
// took the queue for somebody else's and restored its rate, and the queue stayed full.
func (p *Pace) shrink(now, recent time.Duration, used float64) {
	if p.stood == 0 {
		p.stood = now
	}
	switch {
	case p.shrunk == 0:
		p.then, p.before = recent, p.rate
	case p.crowd.undecided(p.rate, now-p.stood):
		p.then, p.shrunk = recent, 0
	}
	if p.shrunk++; p.shrunk > trials {
		p.shrunk = 0
		if (recent - p.then).Abs() <= alike {
			p.base, p.rate, p.stood = recent, p.before, 0
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

// Room returns how many bytes may leave now; it is at most most.
func (p *Pace) Room(now time.Duration, most int) int {
	if p.rate == 0 {
		p.rate, p.saved, p.at, p.looked = firstRate, firstRate*burst.Seconds(), now, now
	}
	span := min(now-p.at, longTick)
	p.saved = min(p.saved+p.rate*span.Seconds(), max(p.rate*max(burst, span).Seconds(), 1200))
	p.at = now
	return min(most, max(0, int(p.saved)))
}

// Sent takes n bytes that were handed over off the room. Below 0 it gives back bytes that did not leave.
func (p *Pace) Sent(n int) { p.saved -= float64(n) }
