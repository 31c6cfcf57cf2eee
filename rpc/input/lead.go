package input

import "time"

const (
	// memory is the period of needs. The needs of one to two periods are considered.
	//
	// Of n successive inputs whose delays follow no trend, the newest is the slowest with
	// probability 1/n. At 30 and 60 Hz n is 180 to 720. One to six inputs in a thousand are
	// therefore late, which a player does not notice.
	memory = 6 * time.Second

	// guard is added to the need of the slowest input. Within memory, the
	// clocks of both ends drift by less than guard. A packet that is as late as
	// the slowest therefore still arrives in time.
	guard = 2 * time.Millisecond

	// maxSpread limits how much more the slowest input may need than the quickest. If the
	// path stands still for longer now and then, those inputs are late and the server repeats
	// older ones. This is better than a longer delay for all inputs.
	maxSpread = 250 * time.Millisecond

	// While inputs arrive late, predicted time gains rise times the time that passes. It runs at
	// twice its speed, so 100 ms are made up within 100 ms, and a frame has two ticks instead of
	// one. While inputs are too early, predicted time loses 1/fall, which a player does not see.
	rise, fall = 1, 16

	// maxSteer is the largest error of predicted time that is corrected gradually. If the
	// error is larger, the server's ticks have jumped, and predicted time jumps too.
	maxSteer = time.Second
)

// lead determines which tick a client predicts. It is pure: it has no clock.
//
// In predicted time, tick n begins at n times the length of a tick. Predicted time is ahead
// of the client's clock. The amount covers the difference between the clocks, the way to the
// server, and a margin for its jitter.
//
// If an input was made while predicted time was ahead by a, and arrived b before its tick, its
// need was a−b. The need does not depend on the current a, so the lead does not oscillate.
type lead struct {
	tick   time.Duration // length of a tick
	known  bool          // begin was called
	ahead  time.Duration // excess of predicted time over the client's clock
	at     time.Duration // time when it was last steered
	frame  time.Duration // time from one steer to the next, smoothed
	recent needs         // needs recorded in the current period of memory
	older  needs         // needs recorded in the previous period
	began  time.Duration // time when recent began
}

// needs are the needs of the quickest and the slowest of a number of inputs.
type needs struct {
	known             bool // add was called
	quickest, slowest time.Duration
}

func (n *needs) add(need time.Duration) {
	if !n.known {
		*n = needs{true, need, need}
	}
	n.quickest = min(n.quickest, need)
	n.slowest = max(n.slowest, need)
}

// begin sets the lead to a guess, and forgets all needs.
func (l *lead) begin(at, ahead time.Duration) {
	*l = lead{tick: l.tick, frame: l.frame, known: true, ahead: ahead, at: at, began: at}
}

// need returns the amount by which predicted time had to be ahead for an input. Predicted
// time was ahead by ahead, the input was made waited after its tick began, and it arrived
// left before the server took it.
//
// The input counts as if it had waited for a whole frame. Otherwise, if frames
// are as long as ticks, the lead would fall while all inputs are early, until
// they are made a frame later and all are late.
func (l *lead) need(ahead, waited, left time.Duration) time.Duration {
	return ahead - left + max(0, l.frame-waited)
}

// learn records the need of an input.
func (l *lead) learn(at, need time.Duration) {
	if at-l.began >= memory {
		l.older = l.recent
		l.recent = needs{}
		l.began = at
	}
	l.recent.add(need)
}

// needed returns the needs of the quickest and the slowest of the
// recent inputs. ok is false if there are none.
func (l *lead) needed() (quickest, slowest time.Duration, ok bool) {
	all := l.recent
	if l.older.known {
		all.add(l.older.quickest)
		all.add(l.older.slowest)
	}
	return all.quickest, min(all.slowest, all.quickest+maxSpread), all.known
}

// steer moves predicted time towards the need of the slowest input,
// and returns the tick at that time.
func (l *lead) steer(at time.Duration) uint64 {
	passed := max(0, at-l.at)
	l.frame = smooth(l.frame, passed)
	l.at = max(l.at, at)
	if _, slowest, ok := l.needed(); ok {
		off := slowest + guard - l.ahead
		if off.Abs() <= maxSteer {
			off = min(max(off, -passed/fall), passed*rise)
		}
		l.ahead += off
	}
	return l.predicted(l.at)
}

// predicted returns the tick at a time of the client's clock.
func (l *lead) predicted(at time.Duration) uint64 { return uint64(max(0, at+l.ahead) / l.tick) }

// useless reports whether an input that is sent now would arrive more than doubt ticks late
// even if it were as quick as the quickest.
func (l *lead) useless(tick uint64, at time.Duration) bool {
	quickest, _, ok := l.needed()
	return ok && time.Duration(tick)*l.tick < at+quickest-doubt*l.tick
}

// doubt is the number of ticks for which an input is sent again although its tick seems to be
// over. The answer to a copy of a lost input shows how late the copy was. The margin then
// grows until copies arrive in time.
const doubt = 3
