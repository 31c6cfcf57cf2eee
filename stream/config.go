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

// Config holds the limits and defaults of one world's streams. Zero fields take the defaults
// given below. Negative values are invalid unless a field says otherwise.
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
	// MaxPending limits how many received bytes of one transfer may wait until the application
	// reads them. The default is 16 MiB and the minimum 64 KiB.
	MaxPending int64

	// MaxTransfers is the number of transfers that one peer may have in progress. The default
	// is 4 and the maximum 1,024. If it is negative, every transfer is rejected.
	//
	// Further transfers queue at their sender, highest [Weight] first. The next one begins when
	// the sender learns that a transfer was consumed, a round trip after that one's last byte.
	// Raise the limit if you send many small transfers over a long path, or if an urgent
	// transfer must not wait for a long one to end.
	MaxTransfers int

	// ReadTime is how long the application has to start reading an incoming transfer or to set
	// its OnBatch. After that, this end rejects the transfer. Without a limit, a handler that
	// forgets a transfer would block the transfer's sender forever. The default is 5 minutes. A
	// negative value means no limit.
	ReadTime time.Duration

	// MaxMemory limits the total memory that this world holds for all its peers, including
	// memory promised as credit. It counts allocated bytes, not payload bytes. The default is
	// 256 MiB.
	//
	// Half of it is reserved for connections that hold little: by default, 2 MiB for each of
	// about the first sixty connections, and then a third of a MiB for each. All connections of
	// one identity together, or all connections of one address without an identity, get at most
	// seven eighths of this half. Of the other half, a connection gets at most half of what is
	// free.
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

	// Store keeps content that has a key, so that its transfer can be resumed. If Store is nil,
	// transfers can't be resumed. Package disk provides a Store backed by a folder. A handler
	// may choose another Store for its transfer with [Incoming.SetStore].
	//
	// A Store's limits don't cause rejections. If the Store has no room for a transfer, or
	// another transfer is writing the same content, the transfer continues without the Store
	// and is counted in [Stats].Unstored. A game with quotas must reject transfers in its
	// handlers.
	Store Store
}

// backend returns Backend or its default.
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

// The following methods return the fields that they are named after, or the defaults.

func (c *Config) maxBytes() int64         { return limit(c.MaxBytes, 64<<20) }
func (c *Config) readTime() time.Duration { return limit(c.ReadTime, 5*time.Minute) }
func (c *Config) maxTransfers() int       { return max(0, cmp.Or(c.MaxTransfers, 4)) }
func (c *Config) maxPending() int64       { return cmp.Or(c.MaxPending, 16<<20) }
func (c *Config) maxMemory() int64        { return cmp.Or(c.MaxMemory, 256<<20) }
func (c *Config) maxQueued() int          { return cmp.Or(c.MaxQueued, 1024) }

// early returns how many bytes a sender may send before its header is answered.
func (c *Config) early() int64 { return min(earlyBytes, c.maxPending()) }

// limit returns field, or usual if field is zero, or no limit if field is negative.
func limit[T ~int64](field, usual T) T {
	if field < 0 {
		return math.MaxInt64
	}
	return cmp.Or(field, usual)
}

// firstCredit returns the credit with which a transfer starts: 1/freeShare of what is free
// beyond the half of MaxMemory that is reserved for connections that hold little, but at
// least the constant firstCredit and at most MaxPending. free is the number of free bytes.
func (c *Config) firstCredit(free int64) int64 {
	return min(max(firstCredit, (free-c.maxMemory()/2)/freeShare), c.maxPending())
}

const (
	// Outgoing content may take 1/stockShare of Config.MaxMemory. The default of 32 MiB is the
	// bandwidth-delay product of a hundred paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// minStock is the outgoing memory that every transfer may always use: for the part that is
	// being sent, and for the next one, which is being read. Without it, one transfer could
	// wait for another.
	minStock = 2 * blockBytes
)

// terms returns the memory limits of a connection that may send up to early bytes before its
// headers are answered.
//
// Early covers those bytes and the maximum overhead of their chunks. GoOn covers the chunk that
// content waits for. Floor is guaranteed to the connection whatever others hold. It covers GoOn,
// the early bytes with a proportional part of the overhead, and one transfer with the minimum
// credit.
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
