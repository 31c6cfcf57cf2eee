package stream

import (
	"fmt"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// The classes of the streamer's actors, and their messages. For each connection the server spawns one control pipe and as
// many lanes as transfers ask for; the connection owns them, and both directions use them.
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
	leaveLane = rpc.Server[rpc.Raw](laneClass, "ServerLeave", rpc.Reliable) // empty; the client's last message on the lane
)

func declare(name string, p bunch.Priority) *rpc.Class {
	class := rpc.NewClass(name)
	extend.Priority(class, p)
	extend.DeclaredBy(class, "stream.Install")
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
		if !a.Channel(a.Conn()).Open() { // rpc would count the call as a drop and return nil
			return fmt.Errorf("stream: %v: %w", p.down, rpc.ErrClosed)
		}
		return p.down.Call(a, arg)
	}
	return p.up.Call(a, arg)
}
