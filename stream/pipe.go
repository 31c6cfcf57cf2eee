package stream

import (
	"fmt"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/rpc"
)

// The classes of the streamer's actors. The server spawns, for each connection and owned by it, one control pipe and
// as many lanes as transfers ask for. Both directions use them.
var (
	controlClass = declare("quiver.stream", bunch.Low)
	laneClass    = declare("quiver.stream.lane", bunch.Bulk)

	sendLimits = pairOf[limits](controlClass, "Limits")
	sendHeader = pairOf[header](controlClass, "Header")
	sendEnd    = pairOf[end](controlClass, "End")
	sendCancel = pairOf[cancel](controlClass, "Cancel")
	sendAccept = pairOf[accept](controlClass, "Accept")
	sendGrant  = pairOf[grant](controlClass, "Grant")
	sendReject = pairOf[reject](controlClass, "Reject")
	sendDone   = pairOf[done](controlClass, "Done")

	sendPart  = pairOf[rpc.Raw](laneClass, "Part")
	leaveLane = rpc.Server[rpc.Raw](laneClass, "ServerLeave", rpc.Reliable) // empty; nothing comes from its client after it
)

func declare(name string, p bunch.Priority) *rpc.Class {
	class := rpc.NewClass(name)
	guest.Priority(class, p)
	guest.DeclaredBy(class, "stream.Install")
	return class
}

// pair is one message in both directions.
type pair[A any] struct {
	up   *rpc.ServerRPC[A]
	down *rpc.ClientRPC[A]
}

func pairOf[A any](class *rpc.Class, name string) pair[A] {
	return pair[A]{
		up:   rpc.Server[A](class, "Server"+name, rpc.Reliable),
		down: rpc.Client[A](class, "Client"+name, rpc.Reliable),
	}
}

// call sends the message to the other end of a pipe.
func (p pair[A]) call(a *rpc.Actor, arg A) error {
	if a.World().IsServer() {
		if !a.Channel(a.Conn()).Open() { // where rpc counts what a game calls
			return fmt.Errorf("stream: %v: %w", p.down, rpc.ErrClosed)
		}
		return p.down.Call(a, arg)
	}
	return p.up.Call(a, arg)
}

// handle runs fn for the message, at either end.
func handle[A any](b *rpc.Binding[*Peer], p pair[A], fn func(*Peer, A)) {
	run := func(peer *Peer, _ *rpc.Call, arg A) {
		peer.awake.Store(true)
		fn(peer, arg)
	}
	rpc.On(b, rpc.Handle[A](p.up), run)
	rpc.On(b, rpc.Handle[A](p.down), run)
}

// bindPipes makes the peers of s the objects of its pipes.
func bindPipes(s *Streams) {
	pipe := rpc.Bind(s.world, controlClass, func(a *rpc.Actor) *Peer {
		p := s.peer(a.Conn(), true)
		p.control.pipe = a
		p.awake.Store(true)
		return p
	})
	handle(pipe, sendLimits, func(p *Peer, m limits) { p.control.onLimits(m) })
	handle(pipe, sendHeader, func(p *Peer, m header) { p.receiver.onHeader(m) })
	handle(pipe, sendEnd, func(p *Peer, m end) { p.receiver.onEnd(m) })
	handle(pipe, sendCancel, func(p *Peer, m cancel) { p.receiver.onCancel(m) })
	handle(pipe, sendAccept, func(p *Peer, m accept) { p.sender.onAccept(m) })
	handle(pipe, sendGrant, func(p *Peer, m grant) { p.sender.onGrant(m) })
	handle(pipe, sendReject, func(p *Peer, m reject) { p.sender.onReject(m) })
	handle(pipe, sendDone, func(p *Peer, m done) { p.sender.onDone(m) })

	lanes := rpc.Bind(s.world, laneClass, func(a *rpc.Actor) *Peer {
		p := s.peer(a.Conn(), true)
		if len(p.window.lanes) < maxLanes {
			p.window.lanes = append(p.window.lanes, a)
			p.lanes.touched = true
			p.awake.Store(true)
		}
		return p
	})
	handle(lanes, sendPart, func(p *Peer, message rpc.Raw) {
		p.lanes.touched = true
		p.receiver.onPart(message)
	})
	rpc.On(lanes, leaveLane, func(p *Peer, call *rpc.Call, _ rpc.Raw) { p.lanes.onLeave(call.Actor) })
}
