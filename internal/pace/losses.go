package pace

import "math"

// memory is over how many packets losses are averaged: 256 tell 1 % from 3 %.
const memory = 256

// share is a smoothed share of packets lost.
type share struct {
	value float64
	count float64
}

func (s *share) note(lost, acked int) {
	n := float64(lost + acked)
	if n == 0 {
		return
	}
	s.count = min(s.count+n, memory)
	s.value += (float64(lost) - s.value*n) / max(s.count, n)
	s.value = min(max(s.value, 0), 1)
}

// tally counts the packets of a round or of a look.
type tally struct{ lost, acked int }

func (t *tally) add(more tally) {
	t.lost += more.lost
	t.acked += more.acked
}

func (t tally) count() int { return t.lost + t.acked }

func (t tally) share() float64 {
	if t.lost == 0 {
		return 0
	}
	return float64(t.lost) / float64(t.count())
}

// above tells whether more was lost than a random loss of that share explains: by 2 points at least (DESIGN.md 7), and
// by two standard deviations, for a round of 40 packets loses 2 points by chance.
func (t tally) above(random float64) bool {
	n := float64(t.count())
	expected := random * n
	return float64(t.lost) > expected+max(0.02*n, 2*math.Sqrt(max(expected*(1-random), 1)))
}

// beyond reports whether more was lost than a share of random loss brings about but once in many thousand times.
func (t tally) beyond(share float64) bool {
	expected := share * float64(t.count())
	return float64(t.lost) > expected+4*math.Sqrt(expected)
}

// floods reports whether more was lost than any random loss explains.
func (t tally) floods() bool { return t.share() > blind && t.beyond(maxRandomLoss) }

// creditPackets is by how much random loss may exceed its share for a while: three standard deviations of 5 % of 500
// packets.
const creditPackets = 16

// usual is the share of random loss, as far as it is one.
func (c *Controller) usual() float64 { return c.congestion.usual(c.now) }

// countAsPassed counts a lost packet as one that passed the bottleneck, so that random loss behind it neither lowers the estimate
// nor blurs it. No more count than random loss explains, and none on a path that drops in place of queueing: pacing would
// be fed its own drops.
func (c *Controller) countAsPassed(size int) {
	if c.shallow || c.queue > c.delay.target() || c.credit < float64(size) {
		return
	}
	c.credit -= float64(size)
	c.delivery.total += int64(size)
}
