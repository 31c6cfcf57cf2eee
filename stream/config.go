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
	"github.com/quivernet/quiver/internal/words"
)

// Config holds the limits and defaults of one world's streams. Zero fields take the defaults
// given below. Negative values are invalid unless a field says otherwise.
type Config struct {
	// Backend sends the parts of transfers that do not choose one with Via. The default is
	// Window{}.
	Backend Backend

	// Hash is the digest algorithm of transfers that do not choose one with the option Hash. The
	// default is BLAKE3 if that is the fastest algorithm at both ends, and SHA256 otherwise. An end
	// learns the peer's fastest algorithm from its first message.
	Hash Algorithm

	// MaxBytes limits the encoded bytes of one transfer from a peer. A larger transfer is rejected,
	// at its header if it is a blob that announces its size. The default is 64 MiB. A negative
	// value means no limit.
	MaxBytes int64

	// MaxPending limits the received bytes of one transfer that are waiting for the application to
	// read them. The default is 16 MiB, or MaxMemory if that is less. The minimum is 64 KiB and the
	// maximum MaxMemory.
	MaxPending int64

	// MaxTransfers limits the number of transfers that one peer may have in progress. The default
	// is 4 and the maximum 1,024. If it is negative, every transfer is rejected.
	//
	// Further transfers queue at their sender, highest [Weight] first. The next transfer begins
	// when the sender learns that an earlier one was consumed, which is a round trip after it sent
	// the last byte of the earlier one. Raise the limit to send many small transfers over a long
	// path, or if an urgent transfer must not wait for a long one to end.
	MaxTransfers int

	// ReadTime is the time within which the application must start reading an incoming transfer or
	// call its OnBatch, before the transfer is rejected. Without a limit, a handler that forgets a
	// transfer would block its sender forever. A Read that returns ErrBlocking doesn't count. The
	// default is 5 minutes and the minimum 1 ms. A negative value means no limit.
	ReadTime time.Duration

	// MaxMemory limits the memory in bytes that this world holds for all of its peers together,
	// including memory that it has promised them as credit. It limits allocated bytes rather than
	// payload. The default is 256 MiB.
	//
	// The minimum is 1 MiB, and about 9 KiB more for each of MaxTransfers above 41. It is enough
	// for one transfer after the other. A connection over which something arrived as [Slices]
	// takes 3.5 KiB until it ends, so add 8 KiB for each such connection beyond the first 40.
	//
	// Half of it is reserved for connections that hold little: by default, 2 MiB for each of about
	// the first sixty connections, and then a quarter of a MiB for each. All connections of one
	// identity together get at most seven eighths of this half, as do all connections from one
	// address that have no identity. From the other half of the memory, a connection gets at most
	// half of what is free.
	//
	// A transfer waits if there is no memory for it, and is rejected if no waiting transfer could
	// begin for 30 s. If a transfer in progress needs more memory, its sender waits for credit, but
	// there is always room for the next part. There is also room for content that is sent before
	// headers are answered, unless another transfer of the same peer has stalled. Such content may
	// exceed MaxMemory by a 16th of it or by 64 KiB.
	//
	// In addition, an eighth of MaxMemory is for content that this world's own transfers have read
	// but their peers have not acknowledged. This is 32 MiB by default, or 64 KiB for each transfer
	// if that is more. All transfers share this memory, but half of it is reserved for peers that
	// have acknowledged more bytes than are currently held for them. Other peers get a small part
	// of the reserved half, and content that waits for credit gets none of it.
	MaxMemory int64

	// MaxQueued limits the number of outgoing transfers to one peer, both in progress and waiting.
	// The default is 1,024. Beyond this limit, Start fails with an error that wraps
	// rpc.ErrBacklogFull.
	MaxQueued int

	// Store keeps content that has a key, so that its transfer can be resumed. If Store is nil,
	// transfers can't be resumed. Package disk provides a Store backed by a folder. A handler
	// may choose another Store for its transfer with [Incoming.SetStore].
	//
	// The limits of a Store do not cause rejections. If the Store has no room for a transfer, or
	// if another transfer is writing the same content, the transfer continues without the Store
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

// hashes returns the algorithms that this end announces in its limits message, the preferred
// one first.
func (c *Config) hashes() []Algorithm {
	all := fastestFirst() // it has two elements
	if c.Hash == all[1] {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// The following methods return the fields after which they are named, or the defaults.

func (c *Config) maxBytes() int64         { return limit(c.MaxBytes, 64<<20) }
func (c *Config) readTime() time.Duration { return limit(c.ReadTime, 5*time.Minute) }
func (c *Config) maxTransfers() int       { return max(0, cmp.Or(c.MaxTransfers, 4)) }
func (c *Config) maxPending() int64       { return cmp.Or(c.MaxPending, min(16<<20, c.maxMemory())) }
func (c *Config) maxMemory() int64        { return cmp.Or(c.MaxMemory, 256<<20) }
func (c *Config) maxQueued() int          { return cmp.Or(c.MaxQueued, 1024) }

// early returns the maximum number of bytes that one sender may send before its headers are
// answered.
func (c *Config) early() int64 { return min(earlyBytes, c.maxPending()) }

// limit returns field, defaultValue if field is zero, or no limit if field is negative.
func limit[T ~int64](field, defaultValue T) T {
	if field < 0 {
		return math.MaxInt64
	}
	return cmp.Or(field, defaultValue)
}

// firstCredit returns the credit with which a transfer starts, given the number of free bytes of
// memory. It's 1/freeShare of what is free in excess of the reserved half of MaxMemory, but at
// least the constant firstCredit and at most MaxPending.
func (c *Config) firstCredit(free int64) int64 {
	return min(max(firstCredit, (free-c.maxMemory()/2)/freeShare), c.maxPending())
}

const (
	// Outgoing content may use 1/stockShare of Config.MaxMemory. The default of 32 MiB is the
	// bandwidth-delay product of a hundred paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// minStock is the amount of this memory that every transfer may always use. It holds the part
	// that is being sent and the next part, which is being read, so that transfers needn't wait for
	// each other.
	minStock = 2 * blockBytes
)

// budgets returns the world's memory for content that peers make us hold, and for content that we
// have read for our own transfers.
func (c *Config) budgets() (*budget.Pool, *budget.Stock) {
	return budget.NewPool(c.maxMemory()), budget.NewStock(c.maxMemory()/stockShare, minStock)
}

// terms returns the memory limits of a connection that may send early bytes before its headers
// are answered:
//
//   - Early covers the early bytes and the maximum that their chunks can add.
//   - GoOn covers the chunk that content is waiting for.
//   - Floor is the memory that the connection gets even if others hold a lot. It covers GoOn, the
//     early bytes with their share of what chunks add, and one transfer with the minimum credit.
func (c *Config) terms(early int64) budget.Terms {
	rounding := slices.Allocated(sliceRounding)
	floor := heldBytes(early) + rounding*early/c.early()
	floor += heldBytes(minPending) + recordsBytes // one transfer, and the slices' records
	floor += goOnBytes
	return budget.Terms{Floor: floor, Early: heldBytes(early) + rounding, GoOn: goOnBytes}
}

// minPending is the minimum credit of a transfer. The largest element must fit into it, because the
// element could otherwise never be sent.
const minPending = 64 << 10

// minReadTime is the minimum of ReadTime. A smaller value was probably meant to have a unit: 30 is
// 30 ns.
const minReadTime = time.Millisecond

// The bytes that are charged for a transfer in addition to its content.
const (
	// incomingBytes covers its records, the stacks of two goroutines, and a BLAKE3 Hasher.
	incomingBytes = 20 << 10
	// waitingBytes covers its records while the transfer waits for its header or for memory.
	waitingBytes = 4 << 10
)

// transferBytes is the memory with which one transfer can begin with the minimum credit and make
// progress.
var transferBytes = incomingBytes + heldBytes(minPending) + recordsBytes + goOnBytes

// leastMemory is the minimum of MaxMemory unless MaxTransfers is above 41. It's rounded up, which
// leaves room for the slice machines of 40 connections.
const leastMemory = 1 << 20

// minMemory returns the minimum of MaxMemory: one party must get the memory for a transfer while as
// many of its other transfers as MaxTransfers allows are waiting.
func (c *Config) minMemory() int64 {
	waiting := max(0, c.maxTransfers()-1) * waitingBytes
	return max(leastMemory, int64(float64(transferBytes+int64(waiting))/budget.PartyShare))
}

// validate returns an error that names the first invalid field and its valid values.
func (c *Config) validate() error {
	switch {
	case c.MaxTransfers > maxIncoming:
		return fmt.Errorf("stream: Config.MaxTransfers is %d; the maximum is %d", c.MaxTransfers, maxIncoming)
	case c.maxMemory() < c.minMemory():
		return fmt.Errorf("stream: Config.MaxMemory is %s; the minimum is %d, for one transfer after "+
			"the other and a Config.MaxTransfers of %d", words.Bytes(c.MaxMemory), c.minMemory(), c.maxTransfers())
	case c.maxPending() < minPending:
		return fmt.Errorf("stream: Config.MaxPending is %s; the minimum is %d, the size of the largest element",
			words.Bytes(c.MaxPending), minPending)
	case c.MaxPending > c.maxMemory():
		return fmt.Errorf("stream: Config.MaxPending is %d bytes; the limit is %d (Config.MaxMemory): raise Config.MaxMemory or lower MaxPending",
			c.MaxPending, c.maxMemory())
	case c.ReadTime > 0 && c.ReadTime < minReadTime:
		return fmt.Errorf("stream: Config.ReadTime is %v; the minimum is %v: give it a unit, such as time.Second",
			c.ReadTime, minReadTime)
	case c.Hash == NoDigest:
		return errors.New("stream: Config.Hash is NoDigest, which only a single transfer can use: start it with Hash(NoDigest)")
	case c.Hash != 0 && !c.Hash.computesDigests():
		return fmt.Errorf("stream: Config.Hash is unknown %v", c.Hash)
	case c.Backend != nil && isNil(c.Backend):
		return fmt.Errorf("stream: Config.Backend is a nil %T", c.Backend)
	case c.Store != nil && isNil(c.Store):
		return fmt.Errorf("stream: Config.Store is a nil %T: leave it unset for no store", c.Store)
	case c.maxQueued() < 1:
		return fmt.Errorf("stream: Config.MaxQueued is %d; the minimum is 1", c.MaxQueued)
	}
	if w := c.backend().window(); w != nil {
		return w.check()
	}
	return nil
}

// isNil reports whether v, which is a Backend or a Store, is nil or a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
