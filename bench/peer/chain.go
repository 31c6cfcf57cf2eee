package peer

import "context"

// A Chain is a series of calls, each of which is made in the handler of the answer to the last one.
type Chain struct {
	next func() bool
	done chan error
}

// NewChain returns a chain whose first call has not been made yet. At each
// answer next returns whether another call follows.
func NewChain(next func() bool) *Chain { return &Chain{next, make(chan error, 1)} }

// Answered makes the next call, if one follows, and reports whether the chain continues.
func (c *Chain) Answered(call func() error) bool {
	var err error
	if c.next() {
		if err = call(); err == nil {
			return true
		}
	}
	c.done <- err
	return false
}

// Wait returns when the chain has ended.
func (c *Chain) Wait(ctx context.Context) error { return await(ctx, c.done) }
