package input

import "time"

const (
	// needPeriod is the length of a period in which we collect needs. We go by the current period
	// and the one before.
	//
	// Of n successive inputs whose delays follow no trend, the newest is the slowest with
	// probability 1/n. At 30 to 60 Hz, n is 180 to 720, so one to six inputs in a thousand are
	// late, which a player doesn't notice.
	needPeriod = 6 * time.Second

	// guard is how much more than the slowest input has needed we allow for. The clocks of both
	// ends drift by less than that within needPeriod, so a packet that is just as slow again
	// still arrives in time.
	guard = 2 * time.Millisecond

	// maxSpread limits how much more the slowest input may need than the quickest. If the path
	// stalls for longer than that now and then, these inputs are late and the server repeats
	// older ones, which is better than delaying all inputs.
	maxSpread = 250 * time.Millisecond

	// While inputs arrive late, predicted time gains rise times the time that passes. That is, it
	// runs at twice its normal speed, makes up for 100 ms within 100 ms, and a frame has two
	// ticks instead of one. While inputs are too early, it loses 1/fall of the time that passes,
	// which a player doesn't see.
	rise, fall = 1, 16

	// maxSteer is the largest error of predicted time that we correct gradually. If it is larger,
	// the server's ticks have jumped, and predicted time has to jump, too.
	maxSteer = time.Second
)

// A lead is how far a client's predicted time is ahead of its clock. It decides which tick the
// client predicts, since in predicted time, tick n begins at n times the length of a tick.
//
// The lead has to make up for the difference between the two clocks, for the way to the server,
// and for jitter, so that inputs arrive just before their ticks. If an input was made while
// predicted time was ahead by a, and arrived b before its tick, then a−b would have been enough:
// that is its need. It doesn't depend on how far ahead we are now, so the lead doesn't oscillate.
//
// A lead is pure. It doesn't read a clock.
type lead struct {
	tick  time.Duration // length of a tick
	known bool          // begin was called
	ahead time.Duration // how far predicted time is ahead of the client's clock
	at    time.Duration // when it was last steered

	frameTime time.Duration // time from one steer to the next, smoothed

	// What inputs have needed.
	recent      needs         // in the current period
	older       needs         // in the one before
	recentSince time.Duration // when the current period began
}

// needs keeps track of what the quickest and the slowest of some inputs have needed.
type needs struct {
	known             bool // add was called
	quickest, slowest time.Duration
}

// add adds the need of one input.
func (n *needs) add(need time.Duration) {
	if !n.known {
		*n = needs{true, need, need}
	}
	n.quickest = min(n.quickest, need)
	n.slowest = max(n.slowest, need)
}

// begin sets the lead to a guess, and forgets all needs.
func (l *lead) begin(at, ahead time.Duration) {
	*l = lead{tick: l.tick, frameTime: l.frameTime, known: true, ahead: ahead, at: at, recentSince: at}
}

// need returns how far predicted time would have had to be ahead for an input to be just in time.
// When the input was made, predicted time was ahead by ahead, and waited had passed since the
// beginning of the tick. When it arrived, there was left to go until the server took it.
func (l *lead) need(ahead, waited, left time.Duration) time.Duration {
	// An input may have to wait for up to a frame, so count each as if it had. Otherwise, if
	// frames are as long as ticks, the lead would shrink while all inputs are early, until each
	// is made a frame later and all of them are late.
	return ahead - left + max(0, l.frameTime-waited)
}

// learn takes the need of an input into account.
func (l *lead) learn(at, need time.Duration) {
	if at-l.recentSince >= needPeriod {
		l.older = l.recent
		l.recent = needs{}
		l.recentSince = at
	}
	l.recent.add(need)
}

// extremes returns what the quickest and the slowest of the last inputs have needed, the latter
// limited by maxSpread. ok is false if there were none.
func (l *lead) extremes() (quickest, slowest time.Duration, ok bool) {
	all := l.recent
	if l.older.known {
		all.add(l.older.quickest)
		all.add(l.older.slowest)
	}
	return all.quickest, min(all.slowest, all.quickest+maxSpread), all.known
}

// steer moves predicted time towards what the slowest input has needed, and returns the tick to
// predict now.
func (l *lead) steer(at time.Duration) uint64 {
	passed := max(0, at-l.at)
	l.frameTime = smooth(l.frameTime, passed)
	l.at = max(l.at, at)
	if _, slowest, ok := l.extremes(); ok {
		change := slowest + guard - l.ahead
		if change.Abs() <= maxSteer {
			change = min(max(change, -passed/fall), passed*rise)
		}
		l.ahead += change
	}
	return l.predicted(l.at)
}

// predicted returns the tick at a time of the client's clock.
func (l *lead) predicted(at time.Duration) uint64 { return uint64(max(0, at+l.ahead) / l.tick) }

// tooLate reports whether it is pointless to send an input for a tick now, because it would
// arrive more than doubt ticks late even if it were as quick as the quickest.
func (l *lead) tooLate(tick uint64, at time.Duration) bool {
	quickest, _, ok := l.extremes()
	return ok && time.Duration(tick)*l.tick < at+quickest-doubt*l.tick
}

// doubt is for how many ticks an input is still sent again although its tick seems to be over. If
// an input was lost, the answer to a copy tells us how late the copy was, and the lead grows until
// copies arrive in time.
const doubt = 3
