package pace

import "math"

// lossMemory is the number of packets over which losses are averaged. It's enough to distinguish 1
// % from 3 %.
const lossMemory = 256

// A share is a moving average of the share of packets that were lost.
type share struct {
	value float64
	count float64
}

// note adds packets whose fates became known.
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
	consecutive int // lost right after another lost packet while the queue had room
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

// takeBack removes a lost packet that arrived after all.
func (t *tally) takeBack() {
	t.lost = max(t.lost-1, 0)
	t.consecutive = max(t.consecutive-1, 0)
}

func (t tally) count() int { return t.lost + t.acked }

// share returns the share of packets that were lost, from 0 to 1.
func (t tally) share() float64 {
	if t.lost == 0 {
		return 0
	}
	return float64(t.lost) / float64(t.count())
}

// events returns the tally with each run of losses that is a single event counted as one lost
// packet.
func (t tally) events() tally { return tally{lost: t.lost - t.consecutive, acked: t.acked} }

// above reports whether more was lost than random loss of the given share explains.
//
// The excess must be at least 2 percentage points, because we don't know the share more precisely
// than that. It must also be at least two standard deviations, because a round of 40 packets easily
// loses 2 points more by chance.
func (t tally) above(random float64) bool {
	n := float64(t.count())
	expected := random * n
	return float64(t.lost) > expected+max(0.02*n, 2*math.Sqrt(max(expected*(1-random), 1)))
}

// beyond is a stricter version of above, with four standard deviations. Random loss of the given
// share exceeds that only once in many thousand cases.
func (t tally) beyond(share float64) bool {
	expected := share * float64(t.count())
	return float64(t.lost) > expected+4*math.Sqrt(expected*t.spread())
}

// spread returns how much the number of lost packets varies compared with independent losses, as
// the ratio of the variances. It's 2n-1 if packets are lost in runs of n on average. On a fading
// radio, for example, a run is a single event whatever its length.
func (t tally) spread() float64 { return 2*float64(t.lost)/float64(max(t.lost-t.consecutive, 1)) - 1 }

// floods reports whether more was lost than any random loss explains.
func (t tally) floods() bool { return t.share() > unexplainedLoss && t.beyond(maxRandomLoss) }

// A flood is a detector of heavy loss for controllers with few packets. When many controllers share
// a path, each may have only two or three packets in a round. Since these are too few to show
// anything, a flood gathers the fates of several rounds.
type flood struct {
	fates tally
	from  int64 // gather packets sent after this round
}

// begin starts over with the packets sent after this round. It is called at the end of a start and
// when a competition begins, because the losses before that have been answered.
func (f *flood) begin(r *round) { *f = flood{from: r.number} }

// roundOver adds the packets sent three rounds ago, whose fates are known now.
func (f *flood) roundOver(r *round) {
	oldest := r.number - int64(len(r.sent)) + 1
	if oldest <= f.from {
		return
	}
	sent := *r.sentIn(uint8(oldest))
	if sent.count() >= trainPackets {
		// This round alone is large enough to show a flood. If we went on gathering, losses that
		// lasted only a moment, at a stall or a policer, would lower the rate again and again, and
		// make a transfer that is alone go on competing.
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

// shows reports whether more was lost than any random loss explains. It needs the fates of at least
// a quarter of lossMemory, because sometimes even three of three packets are lost by chance.
func (f *flood) shows() bool { return f.fates.count() >= lossMemory/4 && f.fates.floods() }

// creditPackets is by how many packets random loss may temporarily exceed its share. It's about
// three standard deviations of the number lost when 500 packets meet 5 % loss.
const creditPackets = 16

// usual returns the share of random loss that is usual on the path.
func (c *Controller) usual() float64 { return c.congestion.usual(c.now) }

// countAsDelivered counts a lost packet as delivered if its loss seems to be random. Random loss
// happens after the bottleneck, so it should neither lower our estimate of the bottleneck's rate
// nor make it less certain.
//
// It counts only as many packets as usual loss explains, and none on a path that drops packets
// instead of queueing them, because losses there do show that the rate is too high.
func (c *Controller) countAsDelivered(size int) {
	if c.looks.shallow || c.queue > c.delay.target() || c.credit < float64(size) {
		return
	}
	c.credit -= float64(size)
	c.delivery.total += int64(size)
}

// runSpacing is how many packets must arrive between two runs of losses, on average, for a run to
// count as a single event such as a radio fade.
//
// A policer or a short queue also drops excess packets in runs, but passes only a few in between.
// That may happen between two radio fades as well, but not every time.
const runSpacing = 8

// A run is the newest run of lost packets, sent one right after the other.
type run struct {
	newest uint16  // number of its newest packet, low bits
	missed float64 // average shortfall from 2*runSpacing of the packets between runs
}

// continuedBy reports whether a packet was sent right after the newest lost one.
func (r *run) continuedBy(number uint16) bool { return number == r.newest+1 }

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
// because it couldn't tell those from the earlier ones, which then stay lost even if they arrive.
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
