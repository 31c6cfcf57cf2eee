package manifest

import (
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/zeebo/blake3"
)

// Root is the path of the first entry: the save itself.
const Root = "."

// Manifest is what a version holds. One that was scanned or parsed keeps the rules of [Manifest.Check].
type Manifest struct {
	Entries []Entry // the root first, then as a walk finds them: by name, what is in a folder right behind it
}

// Kind is what an entry is.
type Kind uint8

// The values stand on the wire.
const (
	File Kind = 1
	Dir  Kind = 2
	Link Kind = 3
)

// Entry is a file, a folder or a link of the tree.
type Entry struct {
	Path   string // relative to the root and with slashes on every system; the root's is "."
	Kind   Kind
	Mode   fs.FileMode // permission bits; zero of a link
	Time   int64       // of the last modification, in nanoseconds since 1970; zero of a link
	Target string      // of a link, as it stands there: it may lead anywhere, and nobody may follow it
	Size   int64       // of a file, in bytes; the sum of its chunks' sizes
	Chunks []Chunk     // of a file, in order
}

// Chunk is a piece of a file.
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

// Count returns how many entries are files, and how many bytes those have together.
func (m *Manifest) Count() (files int, bytes int64) {
	for i := range m.Entries {
		bytes += m.Entries[i].Size
		if m.Entries[i].Kind == File {
			files++
		}
	}
	return files, bytes
}

// Chunks returns every chunk once, in the order in which they first appear. "Chunk 7 of the manifest" is Chunks()[7].
func (m *Manifest) Chunks() []Chunk {
	var chunks []Chunk
	seen := make(map[Digest]struct{})
	for i := range m.Entries {
		for _, c := range m.Entries[i].Chunks {
			if _, again := seen[c.Digest]; !again {
				seen[c.Digest] = struct{}{}
				chunks = append(chunks, c)
			}
		}
	}
	return chunks
}

// Digest names the content: two manifests of one digest hold the same.
func (m *Manifest) Digest() Digest { return Sum(m.Append(nil)) }
