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

// Config says what one world's streams may use. A field that is zero takes the default named beside it; a negative one
// means what is said there.
type Config struct {
	// Backend moves the parts of transfers that name none with Via. Default Window{}.
	Backend Backend

	// Hash makes the digests of transfers that name no other with Hash. By default it is BLAKE3 if that is the fastest at
	// both ends, which is known once the peer's first message has come, and SHA256 otherwise.
	Hash Algorithm

	// Limits on what peers send here.
	MaxBytes   int64 // of one transfer, encoded; more is rejected, a blob at its header; default 64 MiB, negative: no limit
	MaxPending int64 // bytes of one transfer that wait for the application; default 16 MiB, at least 64 KiB

	// MaxTransfers is how many transfers of one peer there are at once; default 4, at most 1,024, negative: none, each is rejected. Those
	// beyond it wait at their sender, and the heaviest begins first: see [Weight]. However heavy, it waits until a place is free: when the
	// sender knows that a transfer was consumed, a round trip after the last byte has left. With more places many small transfers go faster
	// over a long way, and a heavy one need not wait for the end of a long one.
	MaxTransfers int

	// ReadTime is how long this end waits until the game begins to read an incoming transfer, or gives it an OnBatch. Then it
	// rejects the transfer: a handler may have dropped it, and its sender would wait for ever. Default 5 min, negative: any time.
	ReadTime time.Duration

	// MaxMemory bounds what all peers make this world hold, or were promised as credit, in bytes of real memory; default
	// 256 MiB. Half of it is kept for connections that hold little: by default 2 MiB for the first ones, and a third of a MiB
	// where there are more than sixty. One identity or, without one, one address, has seven eighths of that half at most. Of the
	// other half a connection takes at most half of what is free. A transfer for which there is no memory waits for it, and is
	// rejected when none that waited had its turn for 30 s. When a running one needs more, credit makes its sender wait. The next part
	// of it always has room, and so has, unless a transfer of the same peer stands still, what may come before answers, which may pass
	// MaxMemory: a 16th of it in content, or 64 KiB.
	//
	// An eighth of it, in addition, is for what this world's own transfers have read and no peer has acknowledged, shared
	// among all of them: 32 MiB by default, or 64 KiB for each transfer if that is more. Half of it is kept for peers that have
	// acknowledged more bytes than are held for them now: others get a small part of that half, content that waits for credit none.
	MaxMemory int64

	// MaxQueued bounds the outgoing transfers of one peer that have begun or wait for their turn; default 1,024.
	// One more fails with an error that wraps rpc.ErrBacklogFull.
	MaxQueued int

	// Store keeps content that has a key, so that its transfer can be resumed: disk.New makes one in a folder. nil = no resume. A
	// handler may give its transfer another one: [Incoming.SetStore]. Its limits refuse no transfer: one for which it has no room, or whose
	// content another transfer writes now, goes on without it, and [Stats].Unstored counts it. A game that has quotas rejects in its handlers.
	Store Store
}

// backend returns Backend or its default, as the methods below do for the fields of their names.
func (c *Config) backend() Backend {
	if c.Backend == nil {
		return Window{}
	}
	return c.Backend
}

// hashes are the algorithms that our limits announce, first the one that peers should choose if they can.
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

// limit returns the limit that a field sets: none when it is negative.
func limit[T ~int64](field, usual T) T {
	if field < 0 {
		return math.MaxInt64
	}
	return cmp.Or(field, usual)
}

// firstCredit returns the credit that a transfer starts with when free bytes of the world's memory are free.
func (c *Config) firstCredit(free int64) int64 {
	return min(max(firstCredit, (free-c.maxMemory()/2)/freeShare), c.maxPending())
}

const (
	// stockShare is the part of Config.MaxMemory that outgoing content may take: 32 MiB by default, the products of a hundred
	// paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// leastStock is what a transfer may always have of it, so that none waits for another: one part leaves while the next is
	// read.
	leastStock = 2 * blockBytes
)

// terms returns what a connection may have of Config.MaxMemory that may send early bytes before its headers are answered: those bytes, with what
// chunks take beyond them at worst (Early), the chunk that content waits for (GoOn), and, however much others hold (Floor), both of these, with a
// part of what chunks take as large as that of the early bytes, and one transfer with the least credit.
func (c *Config) terms(early int64) budget.Terms {
	rounding := slices.Allocated(sliceRounding)
	floor := heldBytes(early) + rounding*early/c.early() + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes
	return budget.Terms{Floor: floor, Early: heldBytes(early) + rounding, GoOn: goOnBytes}
}

// minPending is the least credit of a transfer. The largest element fits into it, and without that it could never come.
const minPending = 64 << 10

// incomingBytes is the memory of a transfer besides its content: its records, the stacks of two goroutines, and a Hasher of
// BLAKE3. One that waits for memory, or for its header, has no more than waitingBytes: its records.
const (
	incomingBytes = 20 << 10
	waitingBytes  = 4 << 10
)

// leastMemory is the least MaxMemory: one transfer can begin with the least credit, and go on.
var leastMemory = incomingBytes + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes

// validate returns an error that names the first field whose value Install cannot use, and what it may be.
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

// isNil reports whether v, a Backend or a Store, is none: a pointer to one may be nil, too.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
