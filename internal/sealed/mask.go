package sealed

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

const (
	// numberAt is the offset of the packet number in the header. The sealed bytes follow the number; the first of them are the sample from
	// which the mask is made. The shortest packet has one byte of frames and the tag of 16, so the sample is never short.
	numberAt = 1 + idBytes
	// maskAt skips the byte of the mask that RFC 9001 uses for flags in the first byte: sealed packets have none.
	maskAt = 1
	// maskBytes is the size of the sample, and of the mask: a block of AES.
	maskBytes = 16
)

// mask hides the packet numbers of one direction of a carrier (RFC 9001, section 5.4). In clear they would show an observer that
// packets of two addresses belong to one connection, whatever their ids are. One key serves all generations, as in RFC 9001. A mask is
// not safe for concurrent use.
type mask struct {
	compute masker
	bits    [maskBytes]byte // scratch
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
	return &mask{compute: masker}, nil
}

// apply masks the number in header, or unmasks it. sealed are the bytes behind the header.
func (m *mask) apply(header, sealed []byte) {
	m.compute(&m.bits, sealed[:maskBytes])
	for i := range numberBytes {
		header[numberAt+i] ^= m.bits[maskAt+i]
	}
}
