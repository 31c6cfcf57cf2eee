// Package drops names the reasons for which a call that arrived did not run, or one that was made did not leave, and counts them for a
// connection. Nothing is dropped that is not counted here.
package drops

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// Reason says why something was dropped; the fields of rpc.Drops that are named alike say it to the game.
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

// String returns the reason as a warning has it, "" where no warning does.
func (r Reason) String() string { return texts[r] }

// harmless are reasons that are nobody's mistake.
var harmless = [reasons]bool{Closed: true, Saturated: true, UnknownRef: true, Throttled: true, Answer: true}

// Counters are what one connection has dropped. The zero Counters have counted nothing. Add and Of are safe from any goroutine, Pass
// belongs to one.
type Counters struct {
	counts [reasons]atomic.Uint64
	gates  [reasons]logs.Gate
}

// Add counts n for a reason.
func (c *Counters) Add(r Reason, n int) { c.counts[r].Add(uint64(n)) }

// Of returns how many were dropped for a reason.
func (c *Counters) Of(r Reason) uint64 { return c.counts[r].Load() }

// Pass counts one, and reports whether a warning may be written: for each reason one a second. hidden is how many were counted without one
// since the last warning.
func (c *Counters) Pass(r Reason, now time.Time) (hidden int, ok bool) {
	c.Add(r, 1)
	return c.gates[r].Pass(now)
}

// Blame is Pass for what a peer may be to blame for: of a reason that is nobody's mistake no warning is written.
func (c *Counters) Blame(r Reason, now time.Time) (hidden int, ok bool) {
	hidden, ok = c.Pass(r, now)
	return hidden, ok && !harmless[r]
}
