package sealed

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

const (
	// numberAt is where the packet number begins; what is sealed begins behind it, and is what the mask is made of. The shortest
	// packet has a byte of frames and the tag there, so that no sample is ever short.
	numberAt = 1 + idBytes
	// maskAt leaves out the byte of the mask that RFC 9001 has for flags of the first byte: ours has none.
	maskAt = 1
	// maskBytes are as many as the sample has: a block of AES.
	maskBytes = 16
)

// mask hides the packet numbers of one direction of a carrier (RFC 9001, section 5.4): in clear they would tell an observer
// that the packets of two addresses are of one connection, whatever their ids are. Its key is that of all generations. It is
// not safe for concurrent use.
type mask struct {
	masker
	bits [maskBytes]byte // scratch
}

// newMask derives the key from the secret of the first generation.
func newMask(s *suite, secret []byte) (*mask, error) {
	key, err := hkdf.Expand(sha256.New, secret, "quiver sealed hp", s.keyBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: mask: %w", err)
	}
	masker, err := s.masker(key)
	if err != nil {
		return nil, fmt.Errorf("sealed: mask: %w", err)
	}
	return &mask{masker: masker}, nil
}

// apply masks the number of header, or unmasks it. sealed is what lies behind the header of the packet.
func (m *mask) apply(header, sealed []byte) {
	m.mask(&m.bits, sealed[:maskBytes])
	for i := range numberBytes {
		header[numberAt+i] ^= m.bits[maskAt+i]
	}
}
