// Package peer is the contenders: each opens a pair of connected ends in this process, over a net that it is given.
package peer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
)

// Peer is one contender.
type Peer struct {
	Name     string
	Module   string // whose version the report states; empty: this repository's or the standard library's
	Settings string // for the report's table

	Virtual  bool // runs in a bubble
	Emulated bool // runs over UDP that a net carries
	Tunneled bool // runs over TCP that a tunnel carries

	// What its pairs are.
	Moves, Talks, Calls, Chains, Shouts, Throws, Rushes bool

	Open func(ctx context.Context, n emulate.Net) (Pair, error)

	// Gather connects many clients, which play at hz ticks a second, to one server over the bare loopback; nil = cannot. hear gets every message, at
	// either end, and may be called by many goroutines at once.
	Gather func(ctx context.Context, clients, hz int, hear func(message []byte)) (Crowd, error)
}

// Crowd is many connections to one server.
type Crowd interface {
	// Tick sends the message once each way over every connection, unreliably. It does not keep it.
	Tick(message []byte) error
	// Multicast sends it from the server to all clients.
	Multicast(message []byte) error
	// Close frees all.
	Close()
}

// Runs reports whether the peer can be measured by that clock.
func (p Peer) Runs(clock job.Clock) bool {
	switch clock {
	case job.Virtual:
		return p.Virtual
	case job.Relay:
		return p.Emulated || p.Tunneled
	}
	return true
}

// Pair is a connected client and server. What else it can do is in Talker, Caller, Chainer and Shouter.
type Pair interface {
	// Close frees both ends.
	Close()
}

// Mover moves a blob.
type Mover interface {
	Pair
	// Move sends the blob from the client and returns when the server has its last byte and, where the peer has a
	// digest, has verified it.
	Move(ctx context.Context, blob []byte) error
}

// Talker sends small reliable messages beside blobs, on the same connection.
type Talker interface {
	Mover
	// Hear sets what gets each message at the server. It is called once, before Say.
	Hear(fn func(message []byte))
	// Say sends one from the client.
	Say(message []byte) error
}

// Caller makes calls that are answered with their argument. Call may be called by many goroutines.
type Caller interface {
	Pair
	Call(ctx context.Context, argument []byte) error
}

// Rusher is a pair at whose server many more clients arrive. The pair's own client has no part in it but calls.
type Rusher interface {
	Caller
	// Invite connects that many more clients over the bare loopback. It is called once.
	Invite(ctx context.Context, clients int) error
	// Rush sends the blob from the server to each of them at once, or up from each of them to the server, and returns when
	// all are through, verified.
	Rush(ctx context.Context, blob []byte, up bool) error
}

// Chainer makes calls one after the other from where answers are heard, as a game does: nobody waits for one.
type Chainer interface {
	Caller
	// Chain makes the first call. At each answer next says whether to make another one; Chain returns after its first no.
	Chain(ctx context.Context, argument []byte, next func() bool) error
}

// Shouter makes reliable calls without an answer, by one goroutine.
type Shouter interface {
	Pair
	// Shout makes count calls and returns when all have run at the server.
	Shout(ctx context.Context, argument []byte, count int) error
}

// Thrower sends blocks once.
type Thrower interface {
	Pair
	// Catch sets what gets each block that arrives whole. It is called once, before Throw.
	Catch(fn func(block []byte))
	// Throw sends a block, with this time between two packets.
	Throw(block []byte, gap time.Duration) error
}

var peers []Peer

// Register adds contenders, in the order of the report.
func Register(p ...Peer) { peers = append(peers, p...) }

// All returns the contenders.
func All() []Peer { return slices.Clone(peers) }

// Find returns the contender of that name.
func Find(name string) (Peer, error) {
	for _, p := range peers {
		if p.Name == name {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("peer: none is called %q", name)
}
