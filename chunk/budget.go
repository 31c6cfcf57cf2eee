package chunk

import "time"

// budgetTime is the maximum time for which a budget accumulates bytes. A driver that calls only
// this often still gets the whole rate.
const budgetTime = 250 * time.Millisecond

// A budget limits the bytes sent per second. It is the article's accumulator: time adds bytes,
// slices take them, and unused bytes stay.
//
// It counts in billionths of a byte, which makes every rate and interval exact.
type budget struct {
	rate    int64         // bytes per second; no limit unless positive
	held    int64         // available, in billionths of a byte
	at      time.Duration // time of the latest call of add
	running bool          // whether the time since at adds bytes
}

// stop keeps time from adding bytes until the next call of add, because there is nothing to send.
//
// The budget keeps at most maxTake bytes, the cost of one slice, so that idle time doesn't lead to
// a burst.
func (b *budget) stop(maxTake int) {
	b.held = min(b.held, int64(maxTake)*int64(time.Second))
	b.running = false
}

// add adds the bytes for the time since the previous call, unless stop was called in between.
// maxTake is the largest argument of any later call of take, for which the budget always has room.
func (b *budget) add(now time.Duration, maxTake int) {
	if b.running && b.rate > 0 {
		limit := max(b.rate*int64(budgetTime), int64(maxTake)*int64(time.Second))
		elapsed := min(now-b.at, time.Duration(limit/b.rate)+1)
		b.held = min(b.held+b.rate*int64(elapsed), limit)
	}
	b.at = now
	b.running = true
}

// take removes bytes from the budget. If the budget holds fewer, take removes none and returns
// false.
func (b *budget) take(bytes int) bool {
	if b.rate <= 0 {
		return true
	}
	cost := int64(bytes) * int64(time.Second)
	if b.held < cost {
		return false
	}
	b.held -= cost
	return true
}

// when returns the earliest time at which take succeeds.
func (b *budget) when(bytes int) time.Duration {
	missing := int64(bytes)*int64(time.Second) - b.held
	if b.rate <= 0 || missing <= 0 {
		return b.at
	}
	return b.at + time.Duration((missing+b.rate-1)/b.rate)
}
