package budget

import (
	"slices"
	"time"
)

// A Bucket is a token bucket. It fills at a rate and holds one second's worth, at least one call. The zero Bucket is full.
type Bucket struct {
	tokens float64
	last   time.Time
}

// Allow takes a token for a call that arrived at came, and reports whether there was one at that time, so that calls which have
// waited for a busy server do not count as simultaneous. A call that arrived before the last one counts as if it had arrived with
// that. If now is before it, too, a game's clock was set back: the bucket does not fill, and continues from there.
func (b *Bucket) Allow(rate float64, came, now time.Time) bool {
	if came.Before(b.last) && !now.Before(b.last) {
		came = b.last
	}
	size := max(1, rate)
	if elapsed := came.Sub(b.last); b.last.IsZero() {
		b.tokens, b.last = size, came
	} else {
		b.tokens, b.last = min(size, b.tokens+max(0, elapsed.Seconds())*rate), came
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Throttle counts calls by method between two updates of an actor. The zero Throttle has counted none.
type Throttle[M comparable] struct {
	flush  uint64    // number of the Flush at which counting began
	since  time.Time // when that was
	counts []methodCalls[M]
}

// methodCalls is the count of one method.
type methodCalls[M comparable] struct {
	method M
	calls  int
}

// Exceeds counts a call, and reports whether there were more than most since the last update of the actor. An update is the first
// Flush, recognized by its number, at least a period after the last update. UE: net.MaxRPCPerNetUpdate.
func (t *Throttle[M]) Exceeds(m M, most int, flush uint64, now time.Time, period time.Duration) bool {
	if past := now.Sub(t.since); t.flush != flush && (past < 0 || past >= period) { // a game's clock may go back
		t.flush, t.since, t.counts = flush, now, t.counts[:0]
	}
	i := slices.IndexFunc(t.counts, func(c methodCalls[M]) bool { return c.method == m })
	if i < 0 {
		i = len(t.counts)
		t.counts = append(t.counts, methodCalls[M]{method: m})
	}
	t.counts[i].calls++
	return t.counts[i].calls > most
}
