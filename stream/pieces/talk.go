package pieces

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/stream"
)

// Manifest is the name of the blob that Offer sends.
const Manifest = "manifest"

const (
	lacksBlob  = "lacks"
	piecesBlob = "pieces"
	// headerBytes is the size of the length that precedes each piece.
	headerBytes = 4
)

// ErrViolation means that the other side broke the protocol: it sent more bytes than allowed, or
// named pieces that do not exist.
var ErrViolation = errors.New("pieces: protocol violation by the other side")

// A Talk is one end of an exchange of pieces. Set its fields before the first method call.
//
// Its methods block. They must not be called concurrently, nor on the world's goroutine.
//
// A method fails when its context is done or the connection ends. While it waits for Memory,
// however, only the context can end it. The context that [WithRequest] passes ends along with the
// connection. The caller should end any other context when [rpc.Conn.Done] is closed.
//
// A connection may have any number of talks at once, under different names. Each sends one blob
// at a time, and a receiver accepts stream.Config.MaxTransfers blobs at once.
type Talk struct {
	Blob *stream.Blob // its handler is stream.ToInbox at both ends
	Peer *stream.Peer

	// Name is the same at both ends. It must not have been used before on the connection,
	// not even by a talk that failed.
	Name string

	MaxPiece int // maximum piece size in bytes; cdc.MaxPacked for chunks packed by cdc.Pack
	Rate     int // maximum rate at which Send reads pieces, in bytes per second; 0 = no limit

	// Memory limits the number of buffers that all talks with the same Memory hold at once. Each
	// buffer has room for MaxPiece bytes. It may be a *semaphore.Weighted of golang.org/x/sync.
	// If it is nil, there is no limit.
	//
	// A receiver holds a buffer while an announced piece arrives. A sender holds a buffer while
	// the other side reads a piece. If a peer stops in the middle of a piece, the buffer is held
	// until the context is done.
	Memory Limiter
}

// A Limiter limits the number of buffers in use. Acquire waits until n more may be used and takes
// them, and Release gives n back. A Talk calls both with n = 1.
type Limiter interface {
	Acquire(ctx context.Context, n int64) error
	Release(n int64)
}

// options returns the stream options for one of the talk's blobs.
func (t *Talk) options(blob string) []stream.Option {
	return []stream.Option{stream.Name(t.Name + " " + blob), stream.Hash(stream.NoDigest)}
}

// SendBlob sends b as another blob of the talk, and returns once the other side has read it.
// blob is its name, which must not be "manifest", "lacks" or "pieces".
func (t *Talk) SendBlob(ctx context.Context, blob string, b []byte) error {
	return t.Blob.Send(ctx, t.Peer, bytes.NewReader(b), int64(len(b)), t.options(blob)...)
}

// TakeBlob waits for a blob from the other side and returns it unread, so that the caller can
// look at its Size first. If the blob has more than maxBytes, TakeBlob rejects it and returns
// ErrViolation.
func (t *Talk) TakeBlob(ctx context.Context, blob string, maxBytes int) (*stream.IncomingBlob, error) {
	in, err := t.take(ctx, blob)
	if err != nil {
		return nil, err
	}
	if size := in.Size(); size < 0 || size > int64(maxBytes) {
		err = fmt.Errorf("%w: %s has %d bytes; the limit is %d", ErrViolation, blob, size, maxBytes)
		in.Reject(err)
		return nil, err
	}
	return in, nil
}

// take waits for a blob from the other side, whatever its size.
func (t *Talk) take(ctx context.Context, blob string) (*stream.IncomingBlob, error) {
	return t.Peer.Inbox().Take(ctx, t.Name+" "+blob)
}

