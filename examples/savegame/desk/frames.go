package desk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/time/rate"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A stream of chunks is, for each of them in the order of the bitmap, how many bytes it has packed (uvarint), and these.

// sendChunks writes chunks in order until pack, which appends a chunk to a buffer, fails, or w does.
func sendChunks(w io.Writer, indices []int, pack func(buffer []byte, index int) ([]byte, error)) error {
	const room = binary.MaxVarintLen32
	frame := make([]byte, room, room+manifest.MaxPacked)
	for _, index := range indices {
		packed, err := pack(frame[:room], index)
		if err != nil {
			return err
		}
		frame = packed
		size := binary.AppendUvarint(nil, uint64(len(packed)-room))
		begin := room - len(size)
		copy(packed[begin:], size)
		if _, err := w.Write(packed[begin:]); err != nil {
			return err
		}
	}
	return nil
}

// receiveChunks reads as many chunks as indices has. each may keep what it gets.
func receiveChunks(r io.Reader, indices []int, each func(index int, packed []byte) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	for _, index := range indices {
		size, err := binary.ReadUvarint(b)
		if err == nil && (size == 0 || size > manifest.MaxPacked) {
			err = fmt.Errorf("%w: %d bytes packed, the limit is %d", manifest.ErrChunk, size, manifest.MaxPacked)
		}
		if err != nil {
			return ended(err)
		}
		packed := make([]byte, size)
		if _, err := io.ReadFull(b, packed); err != nil {
			return ended(err)
		}
		if err := each(index, packed); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, b) // to the end, where the stream's digest is checked
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
