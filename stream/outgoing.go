package stream

import (
	"cmp"
	"fmt"
	"io"
)

// OutgoingBlob is a blob that is written, where [Blob.Start] reads one. It is for one goroutine at a time; what it has of a Transfer
// is safe from any.
type OutgoingBlob struct {
	*Transfer
	pipe *io.PipeWriter
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

// Close implements io.Closer. It does not wait.
func (o *OutgoingBlob) Close() error { return o.pipe.Close() }
