package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// The classes of this package's actors, and their messages. For each connection, the server
// spawns one control pipe and as many lanes as transfers ask for. The connection owns these
// actors, and both directions use them.
var (
	controlClass = declare("quiver.stream", bunch.Low)
	laneClass    = declare("quiver.stream.lane", bunch.Bulk)

	sendLimits = pairOf[limits](controlClass, "Limits")
	sendHeader = pairOf[header](controlClass, "Header")
	sendEnd    = pairOf[end](controlClass, "End")
	sendCancel = pairOf[stop](controlClass, "Cancel")
	sendAccept = pairOf[accept](controlClass, "Accept")
	sendGrant  = pairOf[grant](controlClass, "Grant")
	sendReject = pairOf[stop](controlClass, "Reject")
	sendDone   = pairOf[done](controlClass, "Done")

	sendPart = pairOf[rpc.Raw](laneClass, "Part")
	// leaveLane is the client's last message on a lane. It has no argument.
	leaveLane = rpc.Server[rpc.Raw](laneClass, "ServerLeave", rpc.Reliable)
)

func init() {
	extend.Answers(controlClass,
		sendAccept.up.String(), sendGrant.up.String(), sendReject.up.String(), sendDone.up.String(), sendEnd.up.String())
}

// declare declares a class of pipes with priority p.
func declare(name string, p bunch.Priority) *rpc.Class {
	class := rpc.NewClass(name)
	extend.Priority(class, p)
	extend.DeclaredBy(class, "stream.Install")
	return class
}

// A pair is one message, declared as an RPC in each direction.
type pair[A any] struct {
	up   *rpc.ServerRPC[A]
	down *rpc.ClientRPC[A]
}

// pairOf declares a message on class.
func pairOf[A any](class *rpc.Class, name string) pair[A] {
	return pair[A]{
		up:   rpc.Server[A](class, "Server"+name, rpc.Reliable),
		down: rpc.Client[A](class, "Client"+name, rpc.Reliable),
	}
}

// call sends the message to the other end of a pipe.
func (p pair[A]) call(a *rpc.Actor, arg A) error {
	if a.World().IsServer() {
		// On a closed channel, rpc would count the call as a drop and return nil.
		if !a.Channel(a.Conn()).Open() {
			return fmt.Errorf("stream: %v: %w", p.down, rpc.ErrClosed)
		}
		return p.down.Call(a, arg)
	}
	return p.up.Call(a, arg)
}

// control exchanges messages about transfers on the control pipe, whose priority is above bulk.
// It queues nothing. The state of the transfers decides which message is due, so nothing
// accumulates for a slow peer. It is used on the world's goroutine only.
type control struct {
	peer    *Peer
	pipe    *rpc.Actor // nil at a client until the server has opened it
	greeted bool       // our current limits were sent
	full    bool       // the pipe's gate was closed at the last takesMore
}

// open reports whether messages can be sent.
func (c *control) open() bool { return c.pipe != nil && c.pipe.Alive() }

// send sends the messages that are due, until the pipe accepts no more.
func (c *control) send(now time.Time) error {
	for !c.full || c.takesMore() {
		sent, err := c.sendOne(now)
		if err != nil || !sent || !c.takesMore() {
			return err
		}
	}
	return nil
}

// takesMore reports whether the pipe accepts another message, and records the negated result in
// full. If the pipe is full, takesMore asks for a tick when it accepts messages again.
//
// send calls takesMore after each message and while the pipe is full. An idle tick need not call
// it, because between messages the number of outstanding entries only decreases.
func (c *control) takesMore() bool {
	gate := Gate{QueueTime: time.Hour} // in effect no limit: the messages are small and don't wait for bulk
	channel := c.pipe.Channel(c.peer.conn)
	c.full = !gate.Open(channel)
	if c.full {
		gate.watch(channel)
	}
	return !c.full
}

// sendOne sends the first message that is due, and reports whether it sent one. Our limits come
// first, then the messages of incoming transfers, then those of outgoing transfers.
func (c *control) sendOne(now time.Time) (sent bool, err error) {
	if !c.greeted {
		return true, c.greet()
	}
	sent, err = c.peer.receiver.sendControl(c.pipe, now)
	if sent || err != nil {
		return sent, err
	}
	return c.peer.sender.sendControl(c.pipe)
}

// greet sends our limits.
func (c *control) greet() error {
	c.greeted = true
	config := &c.peer.streams.config
	return sendLimits.call(c.pipe, limits{
		transfers: config.maxTransfers(),
		lanes:     c.peer.lanes.asked,
		early:     int(c.peer.receiver.mayEarly),
		hashes:    config.hashes(),
	})
}

// limitsChanged makes the next tick send our limits again.
func (c *control) limitsChanged() { c.greeted = false }

// onLimits handles the peer's limits.
func (c *control) onLimits(m limits) {
	c.peer.sender.onLimits(m)
	c.peer.lanes.onLimits(m.lanes)
}
