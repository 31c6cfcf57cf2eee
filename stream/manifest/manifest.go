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

// Root is the path of the first entry, which is the file or the folder itself.
const Root = "."

// A Manifest describes a file or a folder.
//
// [Parse] returns only manifests that keep the rules of [Manifest.Check]. A program that
// fills in a Manifest itself should call Check.
type Manifest struct {
	// Entries is in the order of fs.WalkDir: the root first, then the entries of a folder
	// by name, each folder followed by its content.
	Entries []Entry
}

// Kind says whether an entry is a file, a folder or a link.
type Kind uint8

// Kinds of entries. The values are part of the wire format.
const (
	File Kind = 1
	Dir  Kind = 2
	Link Kind = 3
)

// An Entry is a file, a folder or a link of the tree.
type Entry struct {
	Path string // relative to the root, with slashes on every system, as in package fs; "." for the root
	Kind Kind
	Mode fs.FileMode // permission bits; zero for a link
	Time int64       // time of the last modification, in nanoseconds since 1970; zero for a link

	// Target is a link's target, as it is in the sender's file system. It may lead
	// anywhere, so do not follow it.
	Target string

	Size   int64       // a file's size in bytes, the sum of its chunks' sizes
	Chunks []cdc.Chunk // a file's chunks, in order
}

// Count returns the number of files and the sum of their sizes in bytes. A chunk that
// several files share counts for each of them.
func (m *Manifest) Count() (files int, size int64) {
	for e := range m.files {
		files++
		size += e.Size
	}
	return files, size
}

// Chunks returns every chunk once, in the order in which they first appear.
// "Chunk 7 of the manifest" is Chunks()[7].
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

// chunkRefs returns the number of chunks in all files. A chunk that files share counts for
// each of them. It is the initial size of a map of chunks: a map that has to grow takes
// twice as long to fill.
func (m *Manifest) chunkRefs() (n int) {
	for e := range m.files {
		n += len(e.Chunks)
	}
	return n
}

// files yields the entries that are files. In other entries, Size and Chunks have no
// meaning and may have any value.
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

// Data returns the digest of m without modes and times, which not every file system
// preserves. Two manifests with the same Data have the same files, folders and links.
func (m *Manifest) Data() cdc.Digest {
	bare := Manifest{slices.Clone(m.Entries)}
	for i := range bare.Entries {
		bare.Entries[i].Mode = 0
		bare.Entries[i].Time = 0
	}
	return bare.Digest()
}

const (
	// MaxPath is the maximum size of a path, and of a link's target, in bytes. It is
	// PATH_MAX of Linux, the largest limit of any system.
	MaxPath = 4096

	// MaxEntries is the maximum number of entries in a manifest. It bounds the memory of a
	// manifest: a short entry takes up to 25 times as many bytes in memory as in the encoding.
	MaxEntries = 1 << 20
)

// ErrManifest means that bytes are not the encoding of a manifest, or that a manifest
// breaks a rule of [Manifest.Check]. The error that wraps it says which.
var ErrManifest = errors.New("bad manifest")

