package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxPath bounds a path and a link's target in bytes: PATH_MAX of Linux, the largest among the systems.
	MaxPath = 4096

	// MaxEntries bounds the entries of a manifest: a world of a million files. An entry of a few bytes takes 25 times as many
	// when it is parsed.
	MaxEntries = 1 << 20
)

// ErrManifest means that bytes are no manifest, or that a manifest breaks a rule. The text says which.
var ErrManifest = errors.New("bad manifest")

// Check reports the first rule that m breaks: the root first and no other of its path; paths clean, relative and without
// ".."; sorted, each once, and what an entry is in is a folder; modes of permission bits, targets of links; chunks as large
// as chunks are, of one size for each digest, of the file's size together, and of no more bytes than most in all files, unless
// that is 0. Fields that a kind does not have it does not look at: the bytes of a manifest have them not.
func (m *Manifest) Check(most int64) error {
	c := checker{most: most, sizes: make(map[Digest]uint32)}
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
	sizes map[Digest]uint32
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
		if chunk.Size == 0 || chunk.Size > MaxChunk {
			return fmt.Errorf("a chunk of %d bytes, they have 1 to %d", chunk.Size, MaxChunk)
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

// CheckPath reports why p can be no path of an entry below the root.
func CheckPath(p string) error {
	switch {
	case len(p) > MaxPath:
		return fmt.Errorf("a path of %d bytes, the limit is %d", len(p), MaxPath)
	case p == Root, !fs.ValidPath(p):
		return errors.New("the path is not clean and relative, in UTF-8 and with slashes")
	case strings.ContainsRune(p, 0):
		return errors.New("the path has a NUL")
	}
	return nil
}

func checkTarget(target string) error {
	if target == "" || len(target) > MaxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0) {
		return fmt.Errorf("a link's target of %d bytes: it has 1 to %d, of UTF-8 and without a NUL", len(target), MaxPath)
	}
	return nil
}

// compare orders paths as a walk finds them: by name within a folder, and what is in a folder right behind the folder:
// a, a/z, a-b.
func compare(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }
