package cdc

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// Chunk names a part of some content, and does not hold its bytes.
type Chunk struct {
	Digest Digest // BLAKE3 of its bytes
	Size   uint32 // 1 to [MaxChunk]
}

// Digest is the BLAKE3 of some bytes, 32 bytes long, by which they are named.
type Digest [32]byte

// Sum returns the digest of data.
func Sum(data []byte) Digest { return blake3.Sum256(data) }

// String returns 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MaxEncodedSize is how long a digest is as an argument of package rpc, which carries its text.
func (Digest) MaxEncodedSize() int { return hex.EncodedLen(len(Digest{})) }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != d.MaxEncodedSize() {
		return fmt.Errorf("cdc: a digest of %d characters; one has %d hex digits", len(text), d.MaxEncodedSize())
	}
	_, err := hex.Decode(d[:], text)
	return err
}
