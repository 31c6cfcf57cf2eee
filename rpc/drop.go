package rpc

import (
	"fmt"
	"slices"
	"time"
)

// dropReason says why a call that arrived did not run, or one that was made did not leave.
type dropReason uint8

const (
	dropNone dropReason = iota
	dropNotOwner
	dropRateLimited
	dropUnbound
	dropClosed
	dropInvalid
	dropEnded
	dropSaturated
	dropUnknownRef
	dropGone
	dropTooMany
	dropAnswer
	dropBlocked
	dropMessage
	dropThrottled

	dropReasons
)

var dropNames = [dropReasons]string{
	dropNotOwner: "the caller does not own the actor", dropRateLimited: "over the method's RateLimit",
	dropUnbound: "no handler is bound", dropClosed: "the actor is closed", dropInvalid: "Validate refused the argument",
	dropEnded:      "the connection has ended",
	dropSaturated:  "the path or the rate is used up",
	dropBlocked:    "more of its method than rpc.Config.DoS lets run",
	dropUnknownRef: "it names an actor that is not open here",
	dropTooMany:    "as many requests wait for an answer of this side as Config.MaxRequests allows",
}

// harmless are reasons that are nobody's mistake.
var harmless = [dropReasons]bool{dropClosed: true, dropSaturated: true, dropUnknownRef: true, dropThrottled: true, dropAnswer: true}

// drop counts a dropped call on a and warns, at most once a second for each reason.
func (c *Conn) drop(reason dropReason, a *Actor, m *method) {
	c.drops[reason].Add(1)
	hidden, ok := c.warns[reason].pass(c.world.now)
	if !ok || harmless[reason] {
		return
	}
	log := c.world.log.With("conn", c, "rpc", m.String(), "reason", dropNames[reason], "more", hidden)
	switch reason {
	case dropRateLimited:
		log = log.With("limit", fmt.Sprintf("RateLimit(%v)", m.rateLimit))
	case dropNotOwner:
		log = log.With("channel", a.Channel(c).number, "owner", a.ownerName())
	}
	log.Warn("call dropped")
}

// missed counts a call made here for a client that is going. It is in no log, for it is nobody's mistake.
func (c *Conn) missed() { c.drops[dropGone].Add(1) }

// ownerName names who owns the actor, on the server.
func (a *Actor) ownerName() string {
	if a.owner == nil {
		return "nobody"
	}
	return a.owner.String()
}

// callLimit is a token bucket: it fills at the method's rate and holds one second's worth, at least one call.
type callLimit struct {
	tokens float64
	last   time.Time
}

func (l *callLimit) allow(rate float64, now time.Time) bool {
	size := max(1, rate)
	if elapsed := now.Sub(l.last); l.last.IsZero() {
		l.tokens, l.last = size, now
	} else if elapsed > 0 {
		l.tokens, l.last = min(size, l.tokens+elapsed.Seconds()*rate), now
	}
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

// throttle counts the unreliable multicasts of an actor since its last update.
type throttle struct {
	flush  uint64    // World.flushes when counting began
	since  time.Time // when it did
	counts []methodCalls
}

type methodCalls struct {
	method *method
	calls  int
}

// throttles reports whether a multicast is one too many since the last update of its actor, and counts it then for all who would have
// got it. It runs on the server all the same. UE: net.MaxRPCPerNetUpdate.
func (a *Actor) throttles(m *method) bool {
	w, t := a.world, &a.throttle
	if w.config.MaxRPCPerNetUpdate == 0 || m.delivery <= ReliableUnordered {
		return false
	}
	if past := w.now.Sub(t.since); t.flush != w.flushes && (past < 0 || past >= a.class.updatePeriod) { // a game's clock may go back
		t.flush, t.since, t.counts = w.flushes, w.now, t.counts[:0]
	}
	i := slices.IndexFunc(t.counts, func(c methodCalls) bool { return c.method == m })
	if i < 0 {
		i = len(t.counts)
		t.counts = append(t.counts, methodCalls{method: m})
	}
	if t.counts[i].calls++; t.counts[i].calls <= w.config.MaxRPCPerNetUpdate {
		return false
	}
	for _, o := range a.opens {
		o.conn.drop(dropThrottled, a, m)
	}
	return true
}

// allow reports whether the RateLimit of m has room for one more call on this connection.
func (c *Conn) allow(m *method, now time.Time) bool {
	limit := c.limits[m]
	ok := limit.allow(m.rateLimit, now)
	c.limits[m] = limit
	return ok
}

// saturated reports whether an unreliable call would wait: some of earlier ticks still do, or the rate is used up by what
// has left and waits. UE: !IsNetReady. It is called under the link's lock.
func (c *Conn) saturated(now time.Time) bool {
	if c.world.config.QueueUnreliable {
		return false
	}
	queued, standing := c.machine.Unreliable()
	return standing || c.allowance.Behind(now, queued) > 0
}
