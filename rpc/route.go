package rpc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/statnet"
)

// plan is where a call runs. If both remote and local are false, it runs
// nowhere, which is not an error. UE: callspace.
type plan struct {
	remote bool  // it is sent
	local  bool  // it runs in this world, in the next Dispatch
	conn   *Conn // to which it is sent; nil of a Multicast
}

// route decides where a call of m on a runs (UE: AActor::GetFunctionCallspace):
//
//	method     called on   actor owned by       runs on
//	Server     server      any or none          server
//	Server     client      this client          server
//	Server     client      another or none      ErrNotOwner, unless AnyCaller
//	Client     server      a client             that client
//	Client     server      none                 server
//	Client     client      any                  that client, not sent
//	Multicast  server      any or none          server, and clients for which a is open
//	Multicast  client      any                  that client, not sent
//
// If the owner's connection is closing or has ended, and OnDisconnect has not run, a Client
// RPC is not an error on the server, which cannot know yet: the call is counted in Drops.Gone.
func (w *World) route(a *Actor, m *method) (plan, error) {
	w.mustBeInside("", m)
	if m.class.root() != a.class {
		return plan{}, fmt.Errorf("rpc: %v called on %v, which is of another class", m, a)
	}
	if a.dead {
		return plan{}, a.deadError(m)
	}
	if w.IsServer() {
		return w.routeServer(a, m)
	}
	if m.kind != serverRPC || a.torn {
		return a.localPlan(m)
	}
	switch {
	case a.conn != nil && !a.conn.usable():
		return plan{}, a.conn.closedFor(m)
	case a.dormancy.on && a.name != "":
		return plan{}, errorf("rpc: %v on the %s placed as %q, which has no channel here: it is far, asleep, or not open yet: %w",
			m, a.class.name, a.name, ErrDormant)
	case a.dormancy.on:
		return plan{}, errorf("rpc: %v on %v: %w", m, a, ErrDormant)
	case !a.owned && !m.anyCaller:
		return plan{}, errorf("rpc: %v: the %s of channel %d on %v belongs to another client or to nobody: %w",
			m, a.class.name, a.Channel(a.conn).number, a.conn, ErrNotOwner)
	}
	return plan{remote: true, conn: a.conn}, nil
}

// deadError returns the error of a call of m on an actor that has ended.
func (a *Actor) deadError(m *method) error {
	if a.conn != nil && !a.conn.usable() { // a client's actors end with their connection
		return a.conn.closedFor(m)
	}
	return errorf("rpc: %v: %v is destroyed or its channel closed: %w", m, a, ErrClosed)
}

// closedFor returns the error of a call of m for a connection that is closed.
func (c *Conn) closedFor(m *method) error {
	return errorf("rpc: %v for %v: %w", m, c, c.closeError())
}

// routeServer is route on a server. An empty plan is not an error: the actor of a Multicast is open
// for no client, or the connection of a Client RPC's owner is ending, which Drops.Gone counts.
func (w *World) routeServer(a *Actor, m *method) (plan, error) {
	switch {
	case m.kind == multicastRPC:
		w.greeting.show(a)
		w.relevance.showNew(a)
		return plan{remote: len(a.openings) > 0 || a.dormancy.on && len(a.dormancy.detachedAt) > 0, local: a.handles(m)}, nil
	case m.kind == serverRPC || a.conn == nil:
		return a.localPlan(m)
	case a.torn:
		return plan{}, errorf("rpc: %v: %v is torn off, and its owner's copy no longer ours: %w", m, a, ErrClosed)
	case a.conn.mayJoin():
		return plan{}, fmt.Errorf("rpc: %v for %v: it has not joined yet; OnConnect is the first place for calls to it", m, a.conn)
	case !a.conn.usable():
		a.conn.countGone()
		return plan{}, nil
	}
	return plan{remote: true, conn: a.conn}, nil
}

// localPlan returns the plan of a call that runs in this world, or an error if
// it has no handler here.
func (a *Actor) localPlan(m *method) (plan, error) {
	if !a.handles(m) {
		return plan{}, errorf("rpc: %v would run in this world: %w; bind one with On or OnRequest", m, ErrUnbound)
	}
	return plan{local: true}, nil
}

// handles reports whether m has a handler here. The object may not exist yet: a
// constructor may call, and its calls run after it.
func (a *Actor) handles(m *method) bool { return a.part(m.class).binding.handles(m) }

