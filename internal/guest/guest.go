// Package guest is the door by which package stream adds a machine of its own to the connections of package rpc. It is no part of the
// public face: what a machine is and promises may change with the link.
package guest

import (
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
)

// Machine is a protocol of its own beside the calls of a connection, without clock, goroutine or lock. Receive keeps nothing of
// its datagram and AppendPacket builds the next one; an error of Receive or Advance ends the connection. All methods are
// called under one lock for all machines of the connection, which [Drive] takes, too.
type Machine interface {
	link.Machine
	link.Flyer
	link.LossCounter
	link.Changer
	link.Arriver
	link.Holder
	link.Seconder
	link.Copier
}

// Package rpc sets these when it is initialised. World is a *rpc.World and conn a *rpc.Conn; anything else panics.
var (
	// Add gives every connection of a world one more machine. Its datagrams leave when gameplay has none, and are those whose
	// first byte is FirstByte, which both ends must agree on; what comes before the connection has joined is dropped and
	// counted. Machines added earlier go first. It panics after the world's first connection. newMachine runs when a
	// connection begins, on any goroutine, before anybody has that.
	Add func(world any, newMachine func() Machine)

	// Of returns the added machine of a connection whose datagrams begin with first, nil when there is none. It is to be used
	// within Drive only.
	Of func(conn any, first byte) Machine

	// Drive runs fn under the lock that the connection's machines share, with the time for their methods, and lets what it
	// changed leave. fn stops the connection: it must not block, and call nothing of package rpc.
	Drive func(conn any, fn func(now time.Time))

	// Keep returns the value that a world keeps under key; the first call makes it. It is to be called on the world's goroutine.
	Keep func(world, key any, make func() any) any

	// Seed makes what the connections of a world draw at random follow from a seed. It is called before the first connection.
	Seed func(world any, seed uint64)

	// DeclaredBy names the function that adds a class to a world, such as "stream.Install", so that the error of a handshake can
	// say which end did not call it. It is part of the shape, and is called where the class is declared.
	DeclaredBy func(class any, function string)

	// Priority puts the channels of a class's actors before or behind others on the wire. The default is bunch.Normal.
	Priority func(class any, p bunch.Priority)

	// Woken reports, once, that a machine of the connection had something for its owner since it was asked before.
	Woken func(conn any) bool
)
