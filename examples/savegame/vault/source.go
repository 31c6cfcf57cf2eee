package vault

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
)

// Source is a file to be saved.
type Source struct {
	*os.File
	Size    int64
	Digest  [sha256.Size]byte // once Hash has returned
	Hashing                   // of the digest

	opened fs.FileInfo // the file as it was then
	hashed bool
}

// OpenSource opens a file. It reads nothing yet.
func OpenSource(path string) (*Source, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, Reason(err))
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("file %s: %w", path, Reason(err))
	}
	return &Source{File: f, Size: info.Size(), Hashing: Hashing{size: info.Size()}, opened: info}, nil
}

// Hash computes the digest, unless it is known, or fails with the cause of ctx when that ends first.
func (s *Source) Hash(ctx context.Context) (err error) {
	if s.hashed {
		return nil
	}
	s.read.Store(0)
	if s.Digest, err = s.sum(ctx, s.File); err != nil {
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
