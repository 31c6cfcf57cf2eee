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
	"github.com/quivernet/quiver/internal/words"
)

// A plan says where a call runs, which may be nowhere. UE: callspace.
type plan struct {
	remote bool  // send it
	conn   *Conn // to this connection; nil for a Multicast
	local  bool  // run it in this world, in the next Dispatch
}

// route plans a call of m on a. UE: AActor::GetFunctionCallspace.
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
// It is not an error if the server makes a Client RPC while the owner's connection is closing, or
// after the connection has ended but before OnDisconnect has run. Since the game can't know about
// the end yet, the call is just counted in Drops.Gone.
func (w *World) route(a *Actor, m *method) (plan, error) {
	w.mustBeInside("", m)
	if m.class.root() != a.class {
		return plan{}, fmt.Errorf("rpc: %v called on %v, which has another class", m, a)
	}
	if a.dead {
		return plan{}, a.deadError(m)
	}
	if w.IsServer() {
		return w.routeServer(a, m)
	}
	if m.kind != serverRPC || a.tornOff {
		return a.localPlan(m)
	}
	switch {
	case a.conn != nil && !a.conn.usable():
		return plan{}, a.conn.closedFor(m)
	case a.dormancy.on && a.name != "":
		return plan{}, errorf("rpc: %v on the %s placed as %q, which has no channel because it is too far away, dormant or not open yet: %w",
			m, a.class.name, a.name, ErrDormant)
	case a.dormancy.on:
		return plan{}, errorf("rpc: %v on %v: %w", m, a, ErrDormant)
	case !a.owned && !m.anyCaller:
		return plan{}, errorf("rpc: %v: %v on %v belongs to another client or has no owner: %w", m, a, a.conn, ErrNotOwner)
	}
	return plan{remote: true, conn: a.conn}, nil
}

// deadError returns the error for a call of m on an actor that has ended.
func (a *Actor) deadError(m *method) error {
	if a.conn != nil && !a.conn.usable() {
		// A client's actors end with their connection, so say why the connection has ended.
		return a.conn.closedFor(m)
	}
	return errorf("rpc: %v: %v was destroyed or its channel closed: %w", m, a, ErrClosed)
}

// closedFor returns the error for a call of m to a closed connection.
func (c *Conn) closedFor(m *method) error {
	return errorf("rpc: %v for %v: %w", m, c, c.closeError())
}

// routeServer is route on a server.
func (w *World) routeServer(a *Actor, m *method) (plan, error) {
	switch {
	case m.kind == multicastRPC:
		// First open the actor for the client that is joining and for all clients to which it is
		// relevant, if any.
		w.admission.openForCurrent(a)
		w.relevance.showNew(a)
		detached := a.dormancy.on && len(a.dormancy.detachedAt) > 0
		return plan{remote: len(a.openings) > 0 || detached, local: a.handles(m)}, nil
	case m.kind == serverRPC || a.conn == nil:
		return a.localPlan(m)
	case a.tornOff:
		return plan{}, errorf("rpc: %v: %v is torn off and no longer connected to its owner's copy: %w", m, a, ErrClosed)
	case a.conn.life.mayJoin():
		return plan{}, fmt.Errorf("rpc: %v for %v: the connection has not joined yet: make the call in OnConnect or later",
			m, a.conn)
	case !a.conn.usable():
		// The game doesn't know yet that the owner is gone.
		a.conn.countGone()
		return plan{}, nil
	}
	return plan{remote: true, conn: a.conn}, nil
}

// localPlan returns the plan for a call that runs in this world, or an error if m has no handler
// here.
func (a *Actor) localPlan(m *method) (plan, error) {
	if !a.handles(m) {
		return plan{}, errorf("rpc: %v would run in this world: %w: bind one with On or OnRequest", m, ErrUnbound)
	}
	return plan{local: true}, nil
}

// handles reports whether m has a handler here. The object need not exist yet, since calls that a
// constructor makes run after the constructor.
func (a *Actor) handles(m *method) bool { return a.partOf(m.class).binding.handles(m) }

