package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// The bytes of a manifest, numbers as in encoding/binary's varints and in their shortest form:
//
//	version   1 byte, 1
//	entries   uvarint
//	entry     path, kind (1 byte), then of its kind
//	  folder  mode uvarint, time varint
//	  file    mode uvarint, time varint, chunks uvarint, and of each its digest (32 bytes) and size uvarint
//	  link    target
//	path, target: length uvarint, bytes
//
// A file's size is the sum of its chunks'. Nothing may follow the last entry.
const wireVersion = 1

// minEntry is how many bytes an entry has at least: path 2, kind 1, target 2. It bounds what a count makes Parse allocate.
const minEntry = 5

// minWireChunk is the same of a chunk: 32 and 1.
const minWireChunk = len(Digest{}) + 1

// Append appends the bytes of m, which keeps the rules of [Manifest.Check].
func (m *Manifest) Append(b []byte) []byte {
	b = append(b, wireVersion)
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	for i := range m.Entries {
		b = appendEntry(b, &m.Entries[i])
	}
	return b
}

func appendEntry(b []byte, e *Entry) []byte {
	b = append(appendString(b, e.Path), byte(e.Kind))
	if e.Kind == Link {
		return appendString(b, e.Target)
	}
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.Time)
	if e.Kind == Dir {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(e.Chunks)))
	for _, c := range e.Chunks {
		b = binary.AppendUvarint(append(b, c.Digest[:]...), uint64(c.Size))
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Parse returns the manifest whose bytes b are. It keeps the rules of [Manifest.Check], with the same limit, and nothing of b. Appending it
// gives b again.
func Parse(b []byte, most int64) (*Manifest, error) {
	p := parser{b: b}
	if version := p.uvarint(); p.err == nil && version != wireVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows %d", ErrManifest, version, wireVersion)
	}
	m := &Manifest{Entries: make([]Entry, p.count(MaxEntries, minEntry))}
	for i := range m.Entries {
		p.entry(&m.Entries[i])
	}
	if p.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, p.err)
	}
	if !bytes.Equal(m.Append(nil), b) {
		return nil, fmt.Errorf("%w: it is not in its one form, or has %d bytes too many", ErrManifest, len(p.b))
	}
	return m, m.Check(most)
}

// parser takes bytes from the front of b. After the first error it returns zeros. That numbers are in their shortest form
// and not too large for their field Parse sees by what it would write.
type parser struct {
	b   []byte
	err error
}

var errShort = errors.New("it ends too early")

func (p *parser) entry(e *Entry) {
	e.Path, e.Kind = p.string(), Kind(p.uvarint())
	if e.Kind == Link {
		e.Target = p.string()
		return
	}
	e.Mode, e.Time = fs.FileMode(p.uvarint()), p.varint()
	if e.Kind != File {
		return
	}
	if n := p.count(math.MaxInt, minWireChunk); n > 0 {
		e.Chunks = make([]Chunk, n)
	}
	for i := range e.Chunks {
		c := &e.Chunks[i]
		copy(c.Digest[:], p.take(len(c.Digest)))
		c.Size = uint32(p.uvarint())
		e.Size += int64(c.Size)
	}
}

// fail notes the first error.
func (p *parser) fail(err error) {
	if p.err == nil {
		p.err, p.b = err, nil
	}
}

// take returns the next n bytes, or nil.
func (p *parser) take(n int) []byte {
	if n > len(p.b) {
		p.fail(errShort)
		return nil
	}
	taken := p.b[:n]
	p.b = p.b[n:]
	return taken
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.fail(errShort)
		return 0
	}
	p.b = p.b[n:]
	return v
}

// varint is an uvarint whose lowest bit is the sign.
func (p *parser) varint() int64 {
	v := p.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// count returns how many things of at least size bytes follow: no more than the limit, and than there are bytes for.
func (p *parser) count(limit, size int) int {
	n := p.uvarint()
	switch {
	case n > uint64(limit):
		p.fail(fmt.Errorf("%d of something, the limit is %d", n, limit))
	case n > uint64(len(p.b)/size):
		p.fail(errShort)
	default:
		return int(n)
	}
	return 0
}

func (p *parser) string() string { return string(p.take(p.count(MaxPath, 1))) }
