package stream

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/slices"
)

// Config holds the limits and defaults of one world's streams. A field that is zero has the default
// that its comment gives; the comment also says what a negative value means, if that is allowed.
type Config struct {
	// Backend sends the parts of transfers that choose none with Via. Default Window{}.
	Backend Backend

	// Hash is the digest algorithm of transfers that choose none with the option
	// Hash. By default it is BLAKE3 if that is the fastest at both ends, which
	// is known once the peer's first message has arrived, and SHA256 otherwise.
	Hash Algorithm

	// Limits on what peers send here.
	MaxBytes   int64 // encoded bytes of one transfer; a larger one is rejected, a blob at its header; default 64 MiB, negative = no limit
	MaxPending int64 // bytes of one transfer that wait for the application; default 16 MiB, at least 64 KiB

	// MaxTransfers is how many transfers one peer may have in progress; default 4, at
	// most 1,024, negative = none: each is rejected. More of them wait at their sender,
	// where the heaviest begins first: see [Weight]. Even that one waits until a place
	// is free, which is when the sender learns that a transfer was consumed: a round
	// trip after the last byte was sent. With a higher limit, many small transfers are
	// faster over a long path, and a heavy one need not wait for the end of a long one.
	MaxTransfers int

	// ReadTime is how long the game may take to begin to read an incoming transfer, or to
	// set its OnBatch. After that this end rejects the transfer, because a handler may have
	// dropped it and its sender would wait forever. Default 5 min, negative = no limit.
	ReadTime time.Duration

	// MaxMemory limits what all peers together make this world hold, or were promised as credit, in
	// bytes of real memory; default 256 MiB. Half of it is kept for connections that hold little:
	// by default 2 MiB for each of the first, and a third of a MiB for each if there are more than
	// sixty. One identity or, without one, one address, gets at most seven eighths of that half. Of
	// the other half a connection gets at most half of what is free. A transfer that finds no
	// memory waits. It is rejected if none of those that wait was served for 30 s. If a transfer in
	// progress needs more, its sender waits for credit. There is always room for its next part and,
	// unless another transfer of the same peer has stalled, for content that is sent before headers
	// are answered. The latter may exceed MaxMemory: by a 16th of it in content, or by 64 KiB.
	//
	// In addition, an eighth of it is for content that this world's own transfers
	// have read and their peers have not acknowledged: 32 MiB by default, or 64 KiB
	// for each transfer if that is more, shared by all. Half of this is kept for
	// peers that have acknowledged more bytes than are now held for them. Other peers
	// get a small part of that half, and content that waits for credit gets none.
	MaxMemory int64

	// MaxQueued limits the outgoing transfers of one peer, in progress or waiting for their
	// turn; default 1,024. Starting one more fails with an error that wraps rpc.ErrBacklogFull.
	MaxQueued int

	// Store keeps content that has a key, so that its transfer can be resumed; nil = none can be.
	// Package disk has one that uses a folder. A handler may choose another Store for its transfer
	// with [Incoming.SetStore]. A Store's limits do not cause rejections: a transfer for which it
	// has no room, or whose content another transfer is writing, continues without it and is
	// counted in [Stats].Unstored. A game with quotas must reject transfers in its handlers.
	Store Store
}

// backend returns Backend or its default. The methods below do the same for the
// fields of their names.
func (c *Config) backend() Backend {
	if c.Backend == nil {
		return Window{}
	}
	return c.Backend
}

