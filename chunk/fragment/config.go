package fragment

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// Window is how many sequence numbers a Reassembler remembers, counting back from the newest
	// block.
	Window = 256

	// defaultMaxBytes is enough for two of the largest blocks, because one may arrive while
	// another is being lost.
	defaultMaxBytes = 2 * MaxBlock
	defaultLifetime = time.Second

	// maxLifetime is 146 years, which keeps sums of times from overflowing.
	maxLifetime = 1 << 62

	// tableBytes is the size of Reassembler.entries, rounded up. A test compares it with the
	// size of the type.
	tableBytes = 24 << 10
)

// Config configures a Reassembler. A field that is zero takes its default.
type Config struct {
	// ProtocolID is part of every checksum, so that packets of another protocol are rejected.
	// 0 = 0x55667788, the reference's. The functions Append and Parse use the same default.
	ProtocolID uint32

	// MaxFragments is the maximum number of fragments in a block, 1 to MaxCount. 0 = MaxCount.
	MaxFragments int
	// MaxBytes limits the data of incomplete blocks, in bytes. If there is no room for another
	// fragment, the block that was begun first is dropped. MaxBytes must be at least
	// MaxFragments * Size. 0 = 522,240, two blocks of the largest size.
	MaxBytes int
	// Lifetime is how long after its first fragment an incomplete block is dropped. 0 = 1 s.
	//
	// After a silence of this length, any sequence number counts as the newest, however far
	// outside the window it is.
	Lifetime time.Duration
	// Regular makes the Reassembler accept the article's unfragmented packets as well:
	// checksum, sequence, a packet type of 1 to 3, and a body with an end check.
	Regular bool
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	c = c.effective()
	switch {
	case c.MaxFragments < 0 || c.MaxFragments > MaxCount:
		return fmt.Errorf("fragment: Config.MaxFragments is %d; it must be 1 to %d", c.MaxFragments, MaxCount)
	case c.MaxBytes < c.MaxFragments*Size:
		return fmt.Errorf("fragment: Config.MaxBytes is %d; a block of Config.MaxFragments = %d needs %d",
			c.MaxBytes, c.MaxFragments, c.MaxFragments*Size)
	case c.MaxBytes/Size >= int(none):
		return fmt.Errorf("fragment: Config.MaxBytes is %d; it must be below %d", c.MaxBytes, int(none)*Size)
	case c.Lifetime < 0:
		return fmt.Errorf("fragment: Config.Lifetime is %v; it must not be negative", c.Lifetime)
	}
	return nil
}

// Bound returns the maximum memory that a Reassembler with this Config uses, in bytes. It
// counts waiting fragments, the last block returned, and the table of blocks.
func (c Config) Bound() int {
	c = c.effective()
	return c.MaxBytes/Size*cellBytes + c.MaxFragments*Size + tableBytes
}

// effective returns c with its defaults filled in.
func (c Config) effective() Config {
	c.MaxFragments = cmp.Or(c.MaxFragments, MaxCount)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes)
	c.Lifetime = min(cmp.Or(c.Lifetime, defaultLifetime), maxLifetime)
	return c
}
