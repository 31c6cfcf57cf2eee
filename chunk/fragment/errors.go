package fragment

import (
	"errors"
	"fmt"
)

// Reasons for which a packet or a block is rejected. The packet is dropped and counted in
// Stats; no error ends anything.
//
// All errors that a peer's bytes can cause are allocated once, so a flood of bad
// packets costs no memory.
var (
	// ErrChecksum means that a packet is damaged, or belongs to another protocol.
	ErrChecksum = errors.New("fragment: checksum does not match")
	// ErrRegular means that a packet is a regular packet, not a fragment.
	ErrRegular = errors.New("fragment: a regular packet, not a fragment")
	// ErrFragment means that a packet is a fragment, not a regular packet.
	ErrFragment = errors.New("fragment: a fragment, not a regular packet")
	// ErrMalformed means that no correct sender sends such a packet. The errors
	// that wrap it say why.
	ErrMalformed = errors.New("fragment: malformed packet")
	// ErrMismatch means that the number of fragments differs from that in earlier fragments
	// of the same block.
	ErrMismatch = errors.New("fragment: another number of fragments than before in this block")
	// ErrTooMany means that a block has more fragments than Config.MaxFragments.
	ErrTooMany = errors.New("fragment: more fragments than Config.MaxFragments")
	// ErrDuplicate means that the fragment, or the whole block, was received before.
	ErrDuplicate = errors.New("fragment: received before")
	// ErrStale means that the block is Window or more sequence numbers older than the
	// newest one, or was dropped.
	ErrStale = errors.New("fragment: block is too old or was given up")
	// ErrAhead means that the block is more than 1,024 sequence numbers ahead
	// of the newest one.
	ErrAhead = errors.New("fragment: sequence is more than 1,024 ahead of the newest block")
	// ErrBlockSize means that a block is empty or larger than MaxBlock.
	ErrBlockSize = errors.New("fragment: block size")
)

var (
	errShort   = fmt.Errorf("%w: shorter than a header", ErrMalformed)
	errCount   = fmt.Errorf("%w: a block of 0 fragments", ErrMalformed)
	errIndex   = fmt.Errorf("%w: index at or beyond the number of fragments", ErrMalformed)
	errPadding = fmt.Errorf("%w: padding is not zero", ErrMalformed)
	errEmpty   = fmt.Errorf("%w: a fragment without data", ErrMalformed)
	errOver    = fmt.Errorf("%w: more than 1,024 bytes of data", ErrMalformed)
	errUnder   = fmt.Errorf("%w: less than 1,024 bytes of data before the last fragment", ErrMalformed)
	errEnd     = fmt.Errorf("%w: a regular packet without its end check", ErrMalformed)
)
