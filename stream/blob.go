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

// Start sends size bytes of r to peer, all of them until io.EOF when size is negative. It returns at once; r is read
// on a goroutine of the transfer until that ends. When the transfer fails, a Read in progress is left alone.
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

// Create starts a blob of what will be written to it. Each Write waits until the transfer has taken its bytes, so small ones are best
// gathered by a bufio.Writer, and fails with what ended the transfer, if that has ended. Close says that all was written; Wait
// returns when the receiver has it.
func (b *Blob) Create(peer *Peer, opts ...Option) (*OutgoingBlob, error) {
	r, w := io.Pipe()
	t, err := b.Start(peer, r, -1, opts...)
	if err != nil {
		return nil, err
	}
	go func() { // nobody reads then
		<-t.Done()
		_ = r.CloseWithError(cmp.Or(t.Err(), io.ErrClosedPipe))
	}()
	return &OutgoingBlob{t, w}, nil
}

// Handle gives incoming transfers of the blob to fn, on the world's goroutine. It panics when they have a handler.
// Until fn's goroutines read, only a window of content comes. A connection that ends before a header came calls nothing: who
// waits for a transfer watches [rpc.Conn.Done] as well.
func (b *Blob) Handle(s *Streams, fn func(*IncomingBlob)) {
	s.handle(b.name, topic{kind: kindBlob, open: func(in *incoming) {
		fn(&IncomingBlob{Incoming: Incoming{in}})
	}})
}

// OutgoingBlob is a blob that is written, where [Blob.Start] reads one. It is for one goroutine at a time; what it has of a Transfer
// is safe from any.
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

// Close says that all was written. It neither waits nor fails: Wait tells whether it has arrived. Cancel gives the blob up.
func (o *OutgoingBlob) Close() error { return o.pipe.Close() }

// IncomingBlob is a blob at its receiver: an io.Reader, for one goroutine at a time. Reading waits for the sender, and
// not reading makes it wait. Read returns io.EOF when all was read and the digest is the sender's, before which no Read returns the last
// piece. With that the sender is told that the transfer is complete: who keeps what he reads elsewhere uses WriteTo, as io.Copy does, which
// has written a piece before it counts.
type IncomingBlob struct {
	Incoming
	rest []byte // of block, not read yet
	held piece
}

// Size is how many bytes the blob has, -1 when the sender does not know.
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

// fetch sees to it that rest is not empty.
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

// release gives back what was read.
func (b *IncomingBlob) release() {
	b.rest = nil
	b.held.block.Free()
	b.in.delivery.consumed(b.held)
}
