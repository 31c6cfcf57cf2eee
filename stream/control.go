package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// The classes of this package's actors, and their messages. For each connection, the server spawns
// one control pipe and as many lanes (channels for bulk) as transfers ask for. The connection owns
// these actors, which transfers in both directions use.
var (
	controlClass = declare("quiver.stream", bunch.Low)
	laneClass    = declare("quiver.stream.lane", bunch.Bulk)

	limitsMessage = messageOf[limits](controlClass, "Limits")
	headerMessage = messageOf[header](controlClass, "Header")
	endMessage    = answerOf[end](controlClass, "End")
	cancelMessage = messageOf[stop](controlClass, "Cancel")
	acceptMessage = answerOf[accept](controlClass, "Accept")
	grantMessage  = answerOf[grant](controlClass, "Grant")
	rejectMessage = answerOf[stop](controlClass, "Reject")
	doneMessage   = answerOf[done](controlClass, "Done")

	partMessage = messageOf[rpc.Raw](laneClass, "Part")
	// leaveMessage is the client's last message on a lane. It has no argument.
	leaveMessage = rpc.Server[rpc.Raw](laneClass, "ServerLeave", rpc.Reliable)
)

// declare declares a class with priority p, whose actors only serve as pipes.
func declare(name string, p bunch.Priority) *rpc.Class {
	class := rpc.NewClass(name)
	extend.Priority(class, p)
	extend.DeclaredBy(class, "stream.Install")
	return class
}

// A messageType is a message that either end can send. An RPC has only one direction, so a
// messageType consists of two RPCs.
type messageType[A any] struct {
	up   *rpc.ServerRPC[A]
	down *rpc.ClientRPC[A]
}

// messageOf declares the two RPCs of a message, "Server"+name and "Client"+name, both of which are
// Reliable. It is called only to initialize the variables above, before any world uses the class.
func messageOf[A any](class *rpc.Class, name string) messageType[A] {
	return messageType[A]{
		up:   rpc.Server[A](class, "Server"+name, rpc.Reliable),
		down: rpc.Client[A](class, "Client"+name, rpc.Reliable),
	}
}

// answerOf is like messageOf, for a message with which clients answer what the server sends. It
// doesn't count as a client's load, as long as the server expects it (see extend.Owe).
func answerOf[A any](class *rpc.Class, name string) messageType[A] {
	m := messageOf[A](class, name)
	extend.AddAnswer(class, m.up.String())
	return m
}

// send sends the message to the other end of a pipe.
func (m messageType[A]) send(pipe *rpc.Actor, arg A) error {
	if !pipe.World().IsServer() {
		return m.up.Call(pipe, arg)
	}
	// On a closed channel, package rpc would count the call as dropped and return nil.
	if !pipe.Channel(pipe.Conn()).Open() {
		return fmt.Errorf("stream: %v: %w", m.down, rpc.ErrClosed)
	}
	return m.down.Call(pipe, arg)
}

// A control exchanges messages about transfers on the control pipe, which has priority over bulk.
//
// It has no queue: whenever the pipe accepts a message, the state of the transfers determines which
// message is due, so that nothing piles up for a slow peer. It is used on the world's goroutine
// only.
type control struct {
	peer    *Peer
	pipe    *rpc.Actor // nil at a client until the server has opened it
	greeted bool       // our limits were sent; false again after limitsChanged
	full    bool       // at the last check, the pipe accepted no more messages
}

// open reports whether messages can be sent.
func (c *control) open() bool { return c.pipe != nil && c.pipe.Alive() }

// send sends the messages that are due, until the pipe accepts no more.
func (c *control) send(now time.Time) error {
	// Between messages, the number of outstanding entries can only go down, so a pipe that wasn't
	// full still isn't. Most ticks therefore needn't check.
	if c.full {
		c.checkFull()
	}
	for !c.full {
		more, err := c.sendOne(now)
		if err != nil || !more {
			return err
		}
		c.checkFull()
	}
	return nil
}

// controlQueueTime effectively doesn't limit the queue time, because messages on the control pipe
// are small and don't wait behind bulk.
const controlQueueTime = time.Hour

// checkFull updates full. If the pipe is full, checkFull also asks for a tick when the pipe accepts
// messages again.
func (c *control) checkFull() {
	gate := Gate{QueueTime: controlQueueTime}
	channel := c.pipe.Channel(c.peer.conn)
	c.full = !gate.Open(channel)
	if c.full {
		gate.watch(channel)
	}
}

// sendOne sends the first message that is due, and returns true if there may be another one. Our
// limits come first, then the messages of incoming transfers because senders wait for them, and
// then those of outgoing transfers.
func (c *control) sendOne(now time.Time) (more bool, err error) {
	if !c.greeted {
		return true, c.greet()
	}
	sent, err := c.peer.receiver.sendControl(c.pipe, now)
	if sent || err != nil {
		return sent, err
	}
	return c.peer.sender.sendControl(c.pipe)
}

// greet sends our limits.
func (c *control) greet() error {
	config := &c.peer.streams.config
	err := limitsMessage.send(c.pipe, limits{
		transfers: config.maxTransfers(),
		lanes:     c.peer.lanes.wanted,
		early:     int(c.peer.receiver.early.share),
		hashes:    config.hashes(),
	})
	c.greeted = err == nil
	return err
}

// limitsChanged makes the next tick send our limits again.
func (c *control) limitsChanged() { c.greeted = false }

// onLimits handles the peer's limits.
func (c *control) onLimits(m limits) {
	c.peer.sender.onLimits(m)
	c.peer.lanes.onLimits(m.lanes)
}
