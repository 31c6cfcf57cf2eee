package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/stream"
)

// ErrChanged means that a file was written to while it was read.
var ErrChanged = errors.New("the file changed meanwhile")

// maxDigests bounds the digests that are remembered.
const maxDigests = 10_000

// digested is what a file hashed to when it had that size and time.
type digested struct {
	size     int64
	modified time.Time
	sum      [sha256.Size]byte
}

// digest hashes an open save, or remembers what it hashed to.
func (v *Vault) digest(ctx context.Context, file *os.File, path string) (sum [sha256.Size]byte, size int64, err error) {
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
	if sum, err = Digest(ctx, file, info.Size()); err != nil {
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

// Digest returns the SHA-256 of the first size bytes of r, or the cause of ctx when that ends first.
func Digest(ctx context.Context, r io.ReaderAt, size int64) (sum [sha256.Size]byte, err error) {
	h := Hashing{size: size}
	return h.sum(ctx, r)
}

// Hashing is a SHA-256 that is being computed.
type Hashing struct {
	size int64
	read atomic.Int64
}

// Progress says how far it is. It may be called from any goroutine.
func (h *Hashing) Progress() stream.Progress {
	read := h.read.Load()
	return stream.Progress{Sent: read, Acked: read, Total: h.size}
}

// sum hashes piece by piece, so that it ends soon after ctx does.
func (h *Hashing) sum(ctx context.Context, r io.ReaderAt) (sum [sha256.Size]byte, err error) {
	digest, piece := sha256.New(), make([]byte, 256<<10)
	for at := int64(0); at < h.size; at = h.read.Load() {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		n, err := r.ReadAt(piece[:min(int64(len(piece)), h.size-at)], at)
		if n == 0 && err == io.EOF {
			return sum, fmt.Errorf("%w: it has %d bytes where %d were", ErrChanged, at, h.size)
		}
		if n == 0 && err != nil {
			return sum, err
		}
		digest.Write(piece[:n])
		h.read.Add(int64(n))
	}
	digest.Sum(sum[:0])
	return sum, nil
}
