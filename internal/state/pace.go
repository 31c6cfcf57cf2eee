package state

import "time"

const (
	// standing is the queueing time that updates may cause; on a path with a longer round
	// trip it is that round trip. The least of a few round trips varies with jitter by more
	// than this on UE's profile Bad, and updates that yielded to jitter would be seconds old.
	standing = 50 * time.Millisecond
	// long is a queueing time beyond standing from which on the rate is halved
	// once more: such a queue grows by what is sent before its end is seen.
	long = 250 * time.Millisecond
	// bulkShare is by how much updates that fill the path may exceed bulk: they slow
	// down while less than one byte of bulk is sent for every bulkShare bytes of
	// theirs. Otherwise a client whose path they fill would never receive its transfer.
	bulkShare = 7
	// leastRate is the least rate in bytes a second, whatever the queue: twenty
	// small updates, or half a packet.
	leastRate = 600
	// If a queue still has its length, within alike, after trials rounds at ever lower
	// rates, it is not caused by updates: the path has become longer, or others fill
	// the queue. A queue of ours is half a second shorter by then, or still grows. One
	// that others fill varies, as that of a TCP upload on the return path does: with an
	// alike of 25 ms such an upload reduced updates to the least rate while it lasted.
	trials, alike = 4, 100 * time.Millisecond
	// growth: in each round of 8 measured round trips, a third of a second at
	// 30 Hz, the rate grows by 1/growth.
	growth = 10
	// firstRate is the initial rate in bytes a second, Unreal's ConfiguredInternetSpeed.
	// A game that needs ten times as much gets it after about two seconds.
	firstRate = 10_000
	mostRate  = 1 << 30 // bytes a second; keeps sums finite
	// calm is the time without a queue after which the rate grows as fast as initially.
	calm  = 10 * time.Second
	idle  = time.Second            // pause after which Look drops its measurements
	burst = 100 * time.Millisecond // after a pause, what the rate allows in this time may be sent at once
	// fewPackets are too few packets to measure the share that is lost.
	fewPackets = 16
	// longTick is the longest time between two ticks for which Room allows the whole rate.
	longTick = 250 * time.Millisecond
)

// A Pace limits the rate of updates while a queue stands on the path, because there
// they would delay calls and become old. In each round the rate grows by 0.4 of itself
// until a queue stands for the first time. Then it becomes 0.7 of what was sent, and
// grows by a tenth a round. A rate that is not used does not grow. Times count from
// any epoch. The zero Pace is ready to use; it is not safe for concurrent use.
type Pace struct {
	rate   float64       // bytes a second; 0 before the first Room
	saved  float64       // bytes that may be sent now
	at     time.Duration // when Room last added to saved
	looked time.Duration // when Look last evaluated a round
	rounds int           // argument of Look at that time
	called time.Duration // when Look was last called
	left   int           // bytes sent since looked
	base   time.Duration // round trip without a queue
	shrunk int           // rounds in which shrink has cut the rate, since the queue was met or last judged
	then   time.Duration // round trip before these rounds
	before float64       // rate before these rounds
	stood  time.Duration // when the standing queue was met; 0 = none stands
	met    time.Duration // when a queue last stood; 0 = not within calm
	crowd  Crowd         // argument of Among

	lost         float64 // share of the packets of the last rounds that were lost
	losses, told uint64  // arguments of Lost when it last changed lost

	bulkLeft   int     // bytes of bulk sent since looked
	bulkWaited bool    // bulk has waited behind updates since looked
	lacking    int     // rounds in a row in which bulk did not get its share
	usedBefore float64 // used when bulk first did not get its share; 0 = it does
}

// Beside records how many bytes of the connection's bulk were sent since the
// last call, and whether more bulk waits behind unsent updates.
func (p *Pace) Beside(left int, waits bool) {
	p.bulkLeft += left
	p.bulkWaited = p.bulkWaited || waits
}

// Among records the state of the paces of all connections of the server.
func (p *Pace) Among(crowd Crowd) { p.crowd = crowd }

// Lost records how many of the connection's packets were lost so far, and of how many.
func (p *Pace) Lost(lost, of uint64) {
	if of < p.told+fewPackets {
		return
	}
	p.lost += (min(1, float64(lost-p.losses)/float64(of-p.told)) - p.lost) / 4
	p.losses, p.told = lost, of
}

// Look adapts the rate to the path. recent is the least of the latest round trips, least
// the least ever, and rounds how often recent was measured, as bunch.Conn.RecentRTT
// returns them. The rate changes only if rounds has changed. left is how many bytes were
// sent since the last call. short is whether some bytes were not sent or were held back.
func (p *Pace) Look(now, recent, least time.Duration, rounds, left int, short bool) {
	if now-p.called > idle { // what was measured before the pause does not apply any more
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
	if p.lacking++; p.lacking > 1 || p.met > 0 { // bulk that has just been queued waits, too
		p.met = now // so that the rate grows by a tenth from now on
		p.leaveBulk(used)
	}
}

// leaveBulk lowers the rate below used, to leave bulk a share. In total it
// takes at most half: bulk that gets no more then waits for something else.
func (p *Pace) leaveBulk(used float64) {
	if p.usedBefore == 0 {
		p.usedBefore = used
	}
	p.rate = max(leastRate, p.usedBefore/2, used*bulkShare/(bulkShare+1))
}

// limit returns the round trip above which a queue stands.
func (p *Pace) limit() time.Duration { return p.base + max(standing, p.base) }

// shrink cuts the rate below used, the rate at which bytes were sent. After trials rounds without
// an effect it restores the rate instead. Rounds in which the crowd is undecided do not count. 32
// connections cut their rates in vain, because calls and resends filled the path as well; then
// each took the queue for that of others and restored its rate, and the queue stayed full.
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

// Room returns how many bytes may be sent now, at most most.
func (p *Pace) Room(now time.Duration, most int) int {
	if p.rate == 0 {
		p.rate, p.saved, p.at, p.looked = firstRate, firstRate*burst.Seconds(), now, now
	}
	span := min(now-p.at, longTick)
	p.saved = min(p.saved+p.rate*span.Seconds(), max(p.rate*max(burst, span).Seconds(), 1200))
	p.at = now
	return min(most, max(0, int(p.saved)))
}

// Sent subtracts n bytes that were passed on for sending. A negative n adds
// bytes that were not sent after all.
func (p *Pace) Sent(n int) { p.saved -= float64(n) }
