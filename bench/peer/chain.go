package peer

import "context"

// Chain is calls of which each is made where the answer to the last is heard.
type Chain struct {
	next func() bool
	done chan error
}

// NewChain is for a first call that is still to be made. At each answer next says whether another one follows.
func NewChain(next func() bool) *Chain { return &Chain{next, make(chan error, 1)} }

// Answered makes the next call, if one follows, and reports whether the chain goes on.
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

// Wait returns when the chain is over.
func (c *Chain) Wait(ctx context.Context) error { return await(ctx, c.done) }
