package desk

import (
	"bytes"
	"cmp"
	"context"
	"io"

	"github.com/quivernet/quiver/stream"
)

// sendChunks streams chunks, at a rate, and returns when the other side has them all, or when pack runs no more. The stream has
// no digest, as each chunk has one.
func sendChunks(ctx context.Context, peer *stream.Peer, n number, rate int, indices []int, pack packer, opts ...stream.Option) error {
	frames := &frames{indices: indices, pack: pack}
	err := sendFrom(ctx, peer, n, slowly(ctx, frames, rate), append(opts, stream.Hash(stream.NoDigest)))
	// Why pack failed says more than the stream's error, or than what the other side says of its end.
	return cmp.Or(frames.stop(), err)
}

func sendFrom(ctx context.Context, peer *stream.Peer, n number, r io.Reader, opts []stream.Option) error {
	t, err := chunks.Start(peer, r, -1, append(opts, stream.Name(n.String()))...)
	if err != nil {
		return err
	}
	select {
	case <-t.Done():
		return t.Err()
	case <-ctx.Done():
		t.Cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// sendBytes begins to stream something small, which ends with ctx where it has not arrived: what nobody takes, as its request was
// refused, would be in the way of others. Who waits for it learns of its end.
func sendBytes(ctx context.Context, peer *stream.Peer, topic *stream.Blob, n number, b []byte) error {
	t, err := topic.Start(peer, bytes.NewReader(b), int64(len(b)), stream.Name(n.String()))
	if err == nil {
		context.AfterFunc(ctx, func() { t.Cancel(context.Cause(ctx)) })
	}
	return err
}
