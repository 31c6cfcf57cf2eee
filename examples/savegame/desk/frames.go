package desk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A stream of chunks is, for each of them in the order of the bitmap, how many bytes it has packed (uvarint), and these.

// packers is how many chunks are read and packed at once: enough that neither a disk nor a core waits for the other.
const packers = 4

// packed is a chunk that is being packed. A buffer goes round with it.
type packed struct {
	buffer []byte
	err    error
}

// sendChunks writes chunks in order until pack fails, or w does. pack appends a chunk to a buffer; it runs on several goroutines.
func sendChunks(w io.Writer, indices []int, pack func(buffer []byte, index int) ([]byte, error)) error {
	queue, free, stop := make(chan chan packed, packers), make(chan []byte, packers+2), make(chan struct{})
	defer close(stop)
	go func() {
		defer close(queue)
		for _, index := range indices {
			done := make(chan packed, 1)
			select {
			case queue <- done:
			case <-stop:
				return
			}
			go func() {
				var buffer []byte
				select {
				case buffer = <-free:
				default:
				}
				buffer, err := pack(buffer[:0], index)
				done <- packed{buffer, err}
			}()
		}
	}()
	var head [binary.MaxVarintLen32]byte
	for done := range queue {
		p := <-done
		if p.err != nil {
			return p.err
		}
		if _, err := w.Write(head[:binary.PutUvarint(head[:], uint64(len(p.buffer)))]); err != nil {
			return err
		}
		if _, err := w.Write(p.buffer); err != nil {
			return err
		}
		select {
		case free <- p.buffer:
		default:
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

// limited reads no faster than so many bytes a second, in pieces of a twentieth.
type limited struct {
	io.Reader
	ctx  context.Context
	rate int
	next time.Time // when the next piece may be read
}

func (l *limited) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Until(l.next)):
	case <-l.ctx.Done():
		return 0, context.Cause(l.ctx)
	}
	n, err := l.Reader.Read(p[:min(len(p), max(1, l.rate/20))])
	if now := time.Now(); l.next.Before(now) {
		l.next = now
	}
	l.next = l.next.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
	return n, err
}

// slowly returns r, read at a rate; 0 is none.
func slowly(ctx context.Context, r io.Reader, rate int) io.Reader {
	if rate <= 0 {
		return r
	}
	return &limited{Reader: r, ctx: ctx, rate: rate}
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
