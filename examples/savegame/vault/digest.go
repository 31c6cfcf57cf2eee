package vault

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"
)

// maxDigests bounds the digests that are remembered.
const maxDigests = 10_000

// digested is what a file hashed to when it had that size and time.
type digested struct {
	size     int64
	modified time.Time
	sum      [sha256.Size]byte
}

// digest hashes an open save, or remembers what it hashed to.
func (v *Vault) digest(file *os.File, path string) (sum [sha256.Size]byte, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return sum, 0, err
	}
	v.mu.Lock()
	known, ok := v.digests[path]
	v.mu.Unlock()
	if ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.sum, known.size, nil
	}
	if sum, err = Digest(file, info.Size()); err != nil {
		return sum, 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.digests) >= maxDigests {
		clear(v.digests)
	}
	v.digests[path] = digested{info.Size(), info.ModTime(), sum}
	return sum, info.Size(), nil
}

// Digest returns the SHA-256 of the first size bytes of r.
func Digest(r io.ReaderAt, size int64) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(r, 0, size), make([]byte, 256<<10))
	if err != nil {
		return sum, err
	}
	if n != size {
		return sum, fmt.Errorf("%d bytes where %d were", n, size)
	}
	h.Sum(sum[:0])
	return sum, nil
}
