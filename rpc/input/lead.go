package input

import "time"

const (
	// memory is the period of needs; needs of one to two periods are considered.
	// Of n successive inputs whose delays follow no trend, the newest is the
	// slowest with probability 1/n. At 30 and 60 Hz n is 180 to 720, so 1 to 6
	// inputs in a thousand are late, which a player does not notice.
	memory = 6 * time.Second
	// guard is added to the need of the slowest input. The clocks of both ends drift by less
	// than that within memory, so a packet that is as late as the slowest still arrives in time.
	guard = 2 * time.Millisecond
	// maxSpread limits how much more the slowest input may need than the quickest. If
	// the path stands still for longer now and then, those inputs are late and the
	// server repeats older ones, which is better than a longer delay for all inputs.
	maxSpread = 250 * time.Millisecond
	// While inputs arrive late, predicted time gains rise times the time that passes: it runs at
	// twice its speed, so that 100 ms are made up within 100 ms, and a frame has two ticks instead
	// of one. While inputs are too early, predicted time loses 1/fall, which a player does not see.
	rise, fall = 1, 16
	// maxSteer is the largest error of predicted time that is corrected gradually. If the
	// error is larger, the server's ticks have jumped, and predicted time jumps, too.
	maxSteer = time.Second
)

// lead decides which tick a client predicts. In predicted time, tick n begins at n times the
// length of a tick. Predicted time is ahead of the client's clock by an amount that covers the
// difference of the clocks, the way to the server, and a margin for its jitter. If an input
// was made while predicted time was ahead by a, and arrived b before its tick, it needed a−b.
// That does not depend on the present a, so the lead does not oscillate. lead is pure.
type lead struct {
	tick   time.Duration // length of a tick
	known  bool          // begin was called
	ahead  time.Duration // by how much predicted time is ahead of the client's clock
	at     time.Duration // when it was last steered
	frame  time.Duration // from one steer to the next, smoothed
	recent needs         // needs recorded in the current period of memory
	older  needs         // needs recorded in the period before
	began  time.Duration // when recent began
}

// needs are the least and the greatest need of a number of inputs.
type needs struct {
	known       bool // add was called
	least, most time.Duration
}

func (n *needs) add(need time.Duration) {
	if !n.known {
		*n = needs{true, need, need}
	}
	n.least, n.most = min(n.least, need), max(n.most, need)
}

// begin sets the lead to a guess, and forgets all needs.
func (l *lead) begin(at, ahead time.Duration) {
	*l = lead{tick: l.tick, frame: l.frame, known: true, ahead: ahead, at: at, began: at}
}

// need returns how far ahead predicted time needed to be for an input. Predicted
// time was ahead by ahead, the input was made waited after its tick had begun, and
// it arrived left before the server took it. The input counts as if it had waited
// for a whole frame. Otherwise, if frames are as long as ticks, the lead would fall
// while all inputs are early, until they are made a frame later and all are late.
func (l *lead) need(ahead, waited, left time.Duration) time.Duration {
	return ahead - left + max(0, l.frame-waited)
}

// learn records the need of an input.
func (l *lead) learn(at, need time.Duration) {
	if at-l.began >= memory {
		l.older, l.recent, l.began = l.recent, needs{}, at
	}
	l.recent.add(need)
}

// needed returns the needs of the quickest and the slowest of the recent
// inputs. ok is false if there are none.
func (l *lead) needed() (least, most time.Duration, ok bool) {
	all := l.recent
	if l.older.known {
		all.add(l.older.least)
		all.add(l.older.most)
	}
	return all.least, min(all.most, all.least+maxSpread), all.known
}

// steer moves predicted time towards the need of the slowest input, and returns
// the tick at that time.
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

// predicted returns the tick at a time of the client's clock.
func (l *lead) predicted(at time.Duration) uint64 { return uint64(max(0, at+l.ahead) / l.tick) }

// useless reports whether an input that is sent now would arrive more than
// doubt ticks late even if it were as quick as the quickest.
func (l *lead) useless(tick uint64, at time.Duration) bool {
	least, _, ok := l.needed()
	return ok && time.Duration(tick)*l.tick < at+least-doubt*l.tick
}

// doubt is the number of ticks for which an input is sent again although its
// tick seems to be over: the answer to a copy of a lost input shows how late it
// was, so that the margin grows until copies arrive in time.
const doubt = 3
