package chunk

import "time"

// budgetTime is how much of the rate a budget keeps: an owner that comes this rarely still gets all of it.
const budgetTime = 250 * time.Millisecond

// budget is the article's accumulator: bytes come in with time and go out with slices, and what is left over stays. It
// counts in billionths of a byte, so that no rate and no interval is rounded away.
type budget struct {
	rate int64 // bytes a second; not positive = no limit
	held int64
	at   time.Duration // up to when the rate has been added
	runs bool
}

// rest ends accumulating until the next call of add, for there is nothing to send. One slice's worth is kept: unused time
// must not become a burst.
func (b *budget) rest(most int) {
	b.held, b.runs = min(b.held, int64(most)*int64(time.Second)), false
}

// add brings in the bytes since the call before; most is the costliest thing that may ever be taken.
func (b *budget) add(now time.Duration, most int) {
	if b.runs && b.rate > 0 {
		limit := max(b.rate*int64(budgetTime), int64(most)*int64(time.Second))
		elapsed := min(now-b.at, time.Duration(limit/b.rate)+1)
		b.held = min(b.held+b.rate*int64(elapsed), limit)
	}
	b.at, b.runs = now, true
}

// take removes the bytes when there are so many.
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
