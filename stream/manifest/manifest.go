package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"

	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/stream/cdc"
)

// Root is the path of the first entry, which is the described file or folder itself.
const Root = "."

// A Manifest describes a file or a folder as a list of entries.
//
// [Parse] returns only manifests that follow the rules of [Manifest.Check]. A program that fills
// in a Manifest itself should call Check.
type Manifest struct {
	// Entries are in the order of fs.WalkDir: the root first, then the entries of each folder
	// by name, and every folder followed by its content.
	Entries []Entry
}

// Kind says whether an entry is a file, a folder or a link.
type Kind uint8

// Kinds of entries. Their values are part of the encoding.
const (
	File Kind = 1
	Dir  Kind = 2
	Link Kind = 3
)

// An Entry is a file, a folder or a link of the tree.
type Entry struct {
	// Path is relative to the root, with slashes on every system as in package fs. The root's
	// path is ".".
	Path string
	Kind Kind
	Mode fs.FileMode // permission bits; zero for a link
	Time int64       // time of the last modification, in nanoseconds since 1970; zero for a link

	// Target is what a link contains in the sender's file system. It may lead anywhere, so do
	// not follow it.
	Target string

	Size   int64       // a file's size in bytes, the sum of its chunks' sizes
	Chunks []cdc.Chunk // a file's chunks, in order
}

// Count returns the number of files and the sum of their sizes in bytes. A chunk that several
// files share counts for each of them.
func (m *Manifest) Count() (files int, size int64) {
	for e := range m.files {
		files++
		size += e.Size
	}
	return files, size
}

// Chunks returns every chunk once, in the order of first appearance. "Chunk 7 of the manifest"
// is Chunks()[7].
func (m *Manifest) Chunks() []cdc.Chunk {
	var chunks []cdc.Chunk
	seen := make(map[cdc.Digest]struct{}, m.chunkRefs())
	for e := range m.files {
		for _, c := range e.Chunks {
			if _, ok := seen[c.Digest]; !ok {
				seen[c.Digest] = struct{}{}
				chunks = append(chunks, c)
			}
		}
	}
	return chunks
}

// chunkRefs returns the total number of chunks of all files. A chunk that several files share
// counts for each of them. Maps of chunks are created with this size, because a map that has to
// grow takes twice as long to fill.
func (m *Manifest) chunkRefs() (n int) {
	for e := range m.files {
		n += len(e.Chunks)
	}
	return n
}

// files yields the entries that are files. In other entries, Size and Chunks have no meaning and
// may have any value.
func (m *Manifest) files(yield func(*Entry) bool) {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File && !yield(e) {
			return
		}
	}
}

// Digest returns the digest of the manifest's encoding. Manifests with the same digest
// describe the same file or folder.
func (m *Manifest) Digest() cdc.Digest { return cdc.Sum(m.Append(nil)) }

// Data returns the digest of m without modes and times, which not every file system preserves.
// Two manifests with the same Data have the same files, folders and links.
func (m *Manifest) Data() cdc.Digest {
	bare := Manifest{slices.Clone(m.Entries)}
	for i := range bare.Entries {
		bare.Entries[i].Mode = 0
		bare.Entries[i].Time = 0
	}
	return bare.Digest()
}

const (
	// MaxPath limits the bytes of a path and of a link's target. It is PATH_MAX of Linux, the
	// largest limit of any system.
	MaxPath = 4096

	// MaxEntries limits the number of entries in a manifest, and thereby its memory: a short
	// entry takes up to 25 times as many bytes in memory as in the encoding.
	MaxEntries = 1 << 20
)

// ErrManifest means that bytes are not the encoding of a manifest, or that a manifest breaks a
// rule of [Manifest.Check]. The error that wraps it says which.
var ErrManifest = errors.New("bad manifest")

// Check returns an error that names the first of these rules that m breaks:
//
//   - The first entry is the root, a file or a folder. No other entry has the root's path.
//   - The other paths satisfy [CheckPath], follow the order of fs.WalkDir
//     without duplicates, and each lies in a folder that comes before it.
//   - A mode has only permission bits. A link has a target of at most [MaxPath] bytes.
//   - A chunk has 1 to [cdc.MaxChunk] bytes, and the same size wherever its
//     digest occurs. A file's Size is the sum of its chunks' sizes.
//   - There are at most [MaxEntries] entries.
//   - All files together have at most maxBytes bytes, unless maxBytes is 0.
//
// Check ignores fields that don't apply to an entry's Kind, because the encoding leaves them out.
func (m *Manifest) Check(maxBytes int64) error {
	c := checker{maxBytes: maxBytes, chunkSizes: make(map[cdc.Digest]uint32, m.chunkRefs())}
	if len(m.Entries) > MaxEntries {
		return fmt.Errorf("%w: %d entries; the limit is %d", ErrManifest, len(m.Entries), MaxEntries)
	}
	if len(m.Entries) == 0 || m.Entries[0].Path != Root || m.Entries[0].Kind == Link {
		return fmt.Errorf("%w: first entry is not the root, which must be a file or a folder", ErrManifest)
	}
	for i := range m.Entries {
		if err := c.checkEntry(&m.Entries[i]); err != nil {
			return fmt.Errorf("%w: entry %d, %.100q: %w", ErrManifest, i, m.Entries[i].Path, err)
		}
	}
	return nil
}