// carry carries out the plan of a call of m on a. The argument is at arg; number is
// that of a question, or 0. For the peer, carry encodes and sends the argument at
// once. For this world, it queues the value that keep returns until the next Dispatch.
func (p plan) carry(a *Actor, m *method, number uint64, arg any, keep func() any) error {
	w := a.world
	e := codec.NewEncoder()
	defer e.Release()
	if p.remote || m.codec.Refuses() { // encode even for this world, if the codec may refuse the argument
		if e.Buf = m.appendID(e.Buf); number > 0 {
			e.Buf = ask.AppendQuestion(e.Buf, number)
		}
		if err := m.encode(e, arg); err != nil {
			return err
		}
	}
	if p.local {
		if err := w.local.add(localCall{actor: a, method: m, arg: keep(), question: number}, w.config.MaxLocalCalls); err != nil {
			return err
		}
	}
	if p.remote {
		return w.transmit(a, m, p, e.Buf)
	}
	return nil
}

// transmit sends an encoded call. After an error, a Multicast continues with
// the other clients, and transmit returns the first error.
func (w *World) transmit(a *Actor, m *method, p plan, payload []byte) error {
	if p.conn != nil {
		o := a.openingOn(p.conn)
		if o == nil {
			if err := a.open(p.conn); err != nil && !p.conn.usable() {
				p.conn.countGone()
				return nil
			} else if err != nil {
				return err
			}
			o = a.openingOn(p.conn)
		} else if a.dormancy.on { // it has yet to fall asleep there
			a.dormantAtFlush()
		}
		return a.send(o, m, payload)
	}
	if a.throttles(m) {
		return nil
	}
	if a.dormancy.on {
		a.wake()
	}
	var first error
	for i := range a.openings {
		switch o := a.openings[i]; {
		case !o.hears(m):
		case !o.conn.usable():
			o.conn.countGone()
		default:
			first = cmp.Or(first, a.send(o, m, payload))
		}
	}
	return first
}

// throttles reports whether a Multicast exceeds Config.MaxRPCPerNetUpdate since
// the last update of its actor. If so, it counts a drop for each client. The
// call still runs on the server. UE: net.MaxRPCPerNetUpdate.
func (a *Actor) throttles(m *method) bool {
	w := a.world
	most := w.config.MaxRPCPerNetUpdate
	if most == 0 || m.delivery <= ReliableUnordered || !a.throttle.Exceeds(m, most, w.frame.flushes, w.frame.now, a.class.updatePeriod) {
		return false
	}
	for _, o := range a.openings {
		if o.hears(m) {
			o.conn.drop(drops.Throttled, a, m)
		}
	}
	return true
}

// saturated reports whether an unreliable call would have to wait: calls of earlier
// ticks still wait, or the bytes that were sent or wait have used up the rate. It
// returns false with QueueUnreliable. The caller holds the link's lock. UE: !IsNetReady.
func (c *Conn) saturated(now time.Time) bool {
	if c.world.config.QueueUnreliable {
		return false
	}
	queued, standing := c.machine.Unreliable()
	return standing || c.allowance.Behind(now, queued) > 0
}

// countGone counts a call to a client whose connection is closing or has ended.
// It does not log the call, because it is nobody's mistake.
func (c *Conn) countGone() { c.drops.Add(drops.Gone, 1) }

