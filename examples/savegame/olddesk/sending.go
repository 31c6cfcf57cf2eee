package desk

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/stream"
)

// Put hands a file in under a name. It returns when the save is durable. Had says that the server had the content. It
// fails with an error that Is vault.ErrChanged when the file is written to meanwhile.
func (c *Client) Put(ctx context.Context, name string, src *vault.Source) (had bool, err error) {
	if err := c.hash(ctx, src); err != nil {
		return false, err
	}
	had, err = c.put(ctx, name, src)
	if changed := src.Check(); err != nil && ctx.Err() == nil && changed != nil {
		return false, changed
	}
	return had, err
}

// hash computes what the file hashes to, unless that is known, as long as the server is there.
func (c *Client) hash(ctx context.Context, src *vault.Source) error {
	if src.Hashed() {
		return nil
	}
	defer c.watch("hashing", src)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.conn.Done():
			cancel(c.conn.Err())
		case <-ctx.Done():
		}
	}()
	return src.Hash(ctx)
}

// outcome is how a put ended.
type outcome struct {
	stored
	err error
}

func (c *Client) put(ctx context.Context, name string, src *vault.Source) (had bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // who leaves before the answer tells the server
	request, send := c.number(), make(chan struct{}, 1)
	c.mu.Lock()
	c.sends[request] = send
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sends, request)
	}()
	ended := make(chan outcome, 1)
	go func() {
		s, err := ask(ctx, c, askPut, putArgs{request, name, src.Size, src.Digest})
		ended <- outcome{s, err}
	}()
	waiting := time.AfterFunc(waitingTime, func() {
		if c.config.Waiting != nil {
			c.config.Waiting()
		}
	})
	defer waiting.Stop()
	select {
	case end := <-ended:
		return end.Had, end.err
	case <-send:
		waiting.Stop()
	}
	if err := c.sendContent(ctx, request, name, src); err != nil {
		return false, inFull(err, ended)
	}
	end := <-ended
	return end.Had, end.err
}

func (c *Client) sendContent(ctx context.Context, request uint32, name string, src *vault.Source) error {
	c.config.Trace.started()
	whole := io.NewSectionReader(src, 0, src.Size) // an earlier attempt may have read some of it
	t, err := content.Start(c.streams.Peer(c.conn), whole, src.Size, stream.Key(src.Digest.String()), stream.Hash(src.Digest.Algorithm()), stream.Name(nameOf(request)))
	if err != nil {
		return err
	}
	c.config.Trace.sending(t)
	defer c.watch(name, t)()
	select {
	case <-t.Done():
	case <-ctx.Done():
		t.Cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
	return t.Err()
}

func (c *Client) watch(name string, t Tracker) (stop func()) {
	if c.config.Watch == nil {
		return func() {}
	}
	return c.config.Watch(name, t)
}

// inFull returns what the server says of a stream that it ended, which tells more than the stream's error does.
func inFull(err error, ended <-chan outcome) error {
	if !errors.Is(err, stream.ErrRejected) && !errors.Is(err, stream.ErrCanceled) && !errors.Is(err, stream.ErrTooLarge) {
		return err
	}
	select {
	case end := <-ended:
		if errors.Is(end.err, ErrRefused) {
			return end.err
		}
	case <-time.After(wordTime):
	}
	return err
}

// List returns the client's saves by name.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	if _, err := ask(ctx, c, AskList, listArgs{c.number()}); err != nil {
		return nil, err
	}
	select {
	case in := <-c.lists:
		return in.Collect(ctx)
	case <-c.conn.Done():
		return nil, c.conn.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Remove deletes a save.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := ask(ctx, c, askRemove, removeArgs{name})
	return err
}
