// Package drops counts, by reason, the calls and messages that a connection drops: received ones
// that it doesn't run and outgoing ones that it doesn't send.
package drops

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// A Reason says why something was dropped. The field of rpc.Drops with the same name holds
// its count and documents it.
type Reason uint8

const (
	None Reason = iota
	NotOwner
	RateLimited
	Unbound
	Closed // the actor or its channel is closed
	Invalid
	Ended
	Saturated
	UnknownRef
	Gone
	Requests
	Answer
	Blocked
	Message
	Throttled

	reasons
)

var texts = [reasons]string{
	NotOwner:    "caller does not own the actor",
	RateLimited: "method exceeds its RateLimit",
	Unbound:     "method has no handler",
	Invalid:     "Validate returned an error for the argument",
	Ended:       "connection ended",
	Blocked:     "method exceeds the limits of Config.DoS",
	Requests:    "unanswered requests have reached Config.MaxRequests",
}

// String returns the reason's text in a warning, or "" if no warning has that reason.
func (r Reason) String() string { return texts[r] }

// harmless holds the reasons that occur even if neither side made a mistake.
var harmless = [reasons]bool{
	Closed: true, Saturated: true, UnknownRef: true, Throttled: true, Answer: true,
}

// Counters counts the drops of one connection. The zero value is ready to use. Add and Of may
// be called concurrently. Pass and Blame must be called by one goroutine at a time.
type Counters struct {
	counts [reasons]atomic.Uint64
	gates  [reasons]logs.Gate
}

// Add counts n drops for a reason.
func (c *Counters) Add(r Reason, n int) { c.counts[r].Add(uint64(n)) }

// Of returns the number of drops for a reason.
func (c *Counters) Of(r Reason) uint64 { return c.counts[r].Load() }

// Pass counts one drop and reports whether to log a warning, which it allows once a second for each
// reason. hidden is the number of drops since the last warning that were not logged.
func (c *Counters) Pass(r Reason, now time.Time) (hidden int, ok bool) {
	c.Add(r, 1)
	return c.gates[r].Pass(now)
}

// Blame is Pass for a drop that may be the peer's mistake. ok is always false for a harmless
// reason.
func (c *Counters) Blame(r Reason, now time.Time) (hidden int, ok bool) {
	hidden, ok = c.Pass(r, now)
	return hidden, ok && !harmless[r]
}