// send sends a call on one channel. If the connection is saturated, it drops an
// unreliable call that is not a Multicast, as UE does.
func (a *Actor) send(to *opening, m *method, payload []byte) error {
	c := to.conn
	c.times.ask.NoteTraffic()
	now := c.link.LockNow()
	a.world.frame.cork(c)
	if a.world.IsServer() && (!c.usable() || c.machine.Err() != nil) {
		c.link.Unlock()
		c.countGone()
		return nil
	}
	if m.kind != multicastRPC && m.delivery > bunch.ReliableUnordered && c.saturated(now) {
		c.link.Unlock()
		c.drop(drops.Saturated, a, m)
		return nil
	}
	if m.policy == forceQueue {
		c.link.Unlock()
		return to.queue(m, payload)
	}

	c.trace.About(m.name, a.class.name, uint64(a.ref))
	err := c.machine.Send(to.channel, m.delivery, payload)
	if m.policy == forceSend {
		c.machine.Flush()
	}
	if a.world.IsServer() && errors.Is(err, bunch.ErrClosed) { // the client has closed the channel: a violation, for which the connection will end
		c.trace.About("", "", 0)
		c.link.Unlock()
		c.countGone()
		return nil
	}
	if err != nil {
		c.trace.About("", "", 0)
		err = a.sendFailed(to, m, len(payload), err)
	} else if m.delivery <= bunch.ReliableUnordered {
		to.reliable++
	}
	c.link.Unlock()

	// After unlocking, because closing and logging may take long.
	if err != nil {
		if cause, ok := errors.AsType[*CloseError](err); ok { // the call has closed the connection
			c.world.log.Error("connection closed by a call", "conn", c, "code", cause.Code.String(), "reason", cause.Reason)
		}
		return err
	}
	a.world.logs.Sent(c.logged(m, len(payload)), to.channel, Channel{c, to.channel}.Reliable)
	return nil
}

// sendFailed returns the error of a call that the machine did not accept. If the
// reliable buffer is full, the error names the calls in it. If the machine has
// failed, sendFailed closes the connection. The caller holds the link's lock.
func (a *Actor) sendFailed(to *opening, m *method, size int, err error) error {
	var fatal *bunch.Error
	switch {
	case errors.Is(err, bunch.ErrBunchTooLarge):
		return errorf("rpc: %v: %d bytes encoded to %v, at most %d (Config.Bunch.MaxBunch; package stream sends more): %w",
			m, size, to.conn, to.conn.maxBunch, bunch.ErrBunchTooLarge)
	case errors.Is(err, bunch.ErrClosed):
		return to.closeArrived(m)
	case errors.Is(err, bunch.ErrReliableBufferFull):
		return errorf("rpc: %v: to %v, %s: %w", m, to.conn, a.fullText(to, size), bunch.ErrReliableBufferFull)
	case !errors.As(err, &fatal):
		return errorf("rpc: %v to %v: %w", m, to.conn, err)
	}
	reason := fatal.Reason
	if fatal.Code == bunch.ReliableBufferOverflow {
		reason = a.fullText(to, size)
	}
	cause := &CloseError{Code: Code(fatal.Code), Reason: fmt.Sprintf("%v: %s", m, reason), cause: err}
	to.conn.abort(cause)
	return cause
}

// fullText returns, for an error, which calls fill a channel's reliable buffer,
// and what to do about it. UE prints the same list on ReliableBufferOverflow.
func (a *Actor) fullText(to *opening, size int) string {
	machine := to.conn.machine
	out, slots := machine.Reliable(to.channel)
	advice := "call less often or unreliably, or use package stream for bulk"
	if untaken := machine.Untaken(to.channel); untaken >= longUntaken {
		advice = fmt.Sprintf("the other side answers, but its world has taken nothing for %v: it stands still, or nobody drives it", untaken.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("it needs %s for %s, and %d of %d (Config.Bunch.ReliableBuffer) are taken: %s; %s",
		statnet.Plural(bunch.Entries(size), "entry", "entries"), statnet.Plural(size, "byte", "bytes"), out, slots, a.holders(to), advice)
}

// longUntaken is how long the peer's world must not have taken a message for fullText to
// blame it: a world takes all that has arrived at each tick, and no tick should be so long.
const longUntaken = time.Second

// holders lists the calls that wait for their acks, in the order in which each first appears.
func (a *Actor) holders(to *opening) string {
	var list statnet.Holders
	total := 0
	to.conn.machine.Held(to.channel, func([]byte, int) { total++ })
	opening := total == to.reliable && a.world.IsServer() // nothing is acked yet, not even the open message
	to.conn.machine.Held(to.channel, func(head []byte, entries int) {
		name := a.nameOf(head)
		if opening {
			name, opening = "open "+a.class.name, false
		}
		list.Add(name, entries)
	})
	return list.String()
}

// nameOf returns the name of the call that begins with head.
func (a *Actor) nameOf(head []byte) string {
	id, n := binary.Uvarint(head)
	switch {
	case n > 0 && id == ownerMethod:
		return ownerMessage.String()
	case n > 0 && id == stateMethod:
		return stateMessage.String()
	case n > 0 && id < uint64(len(a.class.methods)):
		return a.class.methods[id].String()
	}
	return "unknown"
}
