package input

import "time"

const (
	// needPeriod is the length of a period in which we collect needs. The lead is based on the
	// current and the previous period.
	//
	// Of n successive inputs whose delays follow no trend, the newest is the slowest with
	// probability 1/n. At 30 to 60 Hz, n is 180 to 720, so one to six inputs in a thousand are
	// late, which a player doesn't notice.
	needPeriod = 6 * time.Second

	// guard is a safety margin on top of the need of the slowest input. The clocks of both ends
	// drift by less than that within needPeriod, so another packet that is just as slow still
	// arrives in time.
	guard = 2 * time.Millisecond

	// maxSpread limits the difference that we allow for between the needs of the slowest and the
	// quickest input. If the path stalls for longer now and then, the inputs of those moments are
	// late and the server repeats older inputs. This is better than delaying all inputs.
	maxSpread = 250 * time.Millisecond

	// While inputs arrive late, predicted time gains rise times the elapsed time. That is, it
	// runs at twice its normal speed, makes up for 100 ms within 100 ms, and a frame has two
	// ticks instead of one. While inputs are too early, predicted time loses 1/fall of the
	// elapsed time, which a player doesn't notice.
	rise, fall = 1, 16

	// maxSteer is the largest error of predicted time that we correct gradually. If the error is
	// larger, the server's ticks have jumped, and predicted time has to jump, too.
	maxSteer = time.Second
)

// A lead is how far a client's predicted time is ahead of the client's clock. It determines which
// tick the client predicts: in predicted time, tick n begins at n times the length of a tick.
//
// The lead has to make up for the difference between the two clocks, for the way to the server,
// and for jitter, so that inputs arrive just before their ticks. If an input was made while
// predicted time was ahead by a, and arrived b before its tick, then a lead of a−b would have
// been enough. We call this the input's need. The need doesn't depend on the current lead, so the
// lead doesn't oscillate.
//
// A lead doesn't read a clock.
type lead struct {
	tick  time.Duration // length of a tick
	known bool          // begin was called
	ahead time.Duration // how far predicted time is ahead of the client's clock
	at    time.Duration // time of the last steer

	frameTime time.Duration // smoothed time between steers

	// The needs of inputs.
	recent      needs         // in the current period
	older       needs         // in the previous period
	recentSince time.Duration // when the current period began
}

// needs records the needs of the quickest and the slowest of some inputs.
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

// need returns the lead with which an input would have been just in time. ahead was the lead when
// the input was made, waited is the time from the beginning of the tick until then, and left is
// the time from the input's arrival until the server took it.
func (l *lead) need(ahead, waited, left time.Duration) time.Duration {
	// An input may have to wait for up to a frame, so treat every input as if it had waited that
	// long. Otherwise, if frames are as long as ticks, the lead would shrink while all inputs are
	// early, until each input is made a frame later and all of them are late.
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

// extremes returns the needs of the quickest and the slowest of the last inputs. maxSpread limits
// the latter. ok is false if there were no inputs.
func (l *lead) extremes() (quickest, slowest time.Duration, ok bool) {
	all := l.recent
	if l.older.known {
		all.add(l.older.quickest)
		all.add(l.older.slowest)
	}
	return all.quickest, min(all.slowest, all.quickest+maxSpread), all.known
}

// steer moves predicted time towards the need of the slowest input, and returns the tick to
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

// tooLate reports whether it is pointless to send an input for a tick now, because the input
// would arrive more than doubt ticks late even if it were as quick as the quickest input so far.
func (l *lead) tooLate(tick uint64, at time.Duration) bool {
	quickest, _, ok := l.extremes()
	return ok && time.Duration(tick)*l.tick < at+quickest-doubt*l.tick
}

// doubt is the number of ticks for which an input is still resent although its tick seems to be
// over. If an input was lost, the answer to a copy tells us how late the copy was, and the lead
// grows until copies arrive in time.
const doubt = 3
