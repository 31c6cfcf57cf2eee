package pace

import "math"

// lossMemory is the number of packets over which losses are averaged: enough to tell 1 %
// from 3 %.
const lossMemory = 256

// A share is a smoothed share of lost packets.
type share struct {
	value float64
	count float64
}

func (s *share) note(lost, acked int) {
	n := float64(lost + acked)
	if n == 0 {
		return
	}
	s.count = min(s.count+n, lossMemory)
	s.value += (float64(lost) - s.value*n) / max(s.count, n)
	s.value = min(max(s.value, 0), 1)
}

// A tally counts packets whose fates are known, such as those of a round or of a look.
type tally struct {
	lost, acked int
	consecutive int // lost packets sent directly after another lost one, while the queue had room
}

func (t *tally) add(more tally) {
	t.lost += more.lost
	t.acked += more.acked
	t.consecutive += more.consecutive
}

// addLost adds a lost packet.
func (t *tally) addLost(consecutive bool) {
	t.lost++
	if consecutive {
		t.consecutive++
	}
}

// takeBack removes a lost packet, because it arrived.
func (t *tally) takeBack() {
	t.lost, t.consecutive = max(t.lost-1, 0), max(t.consecutive-1, 0)
}

func (t tally) count() int { return t.lost + t.acked }

func (t tally) share() float64 {
	if t.lost == 0 {
		return 0
	}
	return float64(t.lost) / float64(t.count())
}

// events returns the tally with each run of losses that is one event counted as one lost
// packet.
func (t tally) events() tally { return tally{lost: t.lost - t.consecutive, acked: t.acked} }

// above reports whether more was lost than random loss of the given share explains.
//
// It takes at least 2 percentage points more, because the share itself is known no
// better. It also takes at least two standard deviations, because a round of 40 packets
// loses 2 points more by chance.
func (t tally) above(random float64) bool {
	n := float64(t.count())
	expected := random * n
	return float64(t.lost) > expected+max(0.02*n, 2*math.Sqrt(max(expected*(1-random), 1)))
}

// beyond reports whether more was lost than random loss of the given share causes in all
// but one of many thousand cases.
func (t tally) beyond(share float64) bool {
	expected := share * float64(t.count())
	return float64(t.lost) > expected+4*math.Sqrt(expected*t.spread())
}

// spread returns the variance of the number of lost packets, as a multiple of the
// variance of independent losses. If packets are lost in runs of n on average, as on a
// radio that fades, it is 2 n - 1. A run is one event, whatever its length.
func (t tally) spread() float64 { return 2*float64(t.lost)/float64(max(t.lost-t.consecutive, 1)) - 1 }

// floods reports whether more was lost than any random loss explains.
func (t tally) floods() bool { return t.share() > unexplainedLoss && t.beyond(maxRandomLoss) }

// A flood gathers the fates of the last packets over several rounds. Among many
// controllers, each has two or three packets in a round, too few to show anything.
//
// A round of trainPackets shows a flood by itself, and ends the gathering. When it did
// not, losses of one moment, at a stall or a policer, lowered the rate again and again,
// and kept a transfer competing that was alone.
type flood struct {
	fates tally
	from  int64 // number of the round in which the gathering began
}

// begin discards the gathered fates, and continues with packets sent after this round.
// The losses of a start, and of the time before a competition, have been answered.
func (f *flood) begin(r *round) { *f = flood{from: r.number} }

// roundOver adds the packets that were sent three rounds ago, whose fates are known by
// now. When there are more than lossMemory, it halves the counts, so the newest packets
// count most.
func (f *flood) roundOver(r *round) {
	left := r.number - int64(len(r.sent)) + 1
	if left <= f.from {
		return
	}
	sent := *r.sentIn(uint8(left))
	if sent.count() >= trainPackets {
		f.fates = tally{}
		return
	}
	f.fates.add(sent)
	if f.fates.count() > lossMemory {
		f.fates = tally{
			lost:        f.fates.lost / 2,
			acked:       f.fates.acked / 2,
			consecutive: f.fates.consecutive / 2,
		}
	}
}

// shows reports whether more was lost than any random loss explains. Less than a quarter
// of lossMemory shows nothing, because three of three packets are lost by chance now and
// then.
func (f *flood) shows() bool { return f.fates.count() >= lossMemory/4 && f.fates.floods() }

// creditPackets is the number of packets by which random loss may temporarily exceed its
// share: three standard deviations of 5 % of 500 packets.
const creditPackets = 16

// usual returns the share of random loss that is usual on the path.
func (c *Controller) usual() float64 { return c.congestion.usual(c.now) }

// countAsPassed counts a lost packet as delivered, because random loss after the
// bottleneck should neither lower nor blur the estimate of its rate.
//
// It counts no more packets than usual loss explains. It counts none on a path that drops
// instead of queueing, where losses show that the rate is too high.
func (c *Controller) countAsPassed(size int) {
	if c.looks.shallow || c.queue > c.delay.target() || c.credit < float64(size) {
		return
	}
	c.credit -= float64(size)
	c.delivery.total += int64(size)
}

// runSpacing is the average number of packets that must pass between two runs of losses
// for each run to count as one outage.
//
// Packets beyond the rate of a policer, or of a short queue, are lost in runs as well,
// and few packets pass between these. Often few packets pass between two fades of a radio
// too, but not each time.
const runSpacing = 8

// A run is the newest run of lost packets, each sent directly after the previous one.
type run struct {
	newest uint16  // low bits of the number of its newest packet
	missed float64 // packets missing from 2 runSpacing before each of the last runs, on average
}

// add adds a lost packet, and reports whether it continues a run that counts as one
// event.
func (r *run) add(number uint16) (continues bool) {
	passed := number - r.newest - 1
	r.newest = number
	if passed == 0 {
		return r.missed <= runSpacing
	}
	r.missed += (2*runSpacing - min(float64(passed), 2*runSpacing) - r.missed) / 4
	return false
}

// losses is a range of packets declared lost, in sending order.
type losses struct {
	first, newest uint16 // low bits of the numbers of its first and its newest packet
	count         int    // number of them that have not arrived since
	passed        bool   // packets that do not count were lost since the newest one
}

// add adds a lost packet. Packets before one that does not count can no longer be told
// from it, and stay lost.
func (l *losses) add(number uint16) {
	if l.count == 0 || l.passed {
		l.first = number
		l.passed = false
	}
	l.newest = number
	l.count++
}

// pass records a lost packet that does not count.
func (l *losses) pass() { l.passed = true }

// has reports whether a packet that was declared lost is in the range.
func (l *losses) has(number uint16) bool {
	return l.count > 0 && !before(number, l.first) && !before(l.newest, number)
}

// before reports whether a packet was sent before another one, by the low bits of their
// numbers.
func before(number, other uint16) bool { return int16(number-other) < 0 }
