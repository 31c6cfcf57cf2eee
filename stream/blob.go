package stream

import (
	"cmp"
	"context"
	"fmt"
	"io"
)

// Blob is a topic whose transfers are bytes. Declare it once, in a package that both ends share.
type Blob struct{ name string }

// NewBlob declares a blob. The name has 1 to 64 bytes.
func NewBlob(name string) *Blob {
	mustTopic(name)
	return &Blob{name}
}

func mustTopic(name string) {
	if name == "" || len(name) > maxTopicBytes {
		panic(fmt.Sprintf("stream: topic name %q has %d bytes, not 1 to %d", name, len(name), maxTopicBytes))
	}
}

// Start sends size bytes of r to peer, or all until io.EOF when size is negative: of a file that may grow say -1, for what r has
// beyond size is not read. It returns at once; a goroutine of the
// transfer reads r. When the transfer fails, a Read in progress goes on, and what it reads is dropped.
func (b *Blob) Start(peer *Peer, r io.Reader, size int64, opts ...Option) (*Transfer, error) {
	if r == nil {
		return nil, fmt.Errorf("stream: blob %q: no reader", b.name)
	}
	size = max(size, -1)
	return peer.start(header{kind: kindBlob, topic: b.name, size: size}, &blobSource{r: r, left: size}, opts)
}

// Send is Start and Wait; when ctx ends, the transfer is canceled.
func (b *Blob) Send(ctx context.Context, peer *Peer, r io.Reader, size int64, opts ...Option) error {
	if peer.inside() {
		return fmt.Errorf("%w: Blob.Send", ErrBlocking)
	}
	t, err := b.Start(peer, r, size, opts...)
	if err != nil {
		return err
	}
	return t.waitOrCancel(ctx)
}

// Create starts a blob whose content the caller writes. Each Write waits until the transfer has taken its bytes, so gather small ones
// with a bufio.Writer; once the transfer has ended, it fails with the error that ended it. Close says that all was written; Wait
// returns when the receiver has it.
func (b *Blob) Create(peer *Peer, opts ...Option) (*OutgoingBlob, error) {
	r, w := io.Pipe()
	t, err := b.Start(peer, r, -1, opts...)
	if err != nil {
		return nil, err
	}
	go func() {
		<-t.Done() // from now on nobody reads: a Write must not wait
		_ = r.CloseWithError(cmp.Or(t.Err(), io.ErrClosedPipe))
	}()
	return &OutgoingBlob{t, w}, nil
}

// Handle gives incoming transfers of the blob to fn, on the world's goroutine. It panics when the blob has a handler already.
// Until a goroutine reads the transfer, the sender sends no more than a window. When the connection ends before a header came,
// fn is not called: a caller that waits for a transfer must watch [rpc.Conn.Done] as well.
func (b *Blob) Handle(s *Streams, fn func(*IncomingBlob)) {
	s.handle(b.name, topic{kind: kindBlob, open: func(in *incoming) {
		fn(&IncomingBlob{Incoming: Incoming{in}})
	}})
}

// OutgoingBlob is a blob whose content the caller writes: see [Blob.Create]. Write and Close are for one goroutine at a time, the
// methods of Transfer for any.
type OutgoingBlob struct {
	*Transfer
	pipe *io.PipeWriter
}

// Write implements io.Writer.
func (o *OutgoingBlob) Write(p []byte) (int, error) {
	if o.peer.inside() {
		return 0, fmt.Errorf("%w: OutgoingBlob.Write", ErrBlocking)
	}
	if err := o.Err(); err != nil {
		return 0, err
	}
	return o.pipe.Write(p)
}

// Close says that all was written. It neither waits nor fails: Wait tells whether the blob has arrived. Cancel gives it up.
func (o *OutgoingBlob) Close() error { return o.pipe.Close() }

// IncomingBlob is a blob at its receiver: an io.Reader, for one goroutine at a time. Reading waits for the sender; while nobody reads,
// the sender waits. The last piece is not read before the digest is found to be the sender's; io.EOF follows it. When the last piece was
// read, the sender is told that the transfer is complete. To be told only of what is written elsewhere, use WriteTo, as io.Copy does: it
// counts a piece after it was written.
type IncomingBlob struct {
	Incoming
	held piece  // pulled from the delivery; given back once rest is empty
	rest []byte // of held: not read yet
}

// Size returns the bytes of the blob, -1 when the sender did not know them at the start.
func (b *IncomingBlob) Size() int64 { return b.in.header.size }

// Read implements io.Reader.
func (b *IncomingBlob) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.fetch(); err != nil {
		return 0, err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		b.release()
	}
	return n, nil
}

// WriteTo implements io.WriterTo.
func (b *IncomingBlob) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := b.fetch(); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(b.rest)
		total += int64(n)
		b.rest = b.rest[min(max(n, 0), len(b.rest)):]
		if err == nil && len(b.rest) > 0 {
			err = io.ErrShortWrite
		}
		if len(b.rest) == 0 {
			b.release()
		}
		if err != nil {
			return total, err
		}
	}
}

// fetch waits for the next piece if all of the last one was read.
func (b *IncomingBlob) fetch() error {
	if len(b.rest) > 0 {
		return b.in.cause()
	}
	held, err := b.in.delivery.pull(context.Background())
	if err != nil {
		return err
	}
	b.held, b.rest = held, held.block.payload()
	return nil
}

// release gives the piece back, all of which was read.
func (b *IncomingBlob) release() {
	b.rest = nil
	b.held.block.Free()
	b.in.delivery.consumed(b.held)
}