// carryOut makes a call of m on a according to the plan. number is the number of the question, or 0
// for an RPC.
//
// arg points to the argument, which is encoded and sent right away if the call goes to the peer.
// A call that runs in this world has to wait for the next Dispatch. By then the argument may
// have changed, so the call gets the copy that keep returns.
func (p plan) carryOut(a *Actor, m *method, number uint64, arg any, keep func() any) error {
	w := a.world
	e := codec.NewEncoder()
	defer e.Release()

	// Encode the argument of a call that only runs here, too, if the codec may refuse it.
	if p.remote || m.codec.Refuses() {
		e.Buf = m.appendID(e.Buf)
		if number > 0 {
			e.Buf = ask.AppendQuestion(e.Buf, number)
		}
		if err := m.encode(e, arg); err != nil {
			return err
		}
	}
	if p.local {
		call := localCall{actor: a, method: m, arg: keep(), question: number}
		if err := w.local.add(call, w.config.MaxLocalCalls); err != nil {
			return err
		}
	}
	if p.remote {
		return w.transmit(a, m, p, e.Buf)
	}
	return nil
}

// transmit sends an encoded call. If a Multicast fails for some clients, the others still get it,
// and transmit returns the first error.
func (w *World) transmit(a *Actor, m *method, p plan, payload []byte) error {
	if p.conn != nil {
		return a.sendTo(p.conn, m, payload)
	}
	if a.dropThrottled(m) {
		return nil
	}
	if a.dormancy.on {
		a.wake()
	}
	var firstErr error
	for i := range a.openings {
		o := a.openings[i]
		switch {
		case o.closePending:
			if m.delivery <= ReliableUnordered {
				o.missed++
			}
		case !o.receives(m):
			// The method skips the owner.
		case !o.conn.usable():
			o.conn.countGone()
		default:
			firstErr = cmp.Or(firstErr, a.send(o, m, payload))
		}
	}
	return firstErr
}

// sendTo sends an encoded call to one connection. It opens the actor there if necessary.
func (a *Actor) sendTo(c *Conn, m *method, payload []byte) error {
	o := a.openingOn(c)
	if o == nil {
		err := a.open(c)
		if err != nil && !c.usable() {
			c.countGone()
			return nil
		}
		if err != nil {
			return err
		}
		o = a.openingOn(c)
	} else if a.dormancy.on {
		// The channel is still open although the actor is dormant. Have the next Flush bring the
		// client up to date and close the channel.
		a.dormantAtFlush()
	}
	return a.send(o, m, payload)
}

// dropThrottled counts a Multicast towards Config.MaxRPCPerNetUpdate, which limits the calls since
// the last update of the actor. If the Multicast exceeds the limit, dropThrottled counts a drop for
// each client and returns true. The call still runs on the server. UE: net.MaxRPCPerNetUpdate.
func (a *Actor) dropThrottled(m *method) (dropped bool) {
	w := a.world
	limit := w.config.MaxRPCPerNetUpdate
	if limit == 0 || m.delivery <= ReliableUnordered {
		return false // only unreliable calls are limited
	}
	if !a.throttle.Count(m, limit, w.frame.flushes, w.frame.now, a.class.updatePeriod) {
		return false
	}
	for _, o := range a.openings {
		if o.receives(m) {
			o.conn.drop(drops.Throttled, a, m)
		}
	}
	return true
}

// saturated reports whether an unreliable call would have to wait. This is so if there is a backlog
// from earlier ticks, or if the bytes already sent and those waiting have used up the rate. With
// QueueUnreliable, saturated always returns false. UE: !IsNetReady.
//
// The caller holds the link's lock.
func (c *Conn) saturated(now time.Time) bool {
	if c.world.config.QueueUnreliable {
		return false
	}
	queued, backlogged := c.machine.Unreliable()
	return backlogged || c.allowance.Behind(now, queued) > 0
}

// countGone counts a call to a client whose connection is closing or has ended. That isn't worth
// a log entry, because nobody has made a mistake.
func (c *Conn) countGone() { c.drops.Add(drops.Gone, 1) }

// send sends a call on one channel. On a saturated connection it drops unreliable calls other
// than Multicasts, as Unreal does.
func (a *Actor) send(to *opening, m *method, payload []byte) error {
	c := to.conn
	c.times.ask.NoteTraffic()
	now := c.link.LockNow()
	a.world.frame.cork(c)

	mayDrop := m.kind != multicastRPC && m.delivery > bunch.ReliableUnordered
	switch {
	case a.world.IsServer() && (!c.usable() || c.machine.Err() != nil):
		c.link.Unlock()
		c.countGone()
		return nil
	case mayDrop && c.saturated(now):
		c.link.Unlock()
		c.drop(drops.Saturated, a, m)
		return nil
	case m.policy == forceQueue:
		c.link.Unlock()
		return to.queueCall(m, payload)
	}
	sent, err := sendNow(to, m, payload)
	c.link.Unlock()

	// Log without holding the lock, because logging may take a while.
	c.logClosed(err)
	if sent {
		a.world.logs.Sent(c.callForLog(m, len(payload)), to.channel, Channel{c, to.channel}.Reliable)
	}
	return err
}

