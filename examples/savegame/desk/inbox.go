package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// inbox is where the blobs of a connection go that somebody waits for. It is safe for concurrent use.
type inbox struct {
	mu      sync.Mutex
	waiting map[letter]chan *stream.IncomingBlob
}

// letter is a blob that is expected.
type letter struct {
	topic  *stream.Blob
	number number
}

// expect returns what the blob will come by, to whoever has announced it by then. It is called before the other side may send.
func (b *inbox) expect(topic *stream.Blob, n number) <-chan *stream.IncomingBlob {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(map[letter]chan *stream.IncomingBlob)
	}
	blobs := make(chan *stream.IncomingBlob, 1)
	b.waiting[letter{topic, n}] = blobs
	return blobs
}

// deliver hands a blob over, once. What nobody waits for is rejected.
func (b *inbox) deliver(topic *stream.Blob, in *stream.IncomingBlob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := letter{topic, numberOf(in.Name())}
	blobs := b.waiting[l]
	if blobs == nil {
		in.Reject(errors.New("nobody asked for it"))
		return
	}
	delete(b.waiting, l)
	blobs <- in
}

// forget rejects from now on what was expected under a number, and what came and was not taken.
func (b *inbox) forget(n number) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, blobs := range b.waiting {
		if l.number == n {
			delete(b.waiting, l)
			close(blobs)
		}
	}
}

var errForgotten = errors.New("it was given up")

// take waits for a blob.
func take(ctx context.Context, conn *rpc.Conn, blobs <-chan *stream.IncomingBlob) (*stream.IncomingBlob, error) {
	select {
	case in := <-blobs:
		if in == nil {
			return nil, errForgotten
		}
		return in, nil
	case <-conn.Done():
		return nil, conn.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// takeAll waits for a blob and reads it.
func takeAll(ctx context.Context, conn *rpc.Conn, blobs <-chan *stream.IncomingBlob, most int64) ([]byte, error) {
	in, err := take(ctx, conn, blobs)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, in, most)
}

// readAll reads a blob, if it has no more bytes than most.
func readAll(ctx context.Context, in *stream.IncomingBlob, most int64) ([]byte, error) {
	if in.Size() < 0 || in.Size() > most {
		err := fmt.Errorf("%d bytes, the limit is %d", in.Size(), most)
		in.Reject(err)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { in.Cancel(context.Cause(ctx)) })
	defer stop()
	return io.ReadAll(in)
}
