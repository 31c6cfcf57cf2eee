package stream

import (
	"errors"
	"fmt"
	"math"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/slices"
)

// Config holds what one world's streams may use. Zero fields take the default named beside them; negative ones mean
// what is said there.
type Config struct {
	// Backend moves the parts of transfers that name none with Via. Default Window{}.
	Backend Backend

	// Hash makes the digests of transfers that name no other with Hash. The default is BLAKE3 where both ends are the
	// fastest with it, which is known once the peer's first message has come, and SHA256 elsewhere.
	Hash Algorithm

	// Limits on what peers send here.
	MaxBytes     int64 // of one transfer, encoded; more is rejected, a blob at its header; default 64 MiB, negative: no limit
	MaxTransfers int   // of one peer at once; others wait at their sender; default 4, at most 1,024, negative: none
	MaxPending   int64 // bytes of one transfer that wait for the application; default 16 MiB, at least 64 KiB

	// MaxMemory bounds what all peers make this world hold, or were promised as credit, in bytes of real memory; default
	// 256 MiB. Half of it is kept for connections that hold little, 2 MiB at most: 64 of them by default. The rest is shared
	// so that a connection takes at most half of what is free. What does not fit waits where credit makes it wait; else its
	// transfer is rejected. The next part of one that was accepted always comes in.
	//
	// An eighth more is what this world holds of its own transfers, read and not acknowledged, shared among all that go on:
	// 32 MiB by default, or 64 KiB a transfer where that is more.
	MaxMemory int64

	// MaxQueued bounds the outgoing transfers of one peer that have begun or wait for their turn; default 1,024.
	MaxQueued int

	// Store keeps what arrives under a key, so that it can be resumed: disk.New has one in a folder. nil = no resume. A handler may
	// give its transfer another one: [Incoming.SetStore].
	Store Store
}

func (c *Config) backend() Backend {
	if c.Backend == nil {
		return Window{}
	}
	return c.Backend
}

// hashes are the algorithms to announce: that which peers should choose, if they can, first.
func (c *Config) hashes() []Algorithm {
	all := fastest()
	if c.Hash == all[1] {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func (c *Config) maxBytes() int64 {
	if c.MaxBytes < 0 {
		return math.MaxInt64
	}
	return defaulted(c.MaxBytes, 64<<20)
}

func (c *Config) maxTransfers() int { return max(0, defaulted(c.MaxTransfers, 4)) }
func (c *Config) maxPending() int64 { return defaulted(c.MaxPending, 16<<20) }
func (c *Config) maxMemory() int64  { return defaulted(c.MaxMemory, 256<<20) }
func (c *Config) maxQueued() int    { return defaulted(c.MaxQueued, 1024) }
func (c *Config) early() int64      { return min(earlyBytes, c.maxPending()) }

// firstWindow is the credit that a transfer starts with while so much of the memory is free.
func (c *Config) firstWindow(free int64) int64 {
	return min(max(firstWindow, (free-c.maxMemory()/2)/plenty), c.maxPending())
}

const (
	// stockShare is the part of Config.MaxMemory that outgoing content may take: 32 MiB by default, the products of a hundred
	// paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// leastStock is what a transfer may have of it whatever the others have, so that none waits for another: a part that leaves
	// while the next one is read.
	leastStock = 2 * blockBytes
)

// terms are those of the account of a connection: it may hold what comes before answers, and has room for a chunk that is
// waited for. A transfer with the least credit is its floor.
func (c *Config) terms() budget.Terms {
	early := heldBytes(c.early()) + slices.Allocated(sliceRounding)
	return budget.Terms{Floor: early + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes, Early: early, GoOn: goOnBytes}
}

// minPending lets the largest element pass.
const minPending = 64 << 10

// incomingBytes is what a transfer takes beside its content: records here, at the application, the stacks of two
// goroutines, and a Hasher of BLAKE3.
const incomingBytes = 20 << 10

// leastMemory lets one transfer begin with the least credit, and go on.
var leastMemory = incomingBytes + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes

func (c *Config) validate() error {
	switch {
	case c.MaxTransfers > maxIncoming:
		return fmt.Errorf("stream: Config.MaxTransfers is %d, at most %d", c.MaxTransfers, maxIncoming)
	case c.maxPending() < minPending:
		return fmt.Errorf("stream: Config.MaxPending is %d bytes, at least %d: the largest element must fit", c.MaxPending, minPending)
	case c.maxMemory() < leastMemory:
		return fmt.Errorf("stream: Config.MaxMemory is %d bytes, one transfer begins with %d", c.MaxMemory, leastMemory)
	case c.Hash == NoDigest:
		return errors.New("stream: Config.Hash is NoDigest, which a transfer chooses for itself: Hash(NoDigest)")
	case c.Hash != 0 && !c.Hash.known():
		return fmt.Errorf("stream: Config.Hash is %v, which is unknown", c.Hash)
	case c.maxQueued() < 1:
		return fmt.Errorf("stream: Config.MaxQueued is %d, at least 1", c.MaxQueued)
	}
	return c.backend().check()
}

// defaulted returns value, or fallback when value is zero.
func defaulted[T int | int64](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}
