package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// inboxLimit is the maximum number of blobs that wait in an inbox. It protects against peers
// that send blobs which nobody takes. A waiting blob takes little memory, because its sender
// sends no more than the first credit before it is read.
const inboxLimit = 64

// An Inbox keeps blobs until they are taken by their [Name]. It is for blobs that one of the
// game's requests names, where either the request or the blob may arrive first.
//
// Each [Peer] has an Inbox, to which [ToInbox] delivers. The zero Inbox is empty and belongs
// to no peer. An Inbox is safe for concurrent use.
type Inbox struct {
	peer *Peer // the peer that it belongs to, set by newPeer; nil if there is none

	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[string]*delivered // blobs that were not taken yet, by name
	news    chan struct{}         // closed by the next Deliver; nil if no Take waits for it
}

// A delivered is a blob that is in an inbox or was taken from it. Inbox.mu guards it.
type delivered struct {
	*IncomingBlob
	ended bool
	// When the inbox forgets a blob that is complete but was not taken. An empty blob is
	// complete without being read. It is zero until the transfer has ended.
	until   time.Time
	unwatch func() bool // stops watching the context of the Take that returned the blob; nil before that
}

// ToInbox is a handler that delivers a blob to the inbox of the peer that sends it, for
// [Inbox.Take]:
//
//	streamed.Handle(streams, stream.ToInbox)
//	in, err := streams.Peer(conn).Inbox().Take(ctx, "save 7") // on a goroutine that is not the world's
func ToInbox(in *IncomingBlob) { in.in.peer.inbox.Deliver(in) }

// Deliver puts a blob into the inbox. The blob's handler must call it.
//
// Deliver rejects the blob if another one of the same name waits, or if 64 blobs wait. A blob
// that fails before it is taken is forgotten, and another one of its name can be delivered. A
// blob that nobody reads fails after [Config].ReadTime.
func (i *Inbox) Deliver(in *IncomingBlob) {
	d := &delivered{IncomingBlob: in}
	if err := i.put(d); err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) { i.end(d, err) })
}

// Take waits for the blob with the given name. On the goroutine of the peer's world it returns
// [ErrBlocking].
//
// If the connection of the inbox's peer ends first, Take fails with [ErrClosed]. An Inbox that
// belongs to no peer can't know of this and keeps waiting, so ctx should end with
// [rpc.Conn.Done]. If ctx ends after Take has returned but before all of the blob was read,
// the blob is rejected with the cause of ctx. The sender gets that cause.
//
// If the sender cancels the blob before Take finds it, the blob is forgotten, and Take waits
// for the next one of its name. ctx therefore needs a deadline. It needs none if the request
// for the blob is answered only after all of the blob was written and the caller waits for
// both, as WithRequest of package pieces does.
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

// put adds a blob to the waiting ones and wakes every Take.
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

// sweep forgets blobs that have failed, even if their OnEnd was not called yet. It also
// forgets complete blobs that nobody took within Config.ReadTime. The caller holds mu.
func (i *Inbox) sweep() {
	maps.DeleteFunc(i.waiting, func(_ string, d *delivered) bool {
		return d.Err() != nil || !d.until.IsZero() && time.Now().After(d.until)
	})
}

// take returns the blob with the given name. If there is none, it returns nil and a channel
// that is closed when another blob is delivered.
func (i *Inbox) take(name string) (d *delivered, news <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	d = i.waiting[name]
	if d != nil {
		delete(i.waiting, name)
		return d, nil
	}
	if i.news == nil {
		i.news = make(chan struct{})
	}
	return nil, i.news
}

// watch makes the end of ctx reject a taken blob, until the blob's transfer has ended.
func (i *Inbox) watch(ctx context.Context, d *delivered) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !d.ended {
		d.unwatch = context.AfterFunc(ctx, func() { d.Reject(context.Cause(ctx)) })
	}
}

// end is called when the transfer of a blob has ended. It stops watching the blob. If the blob
// failed and was not taken, end forgets it.
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
