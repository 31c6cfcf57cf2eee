package stream

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/words"
)

// inboxLimit is the maximum number of blobs that may wait in an inbox, in case a peer sends blobs
// that nobody takes. A waiting blob uses little memory, because its sender can't send more than
// the first credit until somebody reads it.
const inboxLimit = 64

// maxQuotedName is how much of a blob's name the reason of a rejection quotes. The sender gets at
// most 256 bytes of the reason.
const maxQuotedName = 80

// An Inbox keeps blobs until they are taken by [Name]. It is for blobs that belong to one of the
// game's requests, where either the request or the blob may arrive first.
//
// Each [Peer] has an Inbox, to which [ToInbox] delivers. The zero Inbox is empty and belongs
// to no peer. An Inbox is safe for concurrent use.
type Inbox struct {
	peer *Peer // set by newPeer; nil if the inbox belongs to no peer

	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[string]*inboxBlob // blobs that nobody has taken yet, by name
	added   chan struct{}         // closed by the next Deliver; nil if no Take is waiting for it
}

// An inboxBlob is a blob that is in an inbox or was taken from it. Inbox.mu guards it.
type inboxBlob struct {
	*IncomingBlob
	ended bool // its transfer has ended

	// expires is when the inbox drops a blob that is complete but that nobody has taken, which can
	// only be an empty blob. It's zero until the transfer has ended.
	expires time.Time

	// unwatch stops watching the context of the Take that returned the blob. It's nil until then.
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
	blob := &inboxBlob{IncomingBlob: in}
	if err := i.put(blob); err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) { i.end(blob, err) })
}

// Take waits for the blob with the given name. On the goroutine of the peer's world it returns
// [ErrBlocking].
//
// If the connection of the inbox's peer ends first, Take fails with [ErrClosed]. An Inbox that
// belongs to no peer doesn't notice this and keeps waiting, so ctx should end when
// [rpc.Conn.Done] is closed. If ctx ends after Take has returned but before all of the blob has
// been read, the blob is rejected with the cause of ctx, which the sender gets to see.
//
// If the sender cancels the blob before Take finds it, the blob is forgotten, and Take waits for
// the next one of the same name. ctx therefore needs a deadline. The only exception is a caller
// that also waits for the answer to a request for the blob, if that answer is only sent after all
// of the blob has been written, as with WithRequest of package pieces.
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	if i.peer.onWorld() {
		return nil, fmt.Errorf("%w: Inbox.Take of %q: use another goroutine", ErrBlocking, name)
	}
	for {
		ended := bell.Closed(i.peer.gone()) // before take, since a blob may still arrive until then
		blob, added := i.take(name)
		if blob != nil {
			i.watch(ctx, blob)
			return blob.IncomingBlob, nil
		}
		if ended {
			return nil, fmt.Errorf("stream: waiting for blob %q: %w", name, i.peer.live.err)
		}
		select {
		case <-added:
		case <-i.peer.gone():
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: waiting for blob %q: %w", name, context.Cause(ctx))
		}
	}
}

// put adds a blob to the waiting blobs, and wakes every Take.
func (i *Inbox) put(blob *inboxBlob) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	switch {
	case i.waiting[blob.Name()] != nil:
		return fmt.Errorf("another blob named %q is waiting to be taken: "+
			"use another stream.Name, or take that one first (Inbox.Take)", words.Cut(blob.Name(), maxQuotedName))
	case len(i.waiting) >= inboxLimit:
		return fmt.Errorf("inbox has reached its limit of %d blobs waiting to be taken: take one first (Inbox.Take)", inboxLimit)
	case i.waiting == nil:
		i.waiting = make(map[string]*inboxBlob)
	}
	i.waiting[blob.Name()] = blob
	if i.added != nil {
		close(i.added)
		i.added = nil
	}
	return nil
}

// sweep removes blobs that have failed, even if their OnEnd has not been called yet. It also
// removes complete blobs that nobody has taken within Config.ReadTime. The caller holds mu.
func (i *Inbox) sweep() {
	maps.DeleteFunc(i.waiting, func(_ string, blob *inboxBlob) bool {
		expired := !blob.expires.IsZero() && time.Now().After(blob.expires)
		return blob.Err() != nil || expired
	})
}

// take removes and returns the blob with the given name. If there is none, it returns nil and a
// channel that is closed when another blob is delivered.
func (i *Inbox) take(name string) (blob *inboxBlob, added <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	blob = i.waiting[name]
	if blob != nil {
		delete(i.waiting, name)
		return blob, nil
	}
	if i.added == nil {
		i.added = make(chan struct{})
	}
	return nil, i.added
}

// watch arranges for a taken blob to be rejected if ctx ends while its transfer is in progress.
func (i *Inbox) watch(ctx context.Context, blob *inboxBlob) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !blob.ended {
		blob.unwatch = context.AfterFunc(ctx, func() { blob.Reject(context.Cause(ctx)) })
	}
}

// end is called when the transfer of a blob has ended. It stops watching the context of Take. A
// blob that nobody has taken is removed if it failed, and otherwise expires later.
func (i *Inbox) end(blob *inboxBlob, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	blob.ended = true
	if blob.unwatch != nil {
		blob.unwatch()
	}
	if i.waiting[blob.Name()] != blob {
		return // it was taken, or sweep removed it
	}
	if err != nil {
		delete(i.waiting, blob.Name())
		return
	}
	blob.expires = time.Now().Add(blob.in.peer.streams.config.readTime())
}
