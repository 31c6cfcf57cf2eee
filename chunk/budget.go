package chunk

import "time"

// budgetTime is the longest time for which a budget saves bytes: an owner that
// calls only this often still gets the whole rate.
const budgetTime = 250 * time.Millisecond

// A budget is the article's accumulator: time adds bytes, slices take them, and unused bytes
// stay. It counts in billionths of a byte, so that no rate and no interval is rounded.
type budget struct {
	rate int64         // bytes a second; not positive = no limit
	held int64         // billionths of a byte
	at   time.Duration // the time up to which bytes were added
	runs bool          // time adds bytes now
}

// rest stops adding bytes until the next call of add, because there is nothing to send.
// The budget keeps at most the bytes of one slice: unused time must not become a burst.
func (b *budget) rest(most int) {
	b.held, b.runs = min(b.held, int64(most)*int64(time.Second)), false
}

// add adds the bytes since the last call. most is the largest argument of any take.
func (b *budget) add(now time.Duration, most int) {
	if b.runs && b.rate > 0 {
		limit := max(b.rate*int64(budgetTime), int64(most)*int64(time.Second))
		elapsed := min(now-b.at, time.Duration(limit/b.rate)+1)
		b.held = min(b.held+b.rate*int64(elapsed), limit)
	}
	b.at, b.runs = now, true
}

// take removes bytes from the budget. It returns false, and removes none, if
// the budget holds fewer.
func (b *budget) take(bytes int) bool {
	cost := int64(bytes) * int64(time.Second)
	if b.rate <= 0 {
		return true
	}
	if b.held < cost {
		return false
	}
	b.held -= cost
	return true
}

// when returns the time from which take succeeds, rounded up.
func (b *budget) when(bytes int) time.Duration {
	missing := int64(bytes)*int64(time.Second) - b.held
	if b.rate <= 0 || missing <= 0 {
		return b.at
	}
	return b.at + time.Duration((missing+b.rate-1)/b.rate)
}
