package state

import "time"

const (
	// standing is how much of a queue updates may make, or as much as the path is long without one: the least of a few round trips
	// varies with jitter, on UE's profile Bad by more than this, and updates that yield to jitter are seconds old.
	standing = 50 * time.Millisecond
	// leastRate, in bytes a second, is left whatever stands: twenty small updates, or half a packet.
	leastRate = 600
	// patience is for how long updates yield to a queue that stays: then it is not theirs, or the path has become longer.
	patience = 10 * time.Second
	burst    = 100 * time.Millisecond // of the rate may leave at once after a pause
)

// Pace holds updates back while a queue stands on the path: they would only wait there, in front of calls, and be old when they
// come. It is AIMD by round trips: 0.7 of what left while a queue stands, then a tenth more a round trip, until that holds nothing
// back. Its zero value holds nothing back.
type Pace struct {
	rate   float64 // bytes a second; 0 = any
	credit float64 // bytes
	at     time.Duration
	looked time.Duration // at the round trips
	left   int           // bytes that left since then
	base   time.Duration // round trip without a queue
	since  time.Duration // a queue stands; 0 = none does
}

// Look takes the least of the latest round trips and the smoothed one, as bunch.Conn.RecentRTT tells them. left is how many bytes
// left since the last call, and short whether some did not.
func (p *Pace) Look(now, recent, smoothed time.Duration, left int, short bool) {
	p.left += left
	if recent == 0 || now-p.looked < min(max(smoothed, burst), time.Second) {
		return
	}
	elapsed := (now - p.looked).Seconds()
	used := float64(p.left) / elapsed
	p.looked, p.left = now, 0
	if p.base == 0 || recent < p.base {
		p.base = recent
	}
	if recent <= p.base+max(standing, p.base) {
		p.since = 0
		p.grow(used, short)
		return
	}
	if p.since == 0 {
		p.since = now
	}
	if now-p.since > patience {
		p.base, p.since = recent, 0 // it does not help
		return
	}
	p.rate = max(leastRate, 0.7*used)
}

// grow allows more when what is allowed was used.
func (p *Pace) grow(used float64, short bool) {
	switch {
	case p.rate == 0:
	case !short && used < p.rate/2:
		p.rate = 0
	default:
		p.rate += max(p.rate/10, leastRate/10)
	}
}

// Room returns how many bytes may leave now, at most most.
func (p *Pace) Room(now time.Duration, most int) int {
	if p.rate == 0 {
		p.at = now
		return most
	}
	p.credit = min(p.credit+p.rate*(now-p.at).Seconds(), max(p.rate*burst.Seconds(), 1200))
	p.at = now
	return min(most, max(0, int(p.credit)))
}

// Sent takes bytes that were handed over off the room, and gives back, below 0, those that did not leave.
func (p *Pace) Sent(n int) { p.credit -= float64(n) }
