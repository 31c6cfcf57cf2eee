package budget

import (
	"slices"
	"time"
)

// A Bucket is a token bucket. It fills at a given rate and holds up to one second's worth of
// tokens, but never less than one. The zero Bucket is full.
type Bucket struct {
	tokens float64
	last   time.Time // when the latest call arrived and tokens was updated; zero before that
}

// Allow takes a token for a call and reports whether one was available. It uses came, the time when
// the call arrived, so that calls that queued up behind a busy server aren't treated as a burst. A
// call that arrived before the previous one is treated as arriving with it.
//
// If now is also earlier, the game's clock was set back. In that case, the bucket isn't
// refilled, and restarts from the new time.
func (b *Bucket) Allow(rate float64, came, now time.Time) bool {
	if came.Before(b.last) && !now.Before(b.last) {
		came = b.last
	}
	b.fill(rate, came)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// fill adds the tokens for the time since the latest call, or none if at is earlier.
func (b *Bucket) fill(rate float64, at time.Time) {
	size := max(1, rate)
	if b.last.IsZero() {
		b.tokens = size
	} else {
		elapsed := max(0, at.Sub(b.last).Seconds())
		b.tokens = min(size, b.tokens+elapsed*rate)
	}
	b.last = at
}

// A Throttle counts the calls of each method between two updates of an actor. The zero Throttle
// has counted no calls.
type Throttle[M comparable] struct {
	flush  uint64    // number of the Flush at which the count began
	since  time.Time // time of that Flush
	counts []methodCalls[M]
}

// methodCalls is the number of calls of one method.
type methodCalls[M comparable] struct {
	method M
	calls  int
}

// Count counts a call, and reports whether there have been more than limit calls to m since the
// actor's last update. An actor's update is the first Flush that comes at least period after the
// previous update. flush is the number of the current Flush. UE: net.MaxRPCPerNetUpdate.
func (t *Throttle[M]) Count(m M, limit int, flush uint64, now time.Time, period time.Duration) (exceeds bool) {
	past := now.Sub(t.since)
	due := past < 0 || past >= period // past < 0: the game's clock was set back
	if due && t.flush != flush {
		t.flush = flush
		t.since = now
		t.counts = t.counts[:0]
	}
	i := slices.IndexFunc(t.counts, func(c methodCalls[M]) bool { return c.method == m })
	if i < 0 {
		i = len(t.counts)
		t.counts = append(t.counts, methodCalls[M]{method: m})
	}
	t.counts[i].calls++
	return t.counts[i].calls > limit
}
