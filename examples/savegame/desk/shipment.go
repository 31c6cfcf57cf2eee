package desk

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/stream"
)

// shipment is chunks on their way to the other side.
type shipment struct {
	number  number
	indices []int
	pack    func(buffer []byte, index int) ([]byte, error) // appends a chunk; runs on several goroutines
	rate    int                                            // bytes a second; 0: no limit
	trace   *Trace
}

// send streams the chunks, and returns when the other side has them all, or when nothing of the shipment runs any more.
func (s *shipment) send(ctx context.Context, peer *stream.Peer, opts ...stream.Option) error {
	r, w := io.Pipe()
	var writing errgroup.Group
	writing.Go(func() error { return w.CloseWithError(sendChunks(w, s.indices, s.pack)) })
	defer func() {
		_ = r.Close()
		_ = writing.Wait()
	}()
	s.trace.started()
	t, err := chunks.Start(peer, slowly(ctx, r, s.rate), -1, append(opts, stream.Name(s.number.String()))...)
	if err != nil {
		return err
	}
	s.trace.sending(t)
	select {
	case <-t.Done():
		return t.Err()
	case <-ctx.Done():
		t.Cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// sendBytes begins to stream something small. Who waits for it learns of its end.
func sendBytes(peer *stream.Peer, topic *stream.Blob, n number, b []byte) error {
	_, err := topic.Start(peer, bytes.NewReader(b), int64(len(b)), stream.Name(n.String()))
	return err
}