// ReadBlob takes a blob as TakeBlob does and reads it. It only allocates memory for bytes that
// have arrived, whatever size the header claims.
func (t *Talk) ReadBlob(ctx context.Context, blob string, maxBytes int) ([]byte, error) {
	in, err := t.TakeBlob(ctx, blob, maxBytes)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// Offer sends a manifest that describes count pieces, and waits for the other side's Fetch. It
// returns the indices of the pieces that the other side asks for, in ascending order.
func (t *Talk) Offer(ctx context.Context, manifest []byte, count int) (lacks []int, err error) {
	if err := t.SendBlob(ctx, Manifest, manifest); err != nil {
		return nil, err
	}
	b, err := t.ReadBlob(ctx, lacksBlob, (count+7)/8)
	switch {
	case errors.Is(err, ErrViolation):
		// The peer may be to blame, but so may the caller, if the manifest has more pieces than
		// count.
		return nil, fmt.Errorf("%w: Offer's count is %d", err, count)
	case err != nil:
		return nil, err
	}
	return fromBitmap(b, count)
}

// Send sends the pieces that Offer returned, and returns once the other side has consumed them
// all.
//
// Send calls appendPiece for one piece after the other, on a goroutine of the stream, and doesn't
// retain the result. Before Send returns, it waits for any call in progress. After that, it makes
// no more calls. A piece may be held back until the pieces after it have filled a part of the
// stream, so appendPiece must not wait for the other side to receive a piece.
//
// If appendPiece fails, Send fails at once, and the stream ends before that piece. The other
// side's Fetch fails with io.ErrUnexpectedEOF and isn't told why. When ctx is done, Send cancels
// the stream.
func (t *Talk) Send(
	ctx context.Context,
	lacks []int,
	appendPiece func(buffer []byte, index int) ([]byte, error),
) error {
	if len(lacks) == 0 {
		return nil
	}
	sending, stop := context.WithCancelCause(ctx)
	s := &source{Talk: t, ctx: sending, fail: stop, missing: lacks, appendPiece: appendPiece}
	options := append(t.options(piecesBlob), stream.Rate(max(0, t.Rate)))
	out, err := t.Blob.Start(t.Peer, s, -1, options...)
	if err == nil {
		err = out.Wait(sending)
	}
	if ctx.Err() != nil && out != nil {
		// Don't cancel after an error of appendPiece. The stream ends anyway, after the bytes
		// before the error. If we canceled it before its header was sent, it would never
		// arrive, and the other side's Fetch would go on waiting for it.
		out.Cancel(context.Cause(ctx))
	}
	stop(err) // in case the stream's goroutine is waiting for a buffer
	return cmp.Or(s.end(), err)
}

// Fetch asks the other side for the pieces with the given indices, which must ascend. It calls
// each for every piece as it arrives, in the order of the indices, on the caller's goroutine.
// each must verify the piece.
//
// each may use the piece until it calls free, which it may do on any goroutine. It must call free
// even if it fails, or the piece's memory is never freed. If each fails or panics, the other
// side's Send fails as well, but isn't told the text of the error.
func (t *Talk) Fetch(
	ctx context.Context,
	lacks []int,
	each func(index int, piece []byte, free func()) error,
) error {
	if err := checkAscending(lacks); err != nil {
		return err
	}
	if err := t.SendBlob(ctx, lacksBlob, toBitmap(lacks)); err != nil || len(lacks) == 0 {
		return err
	}
	in, err := t.take(ctx, piecesBlob)
	if err != nil {
		return err
	}
	reason := errNotTaken // if each panics, or fails with an error of its own
	defer func() {
		if reason != nil {
			in.Reject(reason)
		}
	}()
	err = t.receiveAll(ctx, in, lacks, each)
	if err == nil || errors.Is(err, ErrViolation) {
		reason = err
	}
	return err
}

// checkAscending returns an error unless the indices ascend.
func checkAscending(indices []int) error {
	last := -1
	for _, i := range indices {
		if i <= last {
			return fmt.Errorf("pieces: indices do not ascend: %d follows %d", i, last)
		}
		last = i
	}
	return nil
}

// errNotTaken is what we tell the sender if we fail. Our own errors may contain the names of
// files, which the sender must not see.
var errNotTaken = errors.New("receiver could not handle a piece")

// receiveAll receives the pieces in lacks.
func (t *Talk) receiveAll(
	ctx context.Context,
	in io.Reader,
	lacks []int,
	each func(index int, piece []byte, free func()) error,
) error {
	for _, index := range lacks {
		piece, free, err := t.receive(ctx, in)
		if err != nil {
			return err
		}
		if err := each(index, piece, free); err != nil {
			return err
		}
	}

	// Read to the end of the stream. That's how the sender learns that everything has arrived.
	var beyond [1]byte
	_, err := io.ReadFull(in, beyond[:])
	switch err {
	case nil:
		return fmt.Errorf("%w: more data after the last of %d pieces", ErrViolation, len(lacks))
	case io.EOF:
		return nil
	}
	return err
}

// receive receives a piece into a buffer. free gives the buffer back. Only the first call of free
// has an effect.
func (t *Talk) receive(ctx context.Context, in io.Reader) (piece []byte, free func(), err error) {
	var size [headerBytes]byte
	if err := readWhole(in, size[:]); err != nil {
		return nil, nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if int64(n) > int64(t.MaxPiece) {
		return nil, nil, fmt.Errorf("%w: piece has %d bytes; the limit is %d (MaxPiece)", ErrViolation, n, t.MaxPiece)
	}
	b, err := t.takeBuffer(ctx, &receivedBuffers, int(n))
	if err != nil {
		return nil, nil, err
	}
	if err := readWhole(in, *b); err != nil {
		t.giveBuffer(&receivedBuffers, b)
		return nil, nil, err
	}
	return *b, sync.OnceFunc(func() { t.giveBuffer(&receivedBuffers, b) }), nil
}

// errShort is what Fetch returns if the other side's Send has failed.
var errShort = fmt.Errorf("pieces: sender stopped before the last piece: %w", io.ErrUnexpectedEOF)

// readWhole fills b from r. It returns errShort if r ends first.
func readWhole(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errShort
	}
	return err
}

// Buffers are reused, so that sending a gigabyte leaves no garbage.
var sentBuffers, receivedBuffers sync.Pool

// takeBuffer waits until Memory allows another buffer, and returns one with size bytes.
func (t *Talk) takeBuffer(ctx context.Context, from *sync.Pool, size int) (*[]byte, error) {
	if t.Memory != nil {
		if err := t.Memory.Acquire(ctx, 1); err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
	}
	b, ok := from.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	if size > cap(*b) {
		*b = make([]byte, size)
	}
	*b = (*b)[:size]
	return b, nil
}

// giveBuffer returns a buffer from takeBuffer.
func (t *Talk) giveBuffer(to *sync.Pool, b *[]byte) {
	to.Put(b)
	if t.Memory != nil {
		t.Memory.Release(1)
	}
}

// toBitmap returns a bitmap in which the bits of the given indices, which must ascend, are set.
func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		b = append(b, make([]byte, i/8+1-len(b))...)
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// fromBitmap returns the indices of the bits that are set, in ascending order. It returns
// ErrViolation if one of them is count or more.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w: index %d is out of range for %d pieces", ErrViolation, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}
