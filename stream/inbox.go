package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// inboxLimit is the maximum number of blobs that may wait in an inbox, in case a peer sends blobs
// that nobody takes. A waiting blob takes little memory, because its sender can't send more than
// the first credit until somebody reads it.
const inboxLimit = 64

// An Inbox keeps blobs until they are taken by their [Name]. It is for blobs that belong to
// one of the game's requests, where either the request or the blob may arrive first.
//
// Each [Peer] has an Inbox, to which [ToInbox] delivers. The zero Inbox is empty and belongs
// to no peer. An Inbox is safe for concurrent use.
type Inbox struct {
	peer *Peer // set by newPeer; nil if the inbox belongs to no peer

	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[string]*inboxBlob // blobs that nobody has taken yet, by name
	news    chan struct{}         // closed by the next Deliver; nil if no Take waits for it
}

// An inboxBlob is a blob that is in an inbox, or was taken from it. Inbox.mu guards it.
type inboxBlob struct {
	*IncomingBlob
	ended bool // its transfer has ended

	// expires is when the inbox drops a blob that is complete but not taken. This applies to
	// empty blobs, which are complete without being read. Zero until the transfer has ended.
	expires time.Time

	// unwatch stops watching the context of the Take that returned the blob. It is nil before
	// that.
	unwatch func() bool
}

// ToInbox is a handler that delivers a blob to the inbox of the peer that sends it, for
// [Inbox.Take]:
//
//	streamed.Handle(streams, stream.ToInbox)
//	in, err := streams.Peer(conn).Inbox().Take(ctx, "save 7") // not on the world's goroutine
func ToInbox(in *IncomingBlob) { in.in.peer.inbox.Deliver(in) }

// Deliver puts a blob into the inbox. The blob's handler must call it.
//
// Deliver rejects the blob if another blob of the same name is waiting, or if 64 blobs are
// waiting. If a blob fails before it is taken, the inbox forgets it, and another blob of that
// name can be delivered. A blob that nobody reads fails after [Config].ReadTime.
func (i *Inbox) Deliver(in *IncomingBlob) {
	d := &inboxBlob{IncomingBlob: in}
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
// belongs to no peer doesn't notice this and keeps waiting, so ctx should end when
// [rpc.Conn.Done] is closed. If ctx ends after Take has returned but before all of the blob was
// read, the blob is rejected with the cause of ctx, which the sender gets to see.
//
// If the sender cancels the blob before Take finds it, the blob is forgotten, and Take waits for
// the next one of its name. ctx therefore needs a deadline. The only exception is a caller that
// also waits for the answer to a request for the blob, if that answer comes only after all of the
// blob was written. WithRequest of package pieces does this.
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	if i.peer.onWorld() {
		return nil, fmt.Errorf("%w: Inbox.Take of %q; take on another goroutine", ErrBlocking, name)
	}
	for ended := false; ; {
		d, news := i.take(name)
		switch {
		case d != nil:
			i.watch(ctx, d)
			return d.IncomingBlob, nil
		case ended:
			return nil, fmt.Errorf("stream: blob %q has not come: %w", name, i.peer.live.err)
		}
		select {
		case <-news:
		case <-i.peer.gone():
			ended = true // look once more, since the blob may have arrived just before
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: blob %q has not come: %w", name, context.Cause(ctx))
		}
	}
}

// put adds a blob to the waiting blobs, and wakes every Take.
func (i *Inbox) put(d *inboxBlob) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	switch {
	case i.waiting[d.Name()] != nil:
		return errors.New("one of this name waits to be taken already")
	case len(i.waiting) >= inboxLimit:
		return fmt.Errorf("%d blobs wait to be taken, which is the limit", inboxLimit)
	case i.waiting == nil:
		i.waiting = make(map[string]*inboxBlob)
	}
	i.waiting[d.Name()] = d
	if i.news != nil {
		close(i.news)
		i.news = nil
	}
	return nil
}

// sweep removes blobs that have failed, even if their OnEnd has not been called yet. It also
// removes complete blobs that nobody has taken within Config.ReadTime. The caller holds mu.
func (i *Inbox) sweep() {
	maps.DeleteFunc(i.waiting, func(_ string, d *inboxBlob) bool {
		expired := !d.expires.IsZero() && time.Now().After(d.expires)
		return d.Err() != nil || expired
	})
}

// take returns the blob with the given name. If there is none, it returns nil and a channel
// that is closed when another blob is delivered.
func (i *Inbox) take(name string) (d *inboxBlob, news <-chan struct{}) {
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

// watch rejects a taken blob if ctx ends while the blob's transfer is still in progress.
func (i *Inbox) watch(ctx context.Context, d *inboxBlob) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !d.ended {
		d.unwatch = context.AfterFunc(ctx, func() { d.Reject(context.Cause(ctx)) })
	}
}

// end is called when the transfer of a blob has ended. It stops watching the context of Take, and
// removes the blob if it failed before anybody took it.
func (i *Inbox) end(d *inboxBlob, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d.ended = true
	if d.unwatch != nil {
		d.unwatch()
	}
	switch {
	case i.waiting[d.Name()] != d:
		// It was taken, or sweep has removed it.
	case err != nil:
		delete(i.waiting, d.Name())
	default:
		d.expires = time.Now().Add(d.in.peer.streams.config.readTime())
	}
}
