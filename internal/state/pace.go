package state

import "time"

const (
	// standing is how much of a queue updates may make, or as much as the path is long without one: the least of a few round trips
	// varies with jitter, on UE's profile Bad by more than this, and updates that yield to jitter are seconds old.
	standing = 50 * time.Millisecond
	// long is a queue of which the end is not seen at once: what left since then lengthens it.
	long = 250 * time.Millisecond
	// leastRate, in bytes a second, is left whatever stands: twenty small updates, or half a packet.
	leastRate = 600
	// After trials rounds in which ever less left, a queue that is as long as before, but for alike, is not theirs: the path has become
	// longer, or others fill it. One of theirs has lost half a second by then, or still grows.
	trials, alike = 4, 25 * time.Millisecond
	// growth is the part of the rate by which it grows a round, of 8 round trips that were measured: a third of a second at 30 Hz.
	growth = 10
	// firstRate is Unreal's ConfiguredInternetSpeed; what needs ten times that has it after some two seconds.
	firstRate = 10_000
	mostRate  = 1 << 30
	// calm is after how long without a queue the rate grows as it does at first.
	calm  = 10 * time.Second
	idle  = time.Second            // without updates, after which a look begins anew
	burst = 100 * time.Millisecond // of the rate may leave at once after a pause
	// longTick is the longest time between two ticks for which all of the rate may leave at once.
	longTick = 250 * time.Millisecond
)

// Pace holds updates back while a queue stands on the path: they would only wait there, in front of calls, and be old when they
// come. It is AIMD: by rounds of round trips the rate grows by 0.4 until a queue stands for the first time, is then 0.7 of what
// left, and grows by a tenth. What does not use its rate does not raise it. Its zero value is ready to use.
type Pace struct {
	rate   float64 // bytes a second; 0 = not begun
	credit float64 // bytes
	at     time.Duration
	looked time.Duration // at the round trips
	rounds int           // that were known then
	called time.Duration // Look was, last
	left   int           // bytes that left since then
	base   time.Duration // round trip without a queue
	shrunk int           // rounds in which it did since the queue was met, or last judged
	then   time.Duration // round trip before them
	before float64       // the rate before them
	met    time.Duration // the last queue; 0 = none for long
}

// Look takes the least of the latest round trips, the least ever, and how often the first was found, as bunch.Conn.RecentRTT tells
// them: while nothing new is known nothing changes. left is how many bytes left since the last call, and short whether some did not, or
// were held back.
func (p *Pace) Look(now, recent, least time.Duration, rounds, left int, short bool) {
	if now-p.called > idle { // what was seen before says nothing of now
		p.looked, p.left, p.rounds = now, 0, rounds
	}
	p.called = now
	p.left += left
	if rounds == p.rounds || p.rate == 0 || now-p.looked < burst {
		return
	}
	p.rounds = rounds
	used := float64(p.left) / (now - p.looked).Seconds()
	p.looked, p.left = now, 0
	if p.base == 0 {
		p.base = least
	}
	p.base = min(p.base, recent)
	if recent <= p.limit() {
		p.shrunk = 0
		p.grow(now, used, short)
		return
	}
	p.met = now
	p.shrink(recent, used)
}

// limit is the round trip above which a queue stands.
func (p *Pace) limit() time.Duration { return p.base + max(standing, p.base) }

// shrink lets less leave than did, unless that has not helped.
func (p *Pace) shrink(recent time.Duration, used float64) {
	if p.shrunk == 0 {
		p.then, p.before = recent, p.rate
	}
	if p.shrunk++; p.shrunk > trials {
		p.shrunk = 0
		if (recent - p.then).Abs() <= alike {
			p.base, p.rate = recent, p.before
			return
		}
	}
	share := 0.7
	if recent > p.limit()+long {
		share = 0.35
	}
	p.rate = max(leastRate, share*used)
}

// grow allows more when what is allowed was used.
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

// Room returns how many bytes may leave now, at most most.
func (p *Pace) Room(now time.Duration, most int) int {
	if p.rate == 0 {
		p.rate, p.credit, p.at, p.looked = firstRate, firstRate*burst.Seconds(), now, now
	}
	span := min(now-p.at, longTick)
	p.credit = min(p.credit+p.rate*span.Seconds(), max(p.rate*max(burst, span).Seconds(), 1200))
	p.at = now
	return min(most, max(0, int(p.credit)))
}

// Sent takes bytes that were handed over off the room, and gives back, below 0, those that did not leave.
func (p *Pace) Sent(n int) { p.credit -= float64(n) }
