package manifest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/stream/cdc"
)

// Root is the path of the first entry: the file or the folder itself.
const Root = "."

// Manifest describes a file or a folder. One that was parsed keeps the rules of [Manifest.Check]; who makes one calls that.
type Manifest struct {
	Entries []Entry // the root first, then as fs.WalkDir finds them: by name, what is in a folder right behind it
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
	Path   string // relative to the root and with slashes on every system, as in package fs; the root's is "."
	Kind   Kind
	Mode   fs.FileMode // permission bits; zero of a link
	Time   int64       // of the last modification, in nanoseconds since 1970; zero of a link
	Target string      // of a link, as it stands there: it may lead anywhere, so do not follow it
	Size   int64       // of a file, in bytes; the sum of its chunks' sizes
	Chunks []cdc.Chunk // of a file, in order
}

// Count returns how many entries are files, and how many bytes, size, those have together. A chunk that several have counts for each.
func (m *Manifest) Count() (files int, size int64) {
	for e := range m.files {
		files++
		size += e.Size
	}
	return files, size
}

// Chunks returns every chunk once, in the order in which they first appear. "Chunk 7 of the manifest" is Chunks()[7].
func (m *Manifest) Chunks() []cdc.Chunk {
	var chunks []cdc.Chunk
	seen := make(map[cdc.Digest]struct{}, m.named())
	for e := range m.files {
		for _, c := range e.Chunks {
			if _, again := seen[c.Digest]; !again {
				seen[c.Digest] = struct{}{}
				chunks = append(chunks, c)
			}
		}
	}
	return chunks
}

// named returns how many chunks the files name, however often each: room for all of them, for a map that grows takes twice as long.
func (m *Manifest) named() (n int) {
	for e := range m.files {
		n += len(e.Chunks)
	}
	return n
}

// files yields the entries that are files. Of others Size and Chunks mean nothing, and Check does not look at them.
func (m *Manifest) files(yield func(*Entry) bool) {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File && !yield(e) {
			return
		}
	}
}

// Digest returns the digest of the manifest's bytes: manifests with the same digest describe the same content.
func (m *Manifest) Digest() cdc.Digest { return cdc.Sum(m.Append(nil)) }

// Data returns a digest of m without modes and times, which not every file system keeps: manifests with the same one have the same files, folders
// and links.
func (m *Manifest) Data() cdc.Digest {
	bare := Manifest{slices.Clone(m.Entries)}
	for i := range bare.Entries {
		bare.Entries[i].Mode, bare.Entries[i].Time = 0, 0
	}
	return bare.Digest()
}

const (
	// MaxPath bounds a path and a link's target in bytes: PATH_MAX of Linux, the largest among the systems.
	MaxPath = 4096

	// MaxEntries bounds the entries of a manifest: a world of a million files. An entry of a few bytes takes up to 25 times as
	// many once it is parsed.
	MaxEntries = 1 << 20
)

// ErrManifest means that bytes are no manifest, or that a manifest breaks a rule. The text says which.
var ErrManifest = errors.New("bad manifest")

// Check reports the first of these rules that m breaks:
//
//   - The root stands first, is a file or a folder, and no other entry has its path.
//   - Other paths keep to [CheckPath], stand in the order of a walk, each once, and in a folder that stands before them.
//   - A mode has permission bits only, and a link has a target, of at most [MaxPath] bytes.
//   - A chunk has 1 to [cdc.MaxChunk] bytes, and the same size wherever its digest stands; a file's Size is the sum of its chunks'.
//   - There are at most [MaxEntries] entries, and all files together have at most most bytes; 0: no limit.
//
// It does not look at fields that an entry of that Kind does not have, for the bytes of a manifest leave them out.
func (m *Manifest) Check(most int64) error {
	c := checker{most: most, sizes: make(map[cdc.Digest]uint32, m.named())}
	if len(m.Entries) > MaxEntries {
		return fmt.Errorf("%w: %d entries, the limit is %d", ErrManifest, len(m.Entries), MaxEntries)
	}
	if len(m.Entries) == 0 || m.Entries[0].Path != Root || m.Entries[0].Kind == Link {
		return fmt.Errorf("%w: it does not begin with its root, a file or a folder", ErrManifest)
	}
	for i := range m.Entries {
		if err := c.entry(&m.Entries[i]); err != nil {
			return fmt.Errorf("%w: entry %d, %.100q: %w", ErrManifest, i, m.Entries[i].Path, err)
		}
	}
	return nil
}

// checker goes over the entries in order.
type checker struct {
	most  int64    // bytes; 0: no limit
	bytes int64    // of the files so far
	last  string   // the path before
	dirs  []string // the folders that are open at last, the root first
	sizes map[cdc.Digest]uint32
}

func (c *checker) entry(e *Entry) error {
	if err := c.place(e); err != nil {
		return err
	}
	if e.Mode&^fs.ModePerm != 0 {
		return fmt.Errorf("mode %#o has more than permission bits", uint32(e.Mode))
	}
	switch e.Kind {
	case Dir:
		c.dirs = append(c.dirs, e.Path)
		return nil
	case Link:
		return checkTarget(e.Target)
	case File:
		return c.chunks(e)
	}
	return fmt.Errorf("kind %d is unknown", e.Kind)
}

