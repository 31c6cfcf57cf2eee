package desk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A stream of chunks is, for each of them in the order of the bitmap, how many bytes it has packed (uvarint), and these.

// packer appends a chunk, packed, to a buffer.
type packer func(buffer []byte, index int) ([]byte, error)

// frames reads as such a stream.
type frames struct {
	mu      sync.Mutex // held while pack runs
	indices []int      // of the chunks that are left
	pack    packer
	buffer  []byte
	rest    []byte // of the frame in buffer
	err     error  // of pack
}

// Read implements [io.Reader].
func (f *frames) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rest) == 0 && f.err == nil && len(f.indices) > 0 {
		f.err = f.next()
	}
	switch {
	case f.err != nil:
		return 0, f.err
	case len(f.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next makes a frame: the size stands before the chunk, and is known behind it.
func (f *frames) next() error {
	const room = binary.MaxVarintLen32
	packed, err := f.pack(slices.Grow(f.buffer[:0], room)[:room], f.indices[0])
	if err != nil {
		return err
	}
	size := binary.AppendUvarint(nil, uint64(len(packed)-room))
	begin := room - len(size)
	copy(packed[begin:], size)
	f.buffer, f.rest, f.indices = packed, packed[begin:], f.indices[1:]
	return nil
}

// stop returns why pack failed, if it did. It does not run any more then.
func (f *frames) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.indices = nil
	return f.err
}

// buffers is the memory that chunks are received into. Whoever is done with a buffer puts it back, so that a gigabyte leaves no garbage.
// All puts and gets share it, so that one whose other side stalls holds none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// sizeBuffer is the size of the reader for the chunks' sizes: so small that bufio reads the chunks themselves past it, without a copy.
const sizeBuffer = 64

// receiveChunks reads a chunk for each of indices into one of buffers, and hands it to each, which puts the buffer back.
func receiveChunks(r io.Reader, indices []int, each func(index int, packed *[]byte) error) error {
	b := bufio.NewReaderSize(r, sizeBuffer)
	for _, index := range indices {
		size, err := binary.ReadUvarint(b)
		if err == nil && (size == 0 || size > manifest.MaxPacked) {
			err = fmt.Errorf("%w: %d bytes packed, the limit is %d", manifest.ErrChunk, size, manifest.MaxPacked)
		}
		if err != nil {
			return ended(err)
		}
		packed := buffers.Get().(*[]byte)
		*packed = slices.Grow((*packed)[:0], int(size))[:size]
		if _, err := io.ReadFull(b, *packed); err != nil {
			return ended(err)
		}
		if err := each(index, packed); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, b) // to the end, where the sender learns that all has come
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d bytes too many", manifest.ErrChunk, n)
	}
	return err
}

// ended makes the end of a stream before its last chunk an error.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// limited reads no faster than its limiter says.
type limited struct {
	io.Reader
	ctx     context.Context
	limiter *rate.Limiter
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p[:min(len(p), l.limiter.Burst())])
	if waiting := l.limiter.WaitN(l.ctx, n); waiting != nil {
		return 0, waiting
	}
	return n, err
}

// slowly returns r, read at so many bytes a second, a twentieth of a second's at once; 0 is no limit.
func slowly(ctx context.Context, r io.Reader, bytes int) io.Reader {
	if bytes <= 0 {
		return r
	}
	return &limited{r, ctx, rate.NewLimiter(rate.Limit(bytes), max(1, bytes/20))}
}

// A bitmap has a bit for each chunk of a manifest, the first in the lowest bit of the first byte, and ends with its last one.

func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		for len(b) <= i/8 {
			b = append(b, 0)
		}
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// bitmapBytes is how many bytes the bitmap of so many chunks has at most.
func bitmapBytes(count int) int64 { return int64(count+7) / 8 }

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w %d of %d", manifest.ErrChunk, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}
