// Package drops names the reasons why an arriving call did not run or an outgoing one did not leave, and counts them for one connection.
// Everything that is dropped is counted here.
package drops

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// Reason says why something was dropped. The field of rpc.Drops with the same name tells it to the game.
type Reason uint8

const (
	None Reason = iota
	NotOwner
	RateLimited
	Unbound
	Closed // the actor, or its channel
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
	NotOwner: "the caller does not own the actor", RateLimited: "over the method's RateLimit",
	Unbound: "no handler is bound", Invalid: "Validate refused the argument",
	Ended:    "the connection has ended",
	Blocked:  "more of its method than rpc.Config.DoS lets run",
	Requests: "as many requests wait for an answer of this side as Config.MaxRequests allows",
}

// String returns the reason in the words of a warning; "" for reasons of which no warning is written.
func (r Reason) String() string { return texts[r] }

// harmless are reasons that are nobody's mistake.
var harmless = [reasons]bool{Closed: true, Saturated: true, UnknownRef: true, Throttled: true, Answer: true}

// Counters counts what one connection has dropped. The zero Counters are ready to use. Add and Of are safe from any goroutine; Pass and
// Blame belong to one goroutine.
type Counters struct {
	counts [reasons]atomic.Uint64
	gates  [reasons]logs.Gate
}

// Add counts n drops for a reason.
func (c *Counters) Add(r Reason, n int) { c.counts[r].Add(uint64(n)) }

// Of returns the number of drops for a reason.
func (c *Counters) Of(r Reason) uint64 { return c.counts[r].Load() }

// Pass counts one drop and reports whether to write a warning, at most one a second for each reason. hidden is the number of drops since
// the last warning that had none.
func (c *Counters) Pass(r Reason, now time.Time) (hidden int, ok bool) {
	c.Add(r, 1)
	return c.gates[r].Pass(now)
}

// Blame is Pass for a drop that the peer may be to blame for: ok is always false for a reason that is nobody's mistake.
func (c *Counters) Blame(r Reason, now time.Time) (hidden int, ok bool) {
	hidden, ok = c.Pass(r, now)
	return hidden, ok && !harmless[r]
}