// sendNow gives a call to the machine. If sent is false and err is nil, the client is gone, which
// isn't an error. The caller holds the link's lock.
func sendNow(to *opening, m *method, payload []byte) (sent bool, err error) {
	a, c := to.actor, to.conn
	c.trace.About(m.name, a.class.name, uint64(a.ref))
	err = c.machine.Send(to.channel, m.delivery, payload)
	if m.policy == forceSend {
		c.machine.Flush()
	}
	if err == nil {
		if m.delivery <= bunch.ReliableUnordered {
			to.reliable++
		}
		return true, nil
	}

	c.trace.About("", "", 0)
	if a.world.IsServer() && errors.Is(err, bunch.ErrClosed) {
		// The client has closed the channel. That's a violation, so the connection is about to
		// end.
		c.countGone()
		return false, nil
	}
	return false, a.sendFailed(to, m, len(payload), err)
}

// sendFailed returns the error for a call that the machine did not accept. If the reliable buffer
// is full, the error says which calls are in it. If the machine has failed, sendFailed also
// closes the connection. The caller holds the link's lock.
func (a *Actor) sendFailed(to *opening, m *method, size int, err error) error {
	var fatal *bunch.Error
	switch {
	case errors.Is(err, bunch.ErrBunchTooLarge):
		return errorf("rpc: %v: call of %d bytes to %v; the limit is %d (Config.Bunch.MaxBunch): use package stream for larger data: %w",
			m, size, to.conn, to.conn.terms.maxBunch, bunch.ErrBunchTooLarge)
	case errors.Is(err, bunch.ErrClosed):
		return to.closeArrivedError(m)
	case errors.Is(err, bunch.ErrReliableBufferFull):
		return errorf("rpc: %v to %v: %s: %w", m, to.conn, a.describeFull(to, size), bunch.ErrReliableBufferFull)
	case !errors.As(err, &fatal):
		return errorf("rpc: %v to %v: %w", m, to.conn, err)
	}
	reason := fatal.Reason
	if fatal.Code == bunch.ReliableBufferOverflow {
		reason = a.describeFull(to, size)
	}
	cause := &CloseError{Code: Code(fatal.Code), Reason: fmt.Sprintf("%v: %s", m, reason), cause: err}
	to.conn.abort(cause)
	return cause
}

// describeFull returns the text of an error about a full reliable buffer: which calls are in it,
// and what to do about that. UE prints the same list on ReliableBufferOverflow.
func (a *Actor) describeFull(to *opening, size int) string {
	machine := to.conn.machine
	if machine.OverSendLimit() {
		return to.conn.describeOverLimit()
	}
	out, slots := machine.Reliable(to.channel)
	var held statnet.Holders
	a.listBuffered(&held, to)
	return fmt.Sprintf("call needs %s for %s; %d of %d (Config.Bunch.ReliableBuffer) are in use: %s; %s",
		words.Plural(bunch.Entries(size), "entry", "entries"), words.Bytes(size),
		out, slots, held.String(), advice(machine.BlockedFor(to.channel)))
}

// advice returns what to do about a full buffer. blocked is how long the peer's world has taken no
// message from it.
func advice(blocked time.Duration) string {
	if blocked < longBlocked {
		return "call less often or unreliably, or use package stream for bulk"
	}
	return fmt.Sprintf("the peer is alive, but nothing has driven its world for %v",
		blocked.Round(100*time.Millisecond))
}

// If the peer's world takes no message for longBlocked, describeFull blames that world. A world
// takes everything that has arrived at each tick, and no tick should take that long.
const longBlocked = time.Second

// listBuffered adds the calls that haven't been acknowledged to list.
func (a *Actor) listBuffered(list *statnet.Holders, to *opening) {
	total := 0
	to.conn.machine.Held(to.channel, func([]byte, int) { total++ })

	// If the server has had no ack at all yet, the first message is the open.
	isOpen := total == to.reliable && a.world.IsServer()
	to.conn.machine.Held(to.channel, func(head []byte, entries int) {
		name := a.nameOf(head)
		if isOpen {
			name = "open " + a.class.name
			isOpen = false
		}
		list.Add(name, entries)
	})
}

// nameOf returns the name of the call whose encoding begins with head.
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
