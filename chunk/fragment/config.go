package fragment

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// Window is how many blocks behind the newest one a Reassembler still knows.
	Window = 256

	defaultMaxBytes = 2 * MaxBlock // one block of the largest size may arrive while another is being lost
	defaultLifetime = time.Second

	// longest limits times, so that no sum of them overflows: 146 years.
	longest = 1 << 62

	// tableBytes is the memory of the table of blocks, rounded up; a test
	// compares it with the types.
	tableBytes = 24 << 10
)

// Config holds the limits of a Reassembler. A field that is zero takes its default.
type Config struct {
	// ProtocolID is part of every checksum, to reject packets of others. 0 =
	// 0x55667788, the reference's, here and in Append and Parse.
	ProtocolID uint32

	// MaxFragments is the largest number of fragments that a block may have, 1
	// to MaxCount. 0 = MaxCount.
	MaxFragments int
	// MaxBytes is how much data of incomplete blocks is kept. If there is no
	// room for a fragment, the block that was begun first is dropped. At least
	// MaxFragments * Size. 0 = 522,240, two blocks of the largest size.
	MaxBytes int
	// Lifetime is how long after its first fragment an incomplete block is
	// dropped. After silence for this long, any sequence counts as the newest,
	// however far outside the window it is. 0 = 1 s.
	Lifetime time.Duration
	// Regular makes the Reassembler also accept the article's packets that are not
	// fragmented: checksum, sequence, a packet type of 1 to 3 and a body with an end check.
	Regular bool
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.MaxFragments < 0 || c.MaxFragments > MaxCount:
		return fmt.Errorf("fragment: Config.MaxFragments is %d; 1 to %d are possible", c.MaxFragments, MaxCount)
	case c.maxBytes() < c.maxFragments()*Size:
		return fmt.Errorf("fragment: Config.MaxBytes is %d; a block of Config.MaxFragments = %d needs %d", c.MaxBytes, c.maxFragments(), c.maxFragments()*Size)
	case c.maxBytes()/Size >= int(none):
		return fmt.Errorf("fragment: Config.MaxBytes is %d; under %d are possible", c.MaxBytes, int(none)*Size)
	case c.Lifetime < 0:
		return errors.New("fragment: Config.Lifetime is negative")
	}
	return nil
}

// Bound returns how many bytes a Reassembler with this Config holds at most: waiting
// fragments with their links, the block that was returned last, and the table of blocks.
func (c Config) Bound() int {
	return c.maxBytes()/Size*cellBytes + c.maxFragments()*Size + tableBytes
}

func (c Config) maxFragments() int { return cmp.Or(c.MaxFragments, MaxCount) }

func (c Config) maxBytes() int { return cmp.Or(c.MaxBytes, defaultMaxBytes) }

func (c Config) lifetime() time.Duration { return min(cmp.Or(c.Lifetime, defaultLifetime), longest) }
