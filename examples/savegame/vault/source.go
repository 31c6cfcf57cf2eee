package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/quivernet/quiver/stream"
)

// Source is a file to be saved.
type Source struct {
	*os.File
	Size    int64
	Digest  stream.Digest // once Hash has returned
	Hashing               // of the digest

	opened    fs.FileInfo // the file as it was then
	hashed    bool
	temporary bool // the file goes with Close
}

// OpenSource opens a file. It reads nothing yet.
func OpenSource(path string) (*Source, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, Reason(err))
	}
	return newSource(f)
}

func newSource(f *os.File) (*Source, error) {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("file %s: %w", f.Name(), Reason(err))
	}
	return &Source{File: f, Size: info.Size(), Hashing: Hashing{size: info.Size()}, opened: info}, nil
}

// Spool reads r to its end into a temporary file: a server is told size and digest before the content. When ctx ends
// first it fails with the cause, and a Read in progress is left alone.
func Spool(ctx context.Context, r io.Reader) (*Source, error) {
	f, err := os.CreateTemp("", "savegame-")
	if err != nil {
		return nil, fmt.Errorf("no temporary file: %w", Reason(err))
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, r)
		copied <- err
	}()
	select {
	case err = <-copied:
		if err != nil {
			err = fmt.Errorf("temporary file %s: %w", f.Name(), Reason(err))
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, err
	}
	s, err := newSource(f)
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	s.temporary = true
	return s, nil
}

// Close closes the file, and removes one that Spool made.
func (s *Source) Close() error {
	err := s.File.Close()
	if s.temporary {
		err = errors.Join(err, os.Remove(s.Name()))
	}
	return err
}

// Hashed reports whether the digest is known.
func (s *Source) Hashed() bool { return s.hashed }

// Hash computes the digest, unless it is known, or fails with the cause of ctx when that ends first.
func (s *Source) Hash(ctx context.Context) (err error) {
	if s.hashed {
		return nil
	}
	s.read.Store(0)
	s.Digest, err = s.digest(ctx, s.File, Hash)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("file %s: %w", s.Name(), Reason(err))
	}
	s.hashed = true
	return nil
}

// Check fails with ErrChanged when the file was written to since it was opened.
func (s *Source) Check() error {
	if now, err := s.Stat(); err == nil && sameState(s.opened, now) {
		return nil
	}
	return fmt.Errorf("file %s: %w", s.Name(), ErrChanged)
}
