package pace

import "math"

// lossMemory is how many packets we average losses over, which is enough to tell 1 % from 3 %.
const lossMemory = 256

// A share is a moving average of the share of packets that were lost.
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

// A tally counts the fates (acked or lost) of some packets, such as those of a round or a look.
type tally struct {
	lost, acked int
	consecutive int // lost right after another lost packet, while the queue had room
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

// takeBack removes a lost packet that has arrived after all.
func (t *tally) takeBack() {
	t.lost = max(t.lost-1, 0)
	t.consecutive = max(t.consecutive-1, 0)
}

func (t tally) count() int { return t.lost + t.acked }

func (t tally) share() float64 {
	if t.lost == 0 {
		return 0
	}
	return float64(t.lost) / float64(t.count())
}

// events returns the tally with each run of losses that is one event counted as one lost packet.
func (t tally) events() tally { return tally{lost: t.lost - t.consecutive, acked: t.acked} }

// above reports whether more was lost than random loss of the given share explains.
//
// That takes at least 2 percentage points more, since we don't know the share any better. It also
// takes at least two standard deviations, since a round of 40 packets easily loses 2 points more
// by chance.
func (t tally) above(random float64) bool {
	n := float64(t.count())
	expected := random * n
	return float64(t.lost) > expected+max(0.02*n, 2*math.Sqrt(max(expected*(1-random), 1)))
}

// beyond is a stricter version of above. Random loss of the given share gets there once in many
// thousand cases.
func (t tally) beyond(share float64) bool {
	expected := share * float64(t.count())
	return float64(t.lost) > expected+4*math.Sqrt(expected*t.spread())
}

// spread returns how much the number of lost packets varies compared with independent losses, as
// the ratio of the variances. It's 2n-1 if packets are lost in runs of n on average, as on a
// fading radio, where a run is a single event whatever its length.
func (t tally) spread() float64 { return 2*float64(t.lost)/float64(max(t.lost-t.consecutive, 1)) - 1 }

// floods reports whether more was lost than any random loss explains.
func (t tally) floods() bool { return t.share() > unexplainedLoss && t.beyond(maxRandomLoss) }

// A flood is a detector of heavy loss for controllers with few packets. Each of many controllers
// on a path may have only two or three packets in a round, which show nothing by themselves, so
// we gather the fates of several rounds.
type flood struct {
	fates tally
	from  int64 // gather packets sent after this round
}

// begin starts over with the packets sent after this round. It is called when earlier losses have
// been answered: at the end of a start, and when a competition begins.
func (f *flood) begin(r *round) { *f = flood{from: r.number} }

// roundOver adds the packets sent three rounds ago, whose fates we know by now.
func (f *flood) roundOver(r *round) {
	left := r.number - int64(len(r.sent)) + 1
	if left <= f.from {
		return
	}
	sent := *r.sentIn(uint8(left))
	if sent.count() >= trainPackets {
		// This round is large enough to show a flood by itself. If we went on gathering, the
		// losses of a moment at a stall or a policer would lower the rate again and again, and
		// keep a transfer that is alone competing.
		f.fates = tally{}
		return
	}
	f.fates.add(sent)
	if f.fates.count() > lossMemory {
		// Halve the weight of older packets.
		f.fates = tally{
			lost:        f.fates.lost / 2,
			acked:       f.fates.acked / 2,
			consecutive: f.fates.consecutive / 2,
		}
	}
}

// shows reports whether more was lost than any random loss explains. It wants at least a quarter
// of lossMemory, because now and then three of three packets are lost by chance.
func (f *flood) shows() bool { return f.fates.count() >= lossMemory/4 && f.fates.floods() }

// creditPackets is by how many packets random loss may exceed its share for a while. It's three
// standard deviations of 5 % of 500 packets.
const creditPackets = 16

// usual returns the share of random loss that is usual on the path.
func (c *Controller) usual() float64 { return c.congestion.usual(c.now) }

// countAsPassed counts a lost packet as delivered. Random loss happens after the bottleneck, and
// should neither lower our estimate of the bottleneck's rate nor make it less certain.
//
// Only as many packets are counted as usual loss explains, and none on a path that drops packets
// instead of queueing them, where losses do show that the rate is too high.
func (c *Controller) countAsPassed(size int) {
	if c.looks.shallow || c.queue > c.delay.target() || c.credit < float64(size) {
		return
	}
	c.credit -= float64(size)
	c.delivery.total += int64(size)
}

// runSpacing is how many packets must pass on average between two runs of losses for a run to
// count as a single event, such as a radio's fade.
//
// A policer and a short queue also drop what exceeds their rate in runs, but with few packets in
// between. That may happen between two fades of a radio as well, but not every time.
const runSpacing = 8

// A run is the newest run of lost packets, sent one right after the other.
type run struct {
	newest uint16  // number of its newest packet, low bits
	missed float64 // by how much the packets before each run fell short of 2 runSpacing, averaged
}

// add adds a lost packet, and reports whether it continues a run that counts as one event.
func (r *run) add(number uint16) (continues bool) {
	passed := number - r.newest - 1
	r.newest = number
	if passed == 0 {
		return r.missed <= runSpacing
	}
	r.missed += (2*runSpacing - min(float64(passed), 2*runSpacing) - r.missed) / 4
	return false
}

// losses is a range of lost packets, in sending order.
type losses struct {
	first, newest uint16 // numbers of its first and its newest packet, low bits
	count         int    // how many of them haven't arrived since
	passed        bool   // losses that don't count came after the newest one
}

// add adds a lost packet. If losses that don't count came in between, the range starts over,
// since it couldn't tell them from the ones before; those then stay lost even if they arrive.
func (l *losses) add(number uint16) {
	if l.count == 0 || l.passed {
		l.first = number
		l.passed = false
	}
	l.newest = number
	l.count++
}

// pass records a lost packet that doesn't count.
func (l *losses) pass() { l.passed = true }

// has reports whether a packet that was declared lost is in the range.
func (l *losses) has(number uint16) bool {
	return l.count > 0 && !before(number, l.first) && !before(l.newest, number)
}

// before reports whether a packet was sent before another one, judged by the low bits of their
// numbers.
func before(number, other uint16) bool { return int16(number-other) < 0 }
