package cdc

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// A Chunk names a piece of content. It does not hold the bytes.
type Chunk struct {
	Digest Digest // digest of the bytes
	Size   uint32 // number of bytes, 1 to [MaxChunk]
}

// A Digest is a BLAKE3 digest, which names the bytes from which it was computed.
type Digest [32]byte

// Sum returns the digest of data.
func Sum(data []byte) Digest { return blake3.Sum256(data) }

// String returns the digest as 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MaxEncodedSize returns the size of a digest as an argument in package rpc,
// which encodes its text.
func (Digest) MaxEncodedSize() int { return hex.EncodedLen(len(Digest{})) }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != d.MaxEncodedSize() {
		return fmt.Errorf("cdc: digest has %d characters; it must have %d hex digits", len(text), d.MaxEncodedSize())
	}
	_, err := hex.Decode(d[:], text)
	return err
}
