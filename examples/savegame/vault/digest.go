package vault

import (
	"context"
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

// Hash is how the digests are made that this end names contents by. Others may name them by another algorithm.
const Hash = stream.BLAKE3

// maxDigests bounds the digests that are remembered.
const maxDigests = 10_000

// digested is what a file hashed to when it had that size and time.
type digested struct {
	size     int64
	modified time.Time
	digest   stream.Digest
}

// digest hashes an open save, or remembers what it hashed to.
func (v *Vault) digest(ctx context.Context, file *os.File, path string, hash stream.Algorithm) (digest stream.Digest, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return digest, 0, err
	}
	v.mu.Lock()
	known, ok := v.digests[path]
	v.mu.Unlock()
	if ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) && known.digest.Algorithm() == hash {
		return known.digest, known.size, nil
	}
	if digest, err = Digest(ctx, file, info.Size(), hash); err != nil {
		return digest, 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.digests) >= maxDigests {
		clear(v.digests)
	}
	v.digests[path] = digested{info.Size(), info.ModTime(), digest}
	return digest, info.Size(), nil
}

// Digest returns that of the first size bytes of r, or the cause of ctx when that ends first.
func Digest(ctx context.Context, r io.ReaderAt, size int64, hash stream.Algorithm) (stream.Digest, error) {
	h := Hashing{size: size}
	return h.digest(ctx, r, hash)
}

// Hashing is a digest that is being computed.
type Hashing struct {
	size int64
	read atomic.Int64
}

// Progress says how far it is. It may be called from any goroutine.
func (h *Hashing) Progress() stream.Progress {
	read := h.read.Load()
	return stream.Progress{Sent: read, Acked: read, Total: h.size}
}

// digest hashes piece by piece, so that it ends soon after ctx does.
func (h *Hashing) digest(ctx context.Context, r io.ReaderAt, hash stream.Algorithm) (none stream.Digest, err error) {
	hasher, piece := hash.New(), make([]byte, 256<<10)
	for at := int64(0); at < h.size; at = h.read.Load() {
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		n, err := r.ReadAt(piece[:min(int64(len(piece)), h.size-at)], at)
		if n == 0 && err == io.EOF {
			return none, fmt.Errorf("%w: it has %d bytes where %d were", ErrChanged, at, h.size)
		}
		if n == 0 && err != nil {
			return none, err
		}
		hasher.Write(piece[:n])
		h.read.Add(int64(n))
	}
	return hasher.Digest(), nil
}
