package tree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// A Source is the result of a scan: the manifest, and access to the bytes of its chunks. The
// chunks are read from the files on demand, which works as long as the files do not change. A
// Source is safe for concurrent use, except for Close.
type Source struct {
	Manifest *manifest.Manifest
	Notes    []Note

	roots  []location            // the paths given to Scan, open until Close
	chunks map[cdc.Digest]piece  // where each chunk can be read
	held   map[cdc.Digest][]byte // chunks kept in memory (ScanOptions.Hold)
}

// A piece is the location of a chunk in a file. If several files contain the chunk, it's the
// file that was read last.
type piece struct {
	location
	offset int64
}

// Chunk reads a chunk of the manifest, into buffer if it fits. If the bytes have changed since
// the scan, the error wraps [ErrChanged] and names the file.
func (s *Source) Chunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	buffer, err := s.ReadChunk(buffer, c)
	if err == nil && cdc.Sum(buffer) != c.Digest {
		err = fmt.Errorf("file %s: %w", s.chunks[c.Digest], ErrChanged)
	}
	return buffer, err
}

// ReadChunk is Chunk without the verification, so it may return bytes that have changed. It
// saves the hash computation for chunks that the other end verifies anyway. If the bytes cannot
// be read, the error wraps [ErrChanged] and names the file.
func (s *Source) ReadChunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	at, ok := s.chunks[c.Digest]
	if !ok {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	if data, ok := s.held[c.Digest]; ok {
		return append(buffer[:0], data...), nil
	}
	buffer = slices.Grow(buffer[:0], int(c.Size))[:c.Size]
	f, _, err := at.open()
	if err == nil {
		_, err = f.ReadAt(buffer, at.offset)
		_ = f.Close() // nothing was written
	}
	if err == nil {
		return buffer, nil
	}
	// The scan was able to read the file. If it can't be read now, somebody has changed it,
	// unless this machine is out of resources.
	err = reason(err)
	if !outOfResources(err) {
		err = errors.Join(ErrChanged, err)
	}
	return nil, fmt.Errorf("file %s: %w", at, err)
}

// Close closes the folders. The manifest and the notes remain usable. Closing a nil Source is
// a no-op.
func (s *Source) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, at := range s.roots {
		err = errors.Join(err, at.root.Close())
	}
	return err
}
