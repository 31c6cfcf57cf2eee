// Package peer defines the contenders. Each opens a pair of connected ends in this process, over a
// given net.
package peer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
)

// A Peer is one contender.
type Peer struct {
	Name     string
	Module   string // module whose version the report shows; "" = this repository or the standard library
	Settings string // for the table of settings in the report

	Virtual  bool // runs in a synctest bubble
	Emulated bool // runs over UDP that a net carries
	Tunneled bool // runs over TCP that a tunnel carries

	// What its pairs can do; see Mover, Talker, Caller, Chainer, Shouter, Thrower and Rusher.
	Moves, Talks, Calls, Chains, Shouts, Throws, Rushes bool

	Open func(ctx context.Context, n emulate.Net) (Pair, error)

	// Gather, if not nil, connects many clients, which play at hz ticks a second, to one server
	// over the bare loopback. hear is called for each message at either end, and must be safe for
	// concurrent use.
	Gather func(ctx context.Context, clients, hz int, hear func(message []byte)) (Crowd, error)
}

// A Crowd is many connections to one server.
type Crowd interface {
	// Tick sends the message once each way over every connection, unreliably. It doesn't keep the
	// message.
	Tick(message []byte) error
	// Multicast sends the message from the server to all clients.
	Multicast(message []byte) error
	// Close closes all connections.
	Close()
}

// Runs reports whether the peer can be measured by a clock.
func (p Peer) Runs(clock job.Clock) bool {
	switch clock {
	case job.Virtual:
		return p.Virtual
	case job.Relay:
		return p.Emulated || p.Tunneled
	}
	return true
}

// A Pair is a connected client and server. It may also implement Mover, Talker, Caller, Rusher,
// Chainer, Shouter and Thrower.
type Pair interface {
	// Close closes both ends.
	Close()
}

// A Mover moves a blob.
type Mover interface {
	Pair
	// Move sends the blob from the client, and returns when the server has received its last byte
	// and, if the peer uses a digest, has verified it.
	Move(ctx context.Context, blob []byte) error
}

// A Talker sends small reliable messages beside blobs, on the same connection.
type Talker interface {
	Mover
	// Hear sets the function that the server calls with each message. It is
	// called once, before Say.
	Hear(fn func(message []byte))
	// Say sends a message from the client.
	Say(message []byte) error
}

// A Caller makes calls that are answered with their argument. Call is safe for concurrent use.
type Caller interface {
	Pair
	Call(ctx context.Context, argument []byte) error
}

// A Rusher is a pair whose server accepts many more clients. The pair's own client only makes
// calls.
type Rusher interface {
	Caller
	// Invite connects the given number of clients over the bare loopback. It is called once.
	Invite(ctx context.Context, clients int) error
	// Rush sends the blob from the server to each of them at once, or from each of them to
	// the server if up is true, and returns when all blobs have arrived and are verified.
	Rush(ctx context.Context, blob []byte, up bool) error
}

// A Chainer makes one call after another in the handler of the answers, as games do, so that no
// goroutine waits for an answer.
type Chainer interface {
	Caller
	// Chain makes the first call. At each answer, it calls next to find out whether to make another
	// one, and returns after next returned false.
	Chain(ctx context.Context, argument []byte, next func() bool) error
}

// A Shouter makes reliable calls without answers, from one goroutine.
type Shouter interface {
	Pair
	// Shout makes count calls, and returns when the server has handled all of them.
	Shout(ctx context.Context, argument []byte, count int) error
}

// A Thrower sends blocks without retransmissions.
type Thrower interface {
	Pair
	// Catch sets the function that is called with each block that arrives
	// whole. It is called once, before Throw.
	Catch(fn func(block []byte))
	// Throw sends a block, with pauses of gap between its packets.
	Throw(block []byte, gap time.Duration) error
}

var peers []Peer

// Register adds contenders, in the order of the report.
func Register(p ...Peer) { peers = append(peers, p...) }

// All returns the contenders.
func All() []Peer { return slices.Clone(peers) }

// Find returns the contender with the given name.
func Find(name string) (Peer, error) {
	for _, p := range peers {
		if p.Name == name {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("peer: unknown peer %q", name)
}
