package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// inboxLimit is how many blobs may wait in an inbox. They take little memory,
// because until a blob is read no more than its first credit is sent. The limit
// protects against peers that send blobs which nobody takes.
const inboxLimit = 64

// An Inbox keeps blobs until they are taken by their [Name]. A request of the game names the blob
// that belongs to it, and either may arrive first. Each [Peer] has an Inbox, to which [ToInbox]
// delivers. The zero Inbox is empty and belongs to no peer. An Inbox is safe for concurrent use.
type Inbox struct {
	peer *Peer // the peer that it belongs to, set by newPeer; nil = none

	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[string]*delivered // by name: blobs that were not taken yet
	news    chan struct{}         // closed by the next Deliver; nil = no Take waits for it
}

// A delivered is a blob in an inbox, or taken from it. Inbox.mu guards it.
type delivered struct {
	*IncomingBlob
	ended bool
	// When a complete but untaken blob is forgotten: an empty one is complete
	// without being read; zero until it has ended.
	until   time.Time
	unwatch func() bool // stops watching the context of the Take that returned it; nil before that
}

// ToInbox delivers a blob to the inbox of the peer that sends it, for
// [Inbox.Take]. It is a handler:
//
//	streamed.Handle(streams, stream.ToInbox)
//	in, err := streams.Peer(conn).Inbox().Take(ctx, "save 7") // on a goroutine that is not the world's
func ToInbox(in *IncomingBlob) { in.in.peer.inbox.Deliver(in) }

// Deliver puts a blob into the inbox. The blob's handler must call it. Deliver
// rejects the blob if another of the same name waits, or if 64 blobs wait. A
// blob that fails before it is taken is forgotten, and another of its name can
// be delivered. A blob that nobody reads fails after [Config].ReadTime.
func (i *Inbox) Deliver(in *IncomingBlob) {
	d := &delivered{IncomingBlob: in}
	if err := i.put(d); err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) { i.end(d, err) })
}

// Take waits for the blob with a name. On the goroutine of the peer's world it returns
// [ErrBlocking]. If the connection of the inbox's peer ends first, Take fails with
// [ErrClosed]; for an Inbox that belongs to no peer it keeps waiting, so ctx should end
// with [rpc.Conn.Done]. If ctx ends after Take has returned, and before all of the blob
// was read, the blob is rejected with the cause of ctx, which is sent to the sender.
//
// If the sender cancels the blob before Take finds it, the blob is forgotten,
// and Take waits for the next one of its name. So ctx needs a deadline, unless
// the request for the blob is answered only once all of it was written and the
// caller waits for both, as WithRequest of package pieces does.
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	if i.peer.inside() {
		return nil, fmt.Errorf("%w: Inbox.Take of %q; take on another goroutine", ErrBlocking, name)
	}
	for ended := false; ; {
		d, news := i.take(name)
		switch {
		case d != nil:
			i.watch(ctx, d)
			return d.IncomingBlob, nil
		case ended: // nothing can arrive any more
			return nil, fmt.Errorf("stream: blob %q has not come: %w", name, i.peer.live.err)
		}
		select {
		case <-news:
		case <-i.peer.gone():
			ended = true
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: blob %q has not come: %w", name, context.Cause(ctx))
		}
	}
}

// put adds a blob to the waiting ones, and wakes every Take.
func (i *Inbox) put(d *delivered) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	switch {
	case i.waiting[d.Name()] != nil:
		return errors.New("one of this name waits to be taken already")
	case len(i.waiting) >= inboxLimit:
		return fmt.Errorf("%d blobs wait to be taken, which is the limit", inboxLimit)
	case i.waiting == nil:
		i.waiting = make(map[string]*delivered)
	}
	i.waiting[d.Name()] = d
	if i.news != nil {
		close(i.news)
		i.news = nil
	}
	return nil
}

// sweep forgets blobs that have failed, even if their OnEnd has not been called yet, and
// complete ones that nobody has taken within Config.ReadTime. The caller holds the lock.
func (i *Inbox) sweep() {
	maps.DeleteFunc(i.waiting, func(_ string, d *delivered) bool {
		return d.Err() != nil || !d.until.IsZero() && time.Now().After(d.until)
	})
}

// take returns the blob with a name, or nil and a channel that is closed when
// another blob is delivered.
func (i *Inbox) take(name string) (d *delivered, news <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	if d = i.waiting[name]; d != nil {
		delete(i.waiting, name)
		return d, nil
	}
	if i.news == nil {
		i.news = make(chan struct{})
	}
	return nil, i.news
}

// watch makes the end of ctx reject a taken blob, until its transfer has ended.
func (i *Inbox) watch(ctx context.Context, d *delivered) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !d.ended {
		d.unwatch = context.AfterFunc(ctx, func() { d.Reject(context.Cause(ctx)) })
	}
}

// end is called when the transfer of a blob has ended. It stops watching the
// blob, and forgets it if it has failed and was not taken.
func (i *Inbox) end(d *delivered, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d.ended = true
	if d.unwatch != nil {
		d.unwatch()
	}
	switch {
	case i.waiting[d.Name()] != d:
	case err != nil:
		delete(i.waiting, d.Name())
	default:
		d.until = time.Now().Add(d.in.peer.streams.config.readTime())
	}
}
