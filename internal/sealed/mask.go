package sealed

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

const (
	// numberAt is the offset of the packet number in the header. The sealed bytes follow the
	// number, and the first of them are the sample for the mask. There are always enough of them,
	// because even the shortest packet has one byte of frames and a tag of 16 bytes.
	numberAt = 1 + idBytes
	// maskAt skips the byte of the mask that RFC 9001 uses for the flags in a packet's first
	// byte, since sealed packets have no flags.
	maskAt = 1
	// maskBytes is the size of the sample and of the mask: one block of AES.
	maskBytes = 16
)

// A mask hides the packet numbers of one direction of a carrier (RFC 9001, section 5.4). If
// they were sent in the clear, an observer could use them to tell that packets of two addresses
// belong to the same connection, although their ids differ.
//
// As in RFC 9001, all generations use the same mask. A mask is not safe for concurrent use.
type mask struct {
	compute masker
	bits    [maskBytes]byte // scratch space of apply
}

// newMask derives the mask's key from the secret of the first generation.
func newMask(s *suite, secret []byte) (*mask, error) {
	key, err := hkdf.Expand(sha256.New, secret, "quiver sealed hp", s.keyBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: deriving mask key: %w", err)
	}
	masker, err := s.masker(key)
	if err != nil {
		return nil, fmt.Errorf("sealed: making mask: %w", err)
	}
	return &mask{compute: masker}, nil
}

// apply masks or unmasks the number in header. sealed is the rest of the packet.
func (m *mask) apply(header, sealed []byte) {
	m.compute(&m.bits, sealed[:maskBytes])
	for i := range numberBytes {
		header[numberAt+i] ^= m.bits[maskAt+i]
	}
}
