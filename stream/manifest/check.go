package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/quivernet/quiver/stream/cdc"
)

// A checker is the state of Check between two entries. It remembers only the previous path and
// the folders above it. That's enough, because entries come in the order of fs.WalkDir.
type checker struct {
	maxBytes int64    // limit of bytes; 0 = none
	bytes    int64    // size of the files so far
	previous string   // path of the previous entry; "" before the root
	dirs     []string // the folders above the previous entry, and the entry itself if it's a folder

	chunkSizes map[cdc.Digest]uint32 // sizes of the chunks so far
}

// checkEntry checks the next entry.
func (c *checker) checkEntry(e *Entry) error {
	if err := c.checkPlace(e); err != nil {
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
		return c.checkChunks(e)
	}
	return fmt.Errorf("unknown kind %d", e.Kind)
}

// checkPlace checks the path of e. The path must sort after the previous one, and lie in a folder
// that came before it.
func (c *checker) checkPlace(e *Entry) error {
	if c.previous == "" {
		c.previous = e.Path // the root, which Check itself checks
		return nil
	}
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	if comparePaths(c.previous, e.Path) >= 0 && c.previous != Root {
		return fmt.Errorf("entry is out of order after %.100q", c.previous)
	}

	// Leave the folders that the walk is done with.
	parent := path.Dir(e.Path)
	for len(c.dirs) > 0 && c.dirs[len(c.dirs)-1] != parent {
		c.dirs = c.dirs[:len(c.dirs)-1]
	}
	if len(c.dirs) == 0 {
		return fmt.Errorf("parent %.100q is not a folder", parent)
	}
	c.previous = e.Path
	return nil
}

// checkChunks checks the chunks of a file, and that its size is the sum of theirs.
func (c *checker) checkChunks(e *Entry) error {
	var size int64
	for _, chunk := range e.Chunks {
		if chunk.Size == 0 || chunk.Size > cdc.MaxChunk {
			return fmt.Errorf("chunk has %d bytes; it must have 1 to %d", chunk.Size, cdc.MaxChunk)
		}
		if known, ok := c.chunkSizes[chunk.Digest]; ok && known != chunk.Size {
			return fmt.Errorf("chunk %v has %d bytes in one file and %d in another", chunk.Digest, known, chunk.Size)
		}
		c.chunkSizes[chunk.Digest] = chunk.Size
		size += int64(chunk.Size)
	}
	if size != e.Size {
		return fmt.Errorf("file has %d bytes, but its chunks have %d", e.Size, size)
	}
	c.bytes += size
	if c.maxBytes > 0 && c.bytes > c.maxBytes {
		return fmt.Errorf("content exceeds the limit of %d bytes", c.maxBytes)
	}
	return nil
}

// CheckPath returns an error unless p can be the path of an entry other than the root: an
// [fs.ValidPath] other than ".", of at most [MaxPath] bytes and without a NUL.
func CheckPath(p string) error {
	switch {
	case len(p) > MaxPath:
		return fmt.Errorf("path has %d bytes; the limit is %d", len(p), MaxPath)
	case !utf8.ValidString(p):
		return errors.New("path is not valid UTF-8")
	case p == Root, !fs.ValidPath(p):
		return errors.New("path is not a clean relative path with slashes")
	case strings.ContainsRune(p, 0):
		return errors.New("path contains a NUL")
	}
	return nil
}

// checkTarget checks the target of a link. It doesn't check where the link leads, which is up to
// whoever creates it.
func checkTarget(target string) error {
	if target == "" || len(target) > MaxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0) {
		return fmt.Errorf("link target of %d bytes is invalid: it must be 1 to %d bytes of UTF-8 without a NUL",
			len(target), MaxPath)
	}
	return nil
}

// comparePaths orders paths as fs.WalkDir does: a folder's entries by name, and its content
// directly after the folder. For example, a, a/z, a-b are in order, so a slash must sort before
// all other bytes.
func comparePaths(a, b string) int {
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
