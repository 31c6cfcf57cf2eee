package desk

import (
	"context"
	"errors"
	"fmt"
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

func (c *Client) put(ctx context.Context, name string, src *vault.Source) (had bool, err error) {
	request, answers, forget, err := c.ask(ctx, func(request uint32) error {
		return callPut.Call(c.desk, putArgs{request, name, src.Size, src.Digest})
	})
	if err != nil {
		return false, err
	}
	defer forget()
	waiting := time.AfterFunc(waitingTime, func() {
		if c.config.Waiting != nil {
			c.config.Waiting()
		}
	})
	a, err := c.await(ctx, answers)
	waiting.Stop()
	if err != nil || a.Verdict == stored {
		return err == nil, err
	}
	if a.Verdict != send {
		return false, fmt.Errorf("the server answered %d to a put", a.Verdict)
	}
	if err := c.sendContent(ctx, request, name, src); err != nil {
		return false, c.inFull(err, answers)
	}
	_, err = c.await(ctx, answers)
	return false, err
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
func (c *Client) inFull(err error, answers <-chan answer) error {
	if !errors.Is(err, stream.ErrRejected) && !errors.Is(err, stream.ErrCanceled) && !errors.Is(err, stream.ErrTooLarge) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wordTime)
	defer cancel()
	if _, word := c.await(ctx, answers); errors.Is(word, ErrRefused) {
		return word
	}
	return err
}

// List returns the client's saves by name.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	_, answers, forget, err := c.ask(ctx, func(request uint32) error {
		return callList.Call(c.desk, listArgs{request})
	})
	if err != nil {
		return nil, err
	}
	defer forget()
	select {
	case in := <-c.lists:
		return in.Collect(ctx)
	case a := <-answers:
		return nil, a.err()
	case <-c.conn.Done():
		return nil, c.conn.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Remove deletes a save.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, answers, forget, err := c.ask(ctx, func(request uint32) error {
		return callRemove.Call(c.desk, removeArgs{request, name})
	})
	if err != nil {
		return err
	}
	defer forget()
	_, err = c.await(ctx, answers)
	return err
}
