package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// inboxLimit is the number of blobs that may wait in an inbox. They hold little, for until somebody reads a blob no more than its credit comes; the
// limit is for peers that send what nobody takes.
const inboxLimit = 64

// Inbox keeps blobs until they are taken by their [Name]: a request of the game names the blob that belongs to it, and either may come first.
// Each [Peer] has one, which [ToInbox] delivers to. The zero value is empty, and no peer's. Its methods are safe for concurrent use.
type Inbox struct {
	peer *Peer // whose it is; nil = nobody's. newPeer sets it

	mu      sync.Mutex
	waiting map[string]*delivered // by name; not taken yet
	news    chan struct{}         // closed by the next Deliver; nil = no Take waits for that
}

// delivered is a blob that an inbox was given. The inbox's lock guards it.
type delivered struct {
	*IncomingBlob
	ended   bool
	until   time.Time   // when it is forgotten, though it is complete: one that is empty needs nobody to read it; zero until it has ended
	unwatch func() bool // stops watching the context of the Take that returned it; nil before that
}

// ToInbox delivers a blob to the inbox of the peer that sends it, where [Inbox.Take] finds it. It is a handler:
//
//	streamed.Handle(streams, stream.ToInbox)
//	in, err := streams.Peer(conn).Inbox().Take(ctx, "save 7") // on a goroutine that is not the world's
func ToInbox(in *IncomingBlob) { in.in.peer.inbox.Deliver(in) }

// Deliver puts a blob into the inbox; the blob's handler calls it. It rejects the blob when one of the same name waits, or when 64 wait.
// A blob that fails before it is taken is forgotten, as one does that nobody reads for [Config].ReadTime, and another of its name may take its
// place.
func (i *Inbox) Deliver(in *IncomingBlob) {
	d := &delivered{IncomingBlob: in}
	if err := i.put(d); err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) { i.end(d, err) })
}

// Take waits for the blob with a name. On the goroutine of its peer's world it returns [ErrBlocking]. When the connection of the inbox's peer ends
// first, Take fails with [ErrClosed]; in an Inbox that is no peer's it waits on: make ctx end with [rpc.Conn.Done]. When ctx ends after Take has
// returned, and before all of the blob is read, the blob is rejected with the cause of ctx, which the sender is told.
//
// When the sender gives the blob up before Take finds it, it is forgotten, and Take waits for the next one of its name. So ctx needs a deadline, or
// the request to which the blob belongs is answered only when all was written, and who asks waits for both: WithRequest of package pieces.
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
		case ended: // and nothing comes any more
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

// put adds a blob to those that wait, and wakes every Take.
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

// sweep forgets blobs that have failed, before OnEnd tells of it in a later tick, and empty ones that nobody has taken for Config.ReadTime. The
// caller holds the lock.
func (i *Inbox) sweep() {
	maps.DeleteFunc(i.waiting, func(_ string, d *delivered) bool {
		return d.Err() != nil || !d.until.IsZero() && time.Now().After(d.until)
	})
}

// take returns the blob with a name, or nil and the channel that is closed when another blob is delivered.
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

// watch makes the end of ctx reject a blob that was taken, until its transfer has ended.
func (i *Inbox) watch(ctx context.Context, d *delivered) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !d.ended {
		d.unwatch = context.AfterFunc(ctx, func() { d.Reject(context.Cause(ctx)) })
	}
}

// end stops watching a blob whose transfer has ended, and forgets it if it has failed and still waits.
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
