package pieces

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/quivernet/quiver/stream"
)

// Manifest is what Offer says.
const Manifest = "manifest"

const (
	lacksBlob  = "lacks"
	piecesBlob = "pieces"
	// header is how many bytes the size of a piece has.
	header = 4
)

// ErrViolation means that the other side sent what nobody who keeps to this protocol sends: more bytes than there may be, or pieces that there
// are not.
var ErrViolation = errors.New("pieces: the other side breaks the protocol")

// Talk is one side of what is said. The caller sets its fields. One goroutine at a time may use it, and none may be the world's.
type Talk struct {
	Blob  *stream.Blob // both ends handle it by the Deliver of an Inbox
	Peer  *stream.Peer
	Inbox *stream.Inbox
	Name  string // of what it is about
	Most  int    // bytes of a piece
	Rate  int    // bytes a second of the pieces that are sent; 0: no limit

	// Memory, unless nil, bounds the buffers of pieces that this and other talks hold, of Most bytes each. One is held while a piece that was
	// announced does not come, and while the other side does not read one. It may be a *semaphore.Weighted of golang.org/x/sync.
	Memory Limiter
}

// Limiter waits until there is room for n more, and takes that until it is released.
type Limiter interface {
	Acquire(ctx context.Context, n int64) error
	Release(n int64)
}

// options are those of a blob.
func (t *Talk) options(blob string) []stream.Option {
	return []stream.Option{stream.Name(t.Name + " " + blob), stream.Hash(stream.NoDigest)}
}

// Say says something in a blob of its own, and returns when the other side has heard it.
func (t *Talk) Say(ctx context.Context, blob string, b []byte) error {
	return t.Blob.Send(ctx, t.Peer, bytes.NewReader(b), int64(len(b)), t.options(blob)...)
}

// Take waits for what the other side says, and returns it to be read. More than most bytes are an ErrViolation.
func (t *Talk) Take(ctx context.Context, blob string, most int) (*stream.IncomingBlob, error) {
	in, err := t.take(ctx, blob)
	if err != nil {
		return nil, err
	}
	if size := in.Size(); size < 0 || size > int64(most) {
		err = fmt.Errorf("%w: %s of %d bytes, the limit is %d", ErrViolation, blob, size, most)
		in.Reject(err)
		return nil, err
	}
	return in, nil
}

func (t *Talk) take(ctx context.Context, blob string) (*stream.IncomingBlob, error) {
	return t.Inbox.Take(ctx, t.Name+" "+blob)
}

// Hear waits for what the other side says, as Take does, and reads it.
func (t *Talk) Hear(ctx context.Context, blob string, most int) ([]byte, error) {
	in, err := t.Take(ctx, blob, most)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in) // which takes memory as it comes
}

// Offer says a manifest of so many pieces, and returns which of them the other side lacks.
func (t *Talk) Offer(ctx context.Context, manifest []byte, count int) (lacks []int, err error) {
	if err := t.Say(ctx, Manifest, manifest); err != nil {
		return nil, err
	}
	b, err := t.Hear(ctx, lacksBlob, (count+7)/8)
	if err != nil {
		return nil, err
	}
	return fromBitmap(b, count)
}

// Send sends a piece for each of lacks, which appendPiece appends to a buffer, and returns when the other side has all. Once ctx has ended the
// other side waits for no more.
func (t *Talk) Send(ctx context.Context, lacks []int, appendPiece func(buffer []byte, index int) ([]byte, error)) error {
	if len(lacks) == 0 {
		return nil
	}
	out, err := t.Blob.Create(t.Peer, append(t.options(piecesBlob), stream.Rate(max(0, t.Rate)))...)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { out.Cancel(context.Cause(ctx)) }) // which does nothing to one that the other side has
	for _, index := range lacks {
		if err := t.send(ctx, out, index, appendPiece); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), out.Wait(ctx))
}

// send sends a piece, in a buffer that it holds until the stream has taken the piece.
func (t *Talk) send(ctx context.Context, out io.Writer, index int, appendPiece func(buffer []byte, index int) ([]byte, error)) error {
	b, err := t.takeBuffer(ctx, header)
	if err != nil {
		return err
	}
	defer t.giveBuffer(b)
	if *b, err = appendPiece(*b, index); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(*b, uint32(len(*b)-header))
	_, err = out.Write(*b)
	return err
}

// Fetch says which pieces of a manifest are lacking, in ascending order, and hands each of them on as it comes, in that order and nothing else. A
// piece is valid until free is called, which each does once; another goroutine may do so.
func (t *Talk) Fetch(ctx context.Context, lacks []int, each func(index int, piece []byte, free func()) error) error {
	if err := t.Say(ctx, lacksBlob, toBitmap(lacks)); err != nil || len(lacks) == 0 {
		return err
	}
	in, err := t.take(ctx, piecesBlob)
	if err != nil {
		return err
	}
	for _, index := range lacks {
		b, err := t.receive(ctx, in)
		if err != nil {
			return err
		}
		if err := each(index, *b, func() { t.giveBuffer(b) }); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, in) // to the end, where the sender learns that all has come
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d bytes too many", ErrViolation, n)
	}
	return err
}

// receive receives a piece in a buffer.
func (t *Talk) receive(ctx context.Context, in io.Reader) (*[]byte, error) {
	var size [header]byte
	if err := readWhole(in, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if int64(n) > int64(t.Most) {
		return nil, fmt.Errorf("%w: a piece of %d bytes, the limit is %d", ErrViolation, n, t.Most)
	}
	b, err := t.takeBuffer(ctx, int(n))
	if err != nil {
		return nil, err
	}
	if err := readWhole(in, *b); err != nil {
		t.giveBuffer(b)
		return nil, err
	}
	return b, nil
}

// readWhole fills b. An end before that is an error.
func readWhole(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// buffers are reused, so that a gigabyte leaves no garbage.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// takeBuffer waits for a buffer of that size.
func (t *Talk) takeBuffer(ctx context.Context, size int) (*[]byte, error) {
	if t.Memory != nil && t.Memory.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	b := buffers.Get().(*[]byte)
	*b = slices.Grow((*b)[:0], size)[:size]
	return b, nil
}

// giveBuffer gives one back.
func (t *Talk) giveBuffer(b *[]byte) {
	buffers.Put(b)
	if t.Memory != nil {
		t.Memory.Release(1)
	}
}

// toBitmap returns the bits of ascending indices.
func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		b = append(b, make([]byte, i/8+1-len(b))...)
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w: piece %d of %d is lacking", ErrViolation, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}