// notWindows matches names that Windows refuses, names whose last dot or space it drops, and
// names that it takes for a device whatever their extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]` + `|[. ]$` +
	`|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// NotOnWindows returns the paths whose last element cannot be a file name on Windows, which
// refuses such a name, drops its last dot or space, or takes it for a device.
//
// It does not find names that are too long for Windows, or that differ only in case.
func (m *Manifest) NotOnWindows() (paths []string) {
	for i := range m.Entries {
		if p := m.Entries[i].Path; p != Root && notWindows.MatchString(path.Base(p)) {
			paths = append(paths, p)
		}
	}
	return paths
}

// # Encoding

// wireVersion is the version of the encoding. Numbers are varints of encoding/binary, in their
// shortest form:
//
//	version   1 byte, 1
//	entries   uvarint
//	entry     path, kind (1 byte), then, by kind:
//	  folder  mode uvarint, time varint
//	  file    mode uvarint, time varint, chunks uvarint, and for each chunk
//	          its digest (32 bytes) and size uvarint
//	  link    target
//	path, target: length uvarint, bytes
//
// The size of a file isn't encoded, because it's the sum of its chunks' sizes. Nothing may follow
// the last entry.
const wireVersion = 1

// Minimum sizes of an entry and a chunk in the encoding. Parse allocates memory for a number of
// items before it has read them, so it must know that the remaining bytes can hold that many.
const (
	minEntry     = 2 + 1 + 2 // path, kind, target
	minWireChunk = len(cdc.Digest{}) + 1
)

// Append appends the encoding of m to b. m must follow the rules of [Manifest.Check].
func (m *Manifest) Append(b []byte) []byte {
	b = append(b, wireVersion)
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	for i := range m.Entries {
		b = appendEntry(b, &m.Entries[i])
	}
	return b
}

// appendEntry appends the encoding of e. parseEntry is its counterpart.
func appendEntry(b []byte, e *Entry) []byte {
	b = append(wire.AppendBytes(b, e.Path), byte(e.Kind))
	if e.Kind == Link {
		return wire.AppendBytes(b, e.Target)
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

// Parse decodes a manifest. It returns an error that wraps [ErrManifest] if b is not the encoding
// of a manifest, or if the manifest breaks a rule of [Manifest.Check], which Parse calls with
// maxBytes.
//
// Append turns the manifest into b again. The manifest does not refer to b's memory.
func Parse(b []byte, maxBytes int64) (*Manifest, error) {
	r := wire.Reader{Left: b}
	if version := r.Byte(); r.Err == nil && version != wireVersion {
		return nil, fmt.Errorf("%w: version %d is not supported; the supported version is %d", ErrManifest, version, wireVersion)
	}
	m := &Manifest{Entries: make([]Entry, r.Count(MaxEntries, minEntry))}
	for i := range m.Entries {
		parseEntry(&r, &m.Entries[i])
	}
	if r.Err != nil {
		return nil, fmt.Errorf("%w: truncated or malformed: %w", ErrManifest, r.Err)
	}

	// A manifest must have only one encoding, because its digest names it. This check also finds
	// numbers that are not in their shortest form.
	if !bytes.Equal(m.Append(nil), b) {
		return nil, fmt.Errorf("%w: encoding is not canonical, or is followed by other data", ErrManifest)
	}
	if err := m.Check(maxBytes); err != nil {
		return nil, err
	}
	return m, nil
}

// parseEntry decodes an entry into e. If r.Err is set afterwards, e is invalid.
func parseEntry(r *wire.Reader, e *Entry) {
	e.Path = string(r.Bytes(MaxPath))
	e.Kind = Kind(r.Byte())
	if e.Kind == Link {
		e.Target = string(r.Bytes(MaxPath))
		return
	}
	e.Mode = fs.FileMode(r.Uvarint(math.MaxUint32))
	e.Time = r.Varint()
	if e.Kind != File {
		return
	}
	if n := r.Count(math.MaxInt, minWireChunk); n > 0 {
		e.Chunks = make([]cdc.Chunk, n)
	}
	for i := range e.Chunks {
		c := &e.Chunks[i]
		copy(c.Digest[:], r.Take(len(c.Digest)))
		c.Size = uint32(r.Uvarint(math.MaxUint32))
		e.Size += int64(c.Size)
	}
}
