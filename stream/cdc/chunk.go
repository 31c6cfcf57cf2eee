package cdc

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// Chunk is a piece of a content.
type Chunk struct {
	Digest Digest // BLAKE3 of its bytes
	Size   uint32 // 1 to [MaxChunk]
}

// Digest names bytes by their BLAKE3, 32 bytes of it.
type Digest [32]byte

// Sum returns the digest of data.
func Sum(data []byte) Digest { return blake3.Sum256(data) }

// String returns 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MaxEncodedSize bounds a digest that package rpc carries, as the text of it.
func (Digest) MaxEncodedSize() int { return hex.EncodedLen(len(Digest{})) }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != d.MaxEncodedSize() {
		return fmt.Errorf("a digest of %d characters, it has %d", len(text), d.MaxEncodedSize())
	}
	_, err := hex.Decode(d[:], text)
	return err
}
