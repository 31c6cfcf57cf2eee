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

// Config holds the limits and defaults of one world's streams. A field that is zero has the
// default that its comment gives. A field whose comment doesn't give a meaning to negative
// values must not be negative.
type Config struct {
	// Backend sends the parts of transfers that don't choose one with Via. The default is
	// Window{}.
	Backend Backend

	// Hash is the digest algorithm of transfers that don't choose one with the option Hash.
	// The default is BLAKE3 if that is the fastest algorithm at both ends, and SHA256
	// otherwise. An end learns the peer's fastest algorithm from the peer's first message.
	Hash Algorithm

	// MaxBytes limits the encoded bytes of one transfer from a peer. A larger transfer is
	// rejected, and a blob that announces its size is rejected at its header. The default is
	// 64 MiB. A negative value means no limit.
	MaxBytes int64
	// MaxPending limits the bytes of one transfer from a peer that wait for the application.
	// The default is 16 MiB and the minimum 64 KiB.
	MaxPending int64

	// MaxTransfers is the number of transfers that one peer may have in progress. The default
	// is 4 and the maximum 1,024. A negative value means none: every transfer is rejected.
	//
	// Further transfers wait at their sender until a place is free. The heaviest begins first:
	// see [Weight]. A place becomes free when the sender learns that a transfer was consumed,
	// which is a round trip after it sent the last byte. A higher limit makes many small
	// transfers faster over a long path, and a heavy transfer need not wait for a long one to
	// end.
	MaxTransfers int

	// ReadTime is the time in which the game must begin to read an incoming transfer or set
	// its OnBatch. After that, this end rejects the transfer. Without such a limit, the sender
	// of a transfer that its handler dropped would wait forever. The default is 5 minutes. A
	// negative value means no limit.
	ReadTime time.Duration

	// MaxMemory limits the memory that all peers together make this world hold, including
	// memory promised as credit. It counts bytes of real memory. The default is 256 MiB.
	//
	// Half of it is reserved for connections that hold little. By default, each of the first
	// connections may hold 2 MiB of this half. From about the sixtieth on, a connection may
	// hold a third of a MiB. The connections of one identity may together hold at most seven
	// eighths of this half. The same limit applies to the connections of one address that have
	// no identity. Of the other half, a connection gets at most half of what is free.
	//
	// A transfer that finds no memory waits. It is rejected after 30 s in which no waiting
	// transfer was served. If a transfer in progress needs more memory, its sender waits for
	// credit, but there is always room for the transfer's next part. There is also room for
	// content that is sent before headers are answered, unless another transfer of the same
	// peer has stalled. Such content may exceed MaxMemory, by a 16th of it or by 64 KiB.
	//
	// In addition, an eighth of MaxMemory is for content that this world's own transfers have
	// read and their peers have not acknowledged. That is 32 MiB by default, or 64 KiB for
	// each transfer if that is more. All transfers share it. Half of it is reserved for peers
	// that have acknowledged more bytes than are now held for them. Other peers get a small
	// part of that half, and content that waits for credit gets none of it.
	MaxMemory int64

	// MaxQueued limits the outgoing transfers of one peer, in progress or waiting for their
	// turn. The default is 1,024. Beyond it, Start fails with an error that wraps
	// rpc.ErrBacklogFull.
	MaxQueued int

	// Store keeps content that has a key, so that its transfer can be resumed. If it is nil,
	// no transfer can be. Package disk has a Store that uses a folder. A handler may choose
	// another Store for its transfer with [Incoming.SetStore].
	//
	// A Store's limits don't cause rejections. If the Store has no room for a transfer, or
	// another transfer is writing the same content, the transfer continues without the Store
	// and is counted in [Stats].Unstored. A game with quotas must reject transfers in its
	// handlers.
	Store Store
}

// backend returns Backend or its default. The methods below do the same for the fields that
// they are named after.
func (c *Config) backend() Backend {
	if c.Backend == nil {
		return Window{}
	}
	return c.Backend
}

// hashes returns the algorithms that this end announces in its limits, the preferred one
// first.
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

// limit returns field, or usual if field is zero, or no limit if field is negative.
func limit[T ~int64](field, usual T) T {
	if field < 0 {
		return math.MaxInt64
	}
	return cmp.Or(field, usual)
}

// firstCredit returns the credit with which a transfer starts. free is the number of free
// bytes in the world's memory.
func (c *Config) firstCredit(free int64) int64 {
	return min(max(firstCredit, (free-c.maxMemory()/2)/freeShare), c.maxPending())
}

const (
	// stockShare is the inverse of the part of Config.MaxMemory that outgoing content may
	// take. The default of 32 MiB is the bandwidth-delay product of a hundred paths of 50
	// Mbit/s and 50 ms.
	stockShare = 8
	// minStock is the part of it that a transfer may always use: one part is sent while the
	// next is read. Without it, one transfer could wait for another.
	minStock = 2 * blockBytes
)

// terms returns the limits on a connection's use of Config.MaxMemory, if the connection may
// send early bytes before its headers are answered.
//
// Early is for these bytes and for the maximum that chunks take beyond them. GoOn is for the
// chunk that content waits for. Floor is available to the connection no matter how much others
// hold. It is the sum of GoOn, the early bytes, a proportional part of what chunks take beyond
// them, and one transfer with the minimum credit.
func (c *Config) terms(early int64) budget.Terms {
	rounding := slices.Allocated(sliceRounding)
	floor := heldBytes(early) + rounding*early/c.early() + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes
	return budget.Terms{Floor: floor, Early: heldBytes(early) + rounding, GoOn: goOnBytes}
}

// minPending is the minimum credit of a transfer. The largest element fits into it. With less
// credit, that element could never be sent.
const minPending = 64 << 10

// incomingBytes is the memory of a transfer without its content: its records, the stacks of
// two goroutines, and a BLAKE3 Hasher. waitingBytes is the memory of a transfer that waits for
// memory or for its header, which has only its records.
const (
	incomingBytes = 20 << 10
	waitingBytes  = 4 << 10
)

// minMemory is the minimum of MaxMemory. With it, one transfer can begin with the minimum
// credit, and continue.
var minMemory = incomingBytes + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes

// validate returns an error that names the first invalid field and its valid values.
func (c *Config) validate() error {
	switch {
	case c.MaxTransfers > maxIncoming:
		return fmt.Errorf("stream: Config.MaxTransfers is %d, at most %d", c.MaxTransfers, maxIncoming)
	case c.maxPending() < minPending:
		return fmt.Errorf("stream: Config.MaxPending is %d bytes, at least %d: the largest element must fit", c.MaxPending, minPending)
	case c.maxMemory() < minMemory:
		return fmt.Errorf("stream: Config.MaxMemory is %d bytes, at least %d: one transfer must be able to begin", c.MaxMemory, minMemory)
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