// Check returns an error that names the first of these rules that m breaks:
//
//   - The first entry is the root, a file or a folder. No other entry has its path.
//   - The other paths satisfy [CheckPath], follow the order of fs.WalkDir
//     without duplicates, and each lies in a folder that comes before it.
//   - A mode has only permission bits. A link has a target of at most [MaxPath] bytes.
//   - A chunk has 1 to [cdc.MaxChunk] bytes, and the same size wherever its
//     digest occurs. A file's Size is the sum of its chunks' sizes.
//   - There are at most [MaxEntries] entries.
//   - All files together have at most maxBytes bytes, unless maxBytes is 0.
//
// Check ignores fields that entries of a Kind do not have, because the encoding leaves them out.
func (m *Manifest) Check(maxBytes int64) error {
	c := checker{maxBytes: maxBytes, sizes: make(map[cdc.Digest]uint32, m.chunkRefs())}
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

// A checker is the state of Check between two entries.
type checker struct {
	maxBytes int64  // maximum for bytes; 0 = no limit
	bytes    int64  // size of the files so far
	last     string // path of the previous entry; "" before the root
	// dirs has the folders that contain the previous entry, the root first. It also has
	// that entry if it is a folder.
	dirs  []string
	sizes map[cdc.Digest]uint32 // sizes of the chunks so far
}

// entry checks the next entry.
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

// place checks the path of e. The path must come after the previous one, and lie in a
// folder that came before.
func (c *checker) place(e *Entry) error {
	if c.last == "" {
		c.last = e.Path // the root, which Check itself checks
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

// chunks checks the chunks and the size of a file.
func (c *checker) chunks(e *Entry) error {
	var size int64
	for _, chunk := range e.Chunks {
		if chunk.Size == 0 || chunk.Size > cdc.MaxChunk {
			return fmt.Errorf("a chunk of %d bytes, they have 1 to %d", chunk.Size, cdc.MaxChunk)
		}
		if known, ok := c.sizes[chunk.Digest]; ok && known != chunk.Size {
			return fmt.Errorf("chunk %v of %d bytes and of %d", chunk.Digest, known, chunk.Size)
		}
		c.sizes[chunk.Digest] = chunk.Size
		size += int64(chunk.Size)
	}
	if size != e.Size {
		return fmt.Errorf("%d bytes, its chunks have %d", e.Size, size)
	}
	c.bytes += size
	if c.maxBytes > 0 && c.bytes > c.maxBytes {
		return fmt.Errorf("more bytes than the limit of %d", c.maxBytes)
	}
	return nil
}

// CheckPath returns an error unless p can be the path of an entry other than the root. Such
// a path is an [fs.ValidPath] other than ".", has no NUL, and has at most [MaxPath] bytes.
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

// notWindows matches names that Windows refuses, names whose last dot or space it drops,
// and names that it takes for a device, whatever their extension.
var notWindows = regexp.MustCompile(`[\x00-\x1f<>:"|?*\\]` + `|[. ]$` +
	`|^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)

// NotOnWindows returns the paths whose last element cannot be a file name on Windows.
// Windows refuses such a name, drops its last dot or space, or takes it for a device.
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

// checkTarget checks the target of a link.
func checkTarget(target string) error {
	if target == "" || len(target) > MaxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0) {
		return fmt.Errorf("a link's target of %d bytes: it has 1 to %d, of UTF-8 and without a NUL",
			len(target), MaxPath)
	}
	return nil
}

// compare orders paths as fs.WalkDir does: a folder's entries by name, and its content
// directly after the folder. The order is a, a/z, a-b, for example. So a slash sorts
// before all other bytes.
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

// The encoding of a manifest. Numbers are varints of encoding/binary, in their shortest form:
//
//	version   1 byte, 1
//	entries   uvarint
//	entry     path, kind (1 byte), then, by kind:
//	  folder  mode uvarint, time varint
//	  file    mode uvarint, time varint, chunks uvarint, and for each chunk its digest (32 bytes) and size uvarint
//	  link    target
//	path, target: length uvarint, bytes
//
// The size of a file is not encoded: it is the sum of its chunks' sizes.
// Nothing may follow the last entry.
const wireVersion = 1

// The minimum sizes of an entry (path 2, kind 1, target 2) and of a chunk (digest 32, size
// 1). A count in the encoding can be no larger than the bytes that follow it, divided by
// these sizes. This bounds what Parse allocates for a count.
const (
	minEntry     = 5
	minWireChunk = len(cdc.Digest{}) + 1
)

// Append appends the encoding of m to b. m must keep the rules of [Manifest.Check].
func (m *Manifest) Append(b []byte) []byte {
	b = append(b, wireVersion)
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	for i := range m.Entries {
		b = appendEntry(b, &m.Entries[i])
	}
	return b
}

// appendEntry appends the encoding of e to b.
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

// Parse decodes a manifest. It returns an error that wraps [ErrManifest] if b is not the
// encoding of a manifest, or if the manifest breaks a rule of [Manifest.Check]. Parse
// passes maxBytes to Check.
//
// Append of the manifest yields b again. The manifest does not refer to b.
func Parse(b []byte, maxBytes int64) (*Manifest, error) {
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
	if err := m.Check(maxBytes); err != nil {
		return nil, err
	}
	return m, nil
}

// parseEntry decodes an entry into e, which is invalid if r.Err is set. It does not check
// that numbers are in their shortest form. Parse does that by encoding the manifest again.
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
