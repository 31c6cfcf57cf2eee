package input

import "time"

const (
	// memory of what inputs needed is one to two of these. Of n inputs in a row whose delays follow no trend, the newest is the slowest
	// with probability 1/n: with 180 to 720 of them, at 30 and 60 Hz, so many in a thousand come late that a player does not notice.
	memory = 6 * time.Second
	// guard is what is added to what the slowest input needed: the clocks of both ends drift by less within memory, and a packet that
	// is as late as the slowest was still comes in time.
	guard = 2 * time.Millisecond
	// maxSpread bounds what the slowest input may need more than the quickest. A path that stands still for longer now and then is not
	// worth that all inputs are felt later: those are late, and the server repeats.
	maxSpread = 250 * time.Millisecond
	// The predicted time runs at twice its speed while inputs come late, so that 100 ms are made up within 100 ms and a frame has two
	// ticks instead of one; and at 15/16 while they come too early, which nobody sees.
	rise, fall = 1, 16
	// maxSteer is how far predicted time may be off before it jumps: the server's ticks are others.
	maxSteer = time.Second
)

// lead decides which tick a client predicts. The time of ticks, tick n at n times its length, is ahead of the client's clock by an
// amount that covers the difference of the clocks, the way to the server, and a margin for its jitter. What is measured does not
// depend on what is in force, so that nothing swings: an input that was made while predicted time was ahead by a, and came before its
// tick by b, needed a−b. It is pure.
type lead struct {
	tick   time.Duration // of one tick
	known  bool
	ahead  time.Duration // in force
	at     time.Duration // when it was steered last
	frame  time.Duration // from one time to the next, smoothed
	recent needs         // of the running period of memory
	older  needs         // of the one before
	began  time.Duration // of recent
}

// needs are the extremes of what inputs needed.
type needs struct {
	known       bool
	least, most time.Duration
}

func (n *needs) add(need time.Duration) {
	if !n.known {
		*n = needs{true, need, need}
	}
	n.least, n.most = min(n.least, need), max(n.most, need)
}

// begin takes a first guess, and forgets what was measured.
func (l *lead) begin(at, ahead time.Duration) {
	*l = lead{tick: l.tick, frame: l.frame, known: true, ahead: ahead, at: at, began: at}
}

// need returns what an input needed that was made so long after its tick had begun, while predicted time was so far ahead, and came so
// early. It is counted as one that had waited for a whole frame: else, where frames are as long as ticks, the lead falls while all
// come early, until they are made a frame later and are all late.
func (l *lead) need(ahead, waited, left time.Duration) time.Duration {
	return ahead - left + max(0, l.frame-waited)
}

// learn takes what an input needed.
func (l *lead) learn(at, need time.Duration) {
	if at-l.began >= memory {
		l.older, l.recent, l.began = l.recent, needs{}, at
	}
	l.recent.add(need)
}

// needed returns what the quickest and the slowest input needed lately.
func (l *lead) needed() (least, most time.Duration, ok bool) {
	all := l.recent
	if l.older.known {
		all.add(l.older.least)
		all.add(l.older.most)
	}
	return all.least, min(all.most, all.least+maxSpread), all.known
}

// steer moves predicted time towards what inputs need, and returns the tick that it is then.
func (l *lead) steer(at time.Duration) uint64 {
	passed := max(0, at-l.at)
	l.frame = smooth(l.frame, passed)
	l.at = max(l.at, at)
	if _, most, ok := l.needed(); ok {
		off := most + guard - l.ahead
		if off.Abs() <= maxSteer {
			off = min(max(off, -passed/fall), passed*rise)
		}
		l.ahead += off
	}
	return l.predicted(l.at)
}

// predicted returns which tick it is at a time.
func (l *lead) predicted(at time.Duration) uint64 { return uint64(max(0, at+l.ahead) / l.tick) }

// useless reports whether an input of a tick would come too late even if it were quick, and its copies of three ticks before were not
// worth the doubt.
func (l *lead) useless(tick uint64, at time.Duration) bool {
	least, _, ok := l.needed()
	return ok && time.Duration(tick)*l.tick < at+least-doubt*l.tick
}

// doubt is how many ticks are sent again though they seem to be over: the copies of an input that was lost tell how late they came, and
// so that the margin is to grow until they do not.
const doubt = 3