// place checks the path, and that it stands behind the one before and in a folder.
func (c *checker) place(e *Entry) error {
	if c.last == "" {
		c.last = e.Path // the root, which Check has seen
		return nil
	}
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	if compare(c.last, e.Path) >= 0 && c.last != Root {
		return fmt.Errorf("it stands behind %.100q", c.last)
	}
	parent := path.Dir(e.Path)
	for len(c.dirs) > 0 && c.dirs[len(c.dirs)-1] != parent {
		c.dirs = c.dirs[:len(c.dirs)-1]
	}
	if len(c.dirs) == 0 {
		return fmt.Errorf("%.100q, which it is in, is no folder", parent)
	}
	c.last = e.Path
	return nil
}

func (c *checker) chunks(e *Entry) error {
	var size int64
	for _, chunk := range e.Chunks {
		if chunk.Size == 0 || chunk.Size > cdc.MaxChunk {
			return fmt.Errorf("a chunk of %d bytes, they have 1 to %d", chunk.Size, cdc.MaxChunk)
		}
		if known, again := c.sizes[chunk.Digest]; again && known != chunk.Size {
			return fmt.Errorf("chunk %v of %d bytes and of %d", chunk.Digest, known, chunk.Size)
		}
		c.sizes[chunk.Digest] = chunk.Size
		size += int64(chunk.Size)
	}
	if size != e.Size {
		return fmt.Errorf("%d bytes, its chunks have %d", e.Size, size)
	}
	if c.bytes += size; c.most > 0 && c.bytes > c.most {
		return fmt.Errorf("more bytes than the limit of %d", c.most)
	}
	return nil
}

// CheckPath reports why p cannot be the path of an entry below the root: it is not an [fs.ValidPath], has a NUL, or more than [MaxPath] bytes.
func CheckPath(p string) error {
	switch {
	case len(p) > MaxPath:
		return fmt.Errorf("a path of %d bytes, the limit is %d", len(p), MaxPath)
	case !utf8.ValidString(p):
		return errors.New("the path is not UTF-8")
	case p == Root, !fs.ValidPath(p):
		return errors.New("the path is not clean and relative, with slashes")
	case strings.ContainsRune(p, 0):
		return errors.New("the path has a NUL")
	}
	return nil
}

// notWindows fits what Windows refuses, drops the end of, or takes for a device, with any extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]|[. ]$|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// NotOnWindows returns the paths of which Windows cannot hold the last name: it refuses it, drops its end, or takes it for a device. It does not
// tell names that are too long there, or that differ only in upper and lower case.
func (m *Manifest) NotOnWindows() (paths []string) {
	for i := range m.Entries {
		if p := m.Entries[i].Path; p != Root && notWindows.MatchString(path.Base(p)) {
			paths = append(paths, p)
		}
	}
	return paths
}

func checkTarget(target string) error {
	if target == "" || len(target) > MaxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0) {
		return fmt.Errorf("a link's target of %d bytes: it has 1 to %d, of UTF-8 and without a NUL", len(target), MaxPath)
	}
	return nil
}

// compare orders paths as a walk finds them: by name within a folder, and what is in a folder right behind the folder:
// a, a/z, a-b.
func compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

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
const minWireChunk = len(cdc.Digest{}) + 1

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

// Parse returns the manifest whose bytes b are. It fails with [ErrManifest] when they are none, or break a rule of [Manifest.Check], which has the
// same most. The manifest keeps no part of b, and Append gives b again.
func Parse(b []byte, most int64) (*Manifest, error) {
	r := wire.Reader{Left: b}
	if version := r.Byte(); r.Err == nil && version != wireVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows %d", ErrManifest, version, wireVersion)
	}
	m := &Manifest{Entries: make([]Entry, r.Count(MaxEntries, minEntry))}
	for i := range m.Entries {
		parseEntry(&r, &m.Entries[i])
	}
	if r.Err != nil {
		return nil, fmt.Errorf("%w: it cannot be read to its end: %w", ErrManifest, r.Err)
	}
	if !bytes.Equal(m.Append(nil), b) {
		return nil, fmt.Errorf("%w: it is not in its one form, or there is something behind it", ErrManifest)
	}
	if err := m.Check(most); err != nil {
		return nil, err
	}
	return m, nil
}

// parseEntry takes an entry; after a failure it is of no use. That numbers are in their shortest form Parse sees by what it would write.
func parseEntry(r *wire.Reader, e *Entry) {
	e.Path, e.Kind = string(r.Bytes(MaxPath)), Kind(r.Byte())
	if e.Kind == Link {
		e.Target = string(r.Bytes(MaxPath))
		return
	}
	e.Mode, e.Time = fs.FileMode(r.Uvarint(math.MaxUint32)), r.Varint()
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
