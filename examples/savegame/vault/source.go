package vault

import (
	"crypto/sha256"
	"fmt"
	"os"
)

// Source is a file to be saved.
type Source struct {
	*os.File
	Size   int64
	Digest [sha256.Size]byte
}

// OpenSource opens and hashes a file.
func OpenSource(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, Reason(err))
	}
	s, err := newSource(f)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("file %s: %w", path, Reason(err))
	}
	return s, nil
}

func newSource(f *os.File) (*Source, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file")
	}
	digest, err := Digest(f, info.Size())
	return &Source{f, info.Size(), digest}, err
}