// hashes returns the algorithms that our limits announce. The first is the one
// that peers should choose if they can.
func (c *Config) hashes() []Algorithm {
	all := fastest()
	if c.Hash == all[1] {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func (c *Config) maxBytes() int64         { return limit(c.MaxBytes, 64<<20) }
func (c *Config) readTime() time.Duration { return limit(c.ReadTime, 5*time.Minute) }
func (c *Config) maxTransfers() int       { return max(0, cmp.Or(c.MaxTransfers, 4)) }
func (c *Config) maxPending() int64       { return cmp.Or(c.MaxPending, 16<<20) }
func (c *Config) maxMemory() int64        { return cmp.Or(c.MaxMemory, 256<<20) }
func (c *Config) maxQueued() int          { return cmp.Or(c.MaxQueued, 1024) }
func (c *Config) early() int64            { return min(earlyBytes, c.maxPending()) }

// limit returns the limit that a field sets; a negative field sets none.
func limit[T ~int64](field, usual T) T {
	if field < 0 {
		return math.MaxInt64
	}
	return cmp.Or(field, usual)
}

// firstCredit returns the credit with which a transfer starts, if free bytes of
// the world's memory are free.
func (c *Config) firstCredit(free int64) int64 {
	return min(max(firstCredit, (free-c.maxMemory()/2)/freeShare), c.maxPending())
}

const (
	// stockShare is the part of Config.MaxMemory that outgoing content may take, 1/8: 32 MiB by
	// default, which is the bandwidth-delay product of a hundred paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// leastStock is how much of it a transfer may always have, so that no
	// transfer waits for another: one part is sent while the next is read.
	leastStock = 2 * blockBytes
)

// terms returns the part of Config.MaxMemory that a connection may have if it may send early
// bytes before its headers are answered. Early is for those bytes, and the most memory that
// chunks take beyond them. GoOn is for the chunk that content waits for. Floor is what the
// connection gets however much others hold: GoOn, the early bytes with a proportional part
// of what chunks take beyond them, and one transfer with the least credit.
func (c *Config) terms(early int64) budget.Terms {
	rounding := slices.Allocated(sliceRounding)
	floor := heldBytes(early) + rounding*early/c.early() + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes
	return budget.Terms{Floor: floor, Early: heldBytes(early) + rounding, GoOn: goOnBytes}
}

// minPending is the least credit of a transfer. The largest element fits into
// it; with less, that element could never be sent.
const minPending = 64 << 10

// incomingBytes is the memory of a transfer without its content: its records,
// the stacks of two goroutines, and a Hasher of BLAKE3. A transfer that waits
// for memory, or for its header, has only its records: waitingBytes.
const (
	incomingBytes = 20 << 10
	waitingBytes  = 4 << 10
)

// leastMemory is the least MaxMemory: with it one transfer can begin with the
// least credit, and continue.
var leastMemory = incomingBytes + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes

// validate returns an error that names the first field with an invalid value, and the valid ones.
func (c *Config) validate() error {
	switch {
	case c.MaxTransfers > maxIncoming:
		return fmt.Errorf("stream: Config.MaxTransfers is %d, at most %d", c.MaxTransfers, maxIncoming)
	case c.maxPending() < minPending:
		return fmt.Errorf("stream: Config.MaxPending is %d bytes, at least %d: the largest element must fit", c.MaxPending, minPending)
	case c.maxMemory() < leastMemory:
		return fmt.Errorf("stream: Config.MaxMemory is %d bytes, at least %d: one transfer must be able to begin", c.MaxMemory, leastMemory)
	case c.Hash == NoDigest:
		return errors.New("stream: Config.Hash is NoDigest, which a transfer chooses for itself: Hash(NoDigest)")
	case c.Hash != 0 && !c.Hash.known():
		return fmt.Errorf("stream: Config.Hash is %v, which is unknown", c.Hash)
	case c.Backend != nil && isNil(c.Backend):
		return fmt.Errorf("stream: Config.Backend is a nil %T", c.Backend)
	case c.Store != nil && isNil(c.Store):
		return fmt.Errorf("stream: Config.Store is a nil %T; leave Store out where there is none", c.Store)
	case c.maxQueued() < 1:
		return fmt.Errorf("stream: Config.MaxQueued is %d, at least 1", c.MaxQueued)
	}
	if w := c.backend().window(); w != nil {
		return w.check()
	}
	return nil
}

// isNil reports whether v, a Backend or a Store, is nil or a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
