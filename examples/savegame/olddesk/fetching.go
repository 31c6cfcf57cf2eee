package desk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/stream"
)

// Get fetches a save into a file. It returns the save's size when the file is there and durable. Had says that the file
// had the content. Into what is no regular file the content goes as it comes, before all of it is verified.
func (c *Client) Get(ctx context.Context, name string, target *vault.Target) (size int64, had bool, err error) {
	request := c.number()
	a, err := ask(ctx, c, askGet, getArgs{request, name})
	if err != nil {
		return 0, false, err
	}
	if had, err := target.Has(ctx, a.Digest, a.Size); had || err != nil {
		return a.Size, had, err
	}
	w, err := target.Open(ctx)
	if err != nil {
		return 0, false, err
	}
	defer w.Close() // once more than receive does is no harm
	c.store.set(target.Store())
	in, err := c.fetch(ctx, request)
	if err != nil {
		return 0, false, err
	}
	if in.Key() != a.Digest.String() || in.Size() != a.Size {
		in.Reject(fmt.Errorf("it is not what was offered"))
		return 0, false, fmt.Errorf("the server sent other content than it offered")
	}
	if err := c.receive(ctx, name, in, w); err != nil {
		return 0, false, target.Explain(c.conn.Identity(), in.Key(), err)
	}
	return a.Size, false, target.Publish(ctx, c.conn.Identity(), a.Digest, a.Size)
}

// fetch asks for the stream of what was offered.
func (c *Client) fetch(ctx context.Context, request uint32) (*stream.IncomingBlob, error) {
	streams := make(chan *stream.IncomingBlob, 1)
	c.mu.Lock()
	c.contents[request] = streams
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.contents, request)
	}()
	if _, err := ask(ctx, c, askFetch, fetchArgs{request, routeOf(c.config.Backend)}); err != nil {
		return nil, err
	}
	select {
	case in := <-streams:
		return in, nil
	case <-c.conn.Done():
		return nil, c.conn.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// receive copies the stream to its end, by when it is verified and the store, if there is one, holds it. When ctx ends
// first, a Write in progress is left alone.
func (c *Client) receive(ctx context.Context, name string, in *stream.IncomingBlob, w io.WriteCloser) error {
	defer c.watch(name, in)()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, in)
		copied <- errors.Join(err, w.Close())
	}()
	select {
	case err := <-copied:
		if err != nil {
			in.Cancel(err)
			return err
		}
	case <-ctx.Done():
		in.Cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
	c.config.Trace.received()
	return nil
}
