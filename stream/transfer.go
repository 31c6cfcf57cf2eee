package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A Transfer is an outgoing transfer, at its sender. It is safe for concurrent use.
//
// The world's goroutine sends it, one part at a time, as fast as the receiver's credit and the
// route to the receiver allow. Another goroutine, which belongs to the transfer, reads the
// content in advance.
type Transfer struct {
	// Set by newTransfer.
	peer   *Peer
	header header // except for its id, which sender.begin sets on the world's goroutine
	opts   options
	route  route // sends the parts
	reader *reader

	status status // what the application sees, on any goroutine

	// done is closed once the transfer has ended and the reader no longer uses the caller's items.
	done chan struct{}

	// What may be sent. Only used on the world's goroutine, except for the weight in share.
	allowance allowance // how much of the content may be sent, and how much was
	share     share     // of the connection
	blocked   bool      // the route accepts no more parts in this tick

	// Messages about the transfer as a whole. Only used on the world's goroutine.
	endSent    bool      // the end message was sent
	stopSent   bool      // the cancel message was sent
	answered   bool      // the receiver's last message about it, done or reject, has arrived
	reportTime time.Time // when awaitReport last announced a report
}

// newTransfer returns a transfer that isn't in any queue and has read nothing yet. Peer.start
// does the rest.
func newTransfer(p *Peer, h header, o options, s source) *Transfer {
	t := &Transfer{peer: p, header: h, opts: o, route: p.route(o.window), done: make(chan struct{})}
	t.share.weight.Store(int32(o.weight))
	t.status.conn = p.conn
	t.status.progress.Total = h.total()

	// If nothing may be sent before the answer, we needn't read before it either.
	awaitsAnswer := h.early() == 0
	t.reader = newReader(readerConfig{
		source:      s,
		hash:        h.hash,
		partSize:    o.partSize(),
		contentSize: h.size,
		account:     p.stocked,
		turns:       p.streams.turns,
		wake:        p.wake,
		guard:       t.guard,
	}, awaitsAnswer)
	if blob, is := s.(*blobSource); is {
		blob.throttle = throttle{rate: o.rate, skips: t.reader.receiverHas}
	}
	return t
}

// guard runs fn, which calls into the game. It returns false if a function of the game panicked.
// The panic is reported with the source's name for that function.
func (t *Transfer) guard(fn func()) (returned bool) {
	function := func() string { return t.header.describe(t.reader.source.callee()) }
	return t.peer.streams.world.Guard(t.peer.conn, function, fn)
}

// String returns the names of the transfer and of its receiver, and the progress.
func (t *Transfer) String() string {
	return fmt.Sprintf("%s to %v: %v", t.header.title(), t.peer.conn, t.Progress())
}

// Progress returns a consistent snapshot of the transfer's progress.
func (t *Transfer) Progress() Progress { return t.status.current() }

// Sealed reports whether the content is sent in sealed packets, which rpc.Config.Sealed turns
// on. If it is not, the connection's [rpc.SealedStats] say why. Once the transfer or its
// connection has ended, Sealed returns the last value.
func (t *Transfer) Sealed() bool { return t.status.isSealed() }

// Done returns a channel that is closed when the transfer ends: when the receiving application
// has consumed all content and the digest has been verified, or when the transfer fails. After
// that, the caller may change the items of an array.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns why the transfer failed. It returns nil if the transfer is complete or has not
// ended yet.
func (t *Transfer) Err() error { return t.status.cause() }

// Wait waits until the transfer ends and returns Err. If ctx ends first, Wait returns the cause
// of ctx and the transfer continues. On the world's goroutine, which must not block, Wait returns
// ErrBlocking instead.
func (t *Transfer) Wait(ctx context.Context) error {
	if bell.Closed(t.done) {
		return t.Err()
	}
	if t.peer.streams.world.Inside() {
		return fmt.Errorf("%w: Transfer.Wait; wait on another goroutine", ErrBlocking)
	}
	select {
	case <-t.done:
		return t.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send starts a transfer to peer and waits until it ends. It cancels the transfer if ctx ends
// first. by names the function that the application called, for errors.
func send(ctx context.Context, peer *Peer, by string, start func() (*Transfer, error)) error {
	if peer.onWorld() {
		return fmt.Errorf("%w: %s; Start does not wait", ErrBlocking, by)
	}
	t, err := start()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { t.Cancel(context.Cause(ctx)) })()
	<-t.done
	return t.Err()
}

// Cancel ends the transfer. At both ends it fails with an error that Is ErrCanceled, which at
// this end also wraps cause. Cancel never waits: if the source is in a Read, that Read may
// return later, and what it read is dropped.
func (t *Transfer) Cancel(cause error) {
	t.finish(canceled(cause))
	t.peer.wake()
}

// SetWeight changes the transfer's [Weight] immediately, whether or not it has begun. n is
// clamped to the range from 1 to MaxWeight.
//
// A game that wants the nearest content first can start all transfers at once, and set new
// weights when the player moves.
func (t *Transfer) SetWeight(n int) {
	t.share.weight.Store(int32(min(max(n, 1), MaxWeight)))
	t.peer.wake() // the new weight counts from the next tick, which needn't wait for an event
}

// finish ends the transfer at this end. err is nil if the receiver has consumed everything. Only
// the first call has an effect.
//
// It holds the lock of the status to its end. Once somebody sees that the transfer is finished, the
// reader therefore hands out no more parts.
func (t *Transfer) finish(err error) {
	s := &t.status
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if err != nil {
		err = ending(err, bySender, t.peer.conn, &t.header, s.progress)
	}
	s.end(err)
	t.peer.counts.noteEnd(&t.peer.counts.sent, err)
	t.reader.stop()
	t.reader.whenUnused(func() { close(t.done) })
}

func (t *Transfer) isFinished() bool { return t.status.isFinished() }

// pollPart reports whether there is a part that may be sent now. If nothing has been read yet,
// the reader wakes the world when something is.
func (t *Transfer) pollPart() bool {
	return !t.allowance.hasAll && t.reader.poll(t.allowance.limit)
}

// contentSize returns the size of the content in bytes, or -1 while it is unknown.
func (t *Transfer) contentSize() int64 {
	if ended, known := t.reader.size(); known {
		return ended
	}
	return t.header.size
}

// unsentBytes returns the number of bytes that have yet to be sent. If the size is unknown, it
// returns firstCredit, the credit that a transfer starts with.
func (t *Transfer) unsentBytes() int64 {
	if t.isFinished() {
		return 0
	}
	return t.allowance.unsentBytes(t.contentSize())
}

// earlyBytes returns the number of bytes that count against the peer's limit on early bytes,
// which are sent before their header is answered.
func (t *Transfer) earlyBytes() int64 { return t.allowance.earlyBytes(t.contentSize()) }

// contentSent reports whether no content is left to send: the end message has followed it, or the
// receiver has all of it stored.
func (t *Transfer) contentSent() bool { return t.endSent || t.allowance.hasAll }

// sendPart sends the next part. It may only be called right after route.prepare has returned true.
func (t *Transfer) sendPart() error {
	b := t.reader.take(t.allowance.limit, t.peer.window.pathFull)
	if b == nil {
		return nil // canceled in the meantime
	}
	bytes := b.size()
	t.peer.sender.shares.serve(&t.share, bytes)
	sent := t.header.progress(b.end(), b.index+int64(b.count))
	t.allowance.next = b.end()
	if err := t.route.send(b, t.header.id); err != nil {
		return err
	}
	t.peer.sender.bytes += uint64(bytes)
	extend.Owe(t.peer.conn, 1) // the peer will answer with a grant
	t.status.setSent(sent)
	return nil
}

// awaitReport announces to the connection that the peer will send us a progress report, which
// must not count against the peer as load (see extend.Owe).
//
// The receiver sends at most one report in each progressInterval, but one of them may be late and
// the next one on time. That's why we announce two in each interval.
func (t *Transfer) awaitReport(now time.Time) {
	if t.allowance.accepted && now.Sub(t.reportTime) >= progressInterval/2 {
		t.reportTime = now
		extend.Owe(t.peer.conn, 1)
	}
}

// sendControl sends the transfer's end or cancel message, if one is due, and reports whether it
// has sent one.
func (t *Transfer) sendControl(control *rpc.Actor) (bool, error) {
	switch {
	case t.stopSent:
		return false, nil
	case t.isFinished():
		t.stopSent = true
		return true, sendCancel.call(control, failureOf(t.Err()).stop(t.header.id))
	case t.contentSent():
		return false, nil
	}
	total, done, err := t.reader.result()
	if !done {
		return false, nil
	}
	if err != nil {
		// The source has failed, so cancel instead.
		t.finish(err)
		return t.sendControl(control)
	}
	t.endSent = true
	total.id = t.header.id
	if t.header.kind == kindBlob {
		t.status.setTotal(total.size) // in case we didn't know it at the start
	}
	return true, sendEnd.call(control, total)
}

// onAccept is called with the answer to the header. It returns an error if the receiver broke
// the protocol.
func (t *Transfer) onAccept(m accept) error {
	size, count := t.header.size, t.header.count
	switch {
	case t.allowance.accepted:
		return fmt.Errorf("transfer %d accepted twice", m.id)
	case t.header.key == "" && (m.hasAll || m.offset > 0 || m.index > 0):
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, but it has no key", m.id, m.offset, m.index)
	case t.header.kind == kindBlob && size >= 0 && m.offset > size, m.index > count:
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, beyond its end", m.id, m.offset, m.index)
	}

	t.allowance.accept(m)
	t.status.resume(t.header.progress(m.offset, m.index))
	if m.hasAll {
		t.reader.stop()
	} else {
		t.reader.resume(m.offset, m.index)
	}
	return nil
}

// onGrant is called with a grant, which raises the credit or at least reports progress. It
// returns an error if the receiver broke the protocol.
func (t *Transfer) onGrant(m grant) error {
	a, sent := &t.allowance, t.status.sent()
	switch {
	case !a.accepted:
		return fmt.Errorf("transfer %d was granted %d bytes before it was accepted", m.id, m.limit)
	case m.limit < a.granted:
		// Credit that has been granted can't be taken back.
		return fmt.Errorf("transfer %d was granted %d bytes after %d", m.id, m.limit, a.granted)
	case !a.hasAll && m.acked > sent:
		return fmt.Errorf("transfer %d: %d %s were consumed, %d sent", m.id, m.acked, t.header.units(), sent)
	}
	a.grant(m.limit)
	t.status.ack(m.acked)
	return nil
}

// onDone is called when the receiver has consumed everything. It returns an error if the
// receiver broke the protocol.
func (t *Transfer) onDone() error {
	if !t.contentSent() {
		return fmt.Errorf("transfer %d done before its end was sent", t.header.id)
	}
	t.answered = true
	t.finish(nil)
	return nil
}

// onReject is called when the receiver has ended the transfer, with its reason. If the transfer
// had already ended here, the message merely confirms that.
func (t *Transfer) onReject(m stop) error {
	t.answered = true
	f := peerFailure(m, byReceiver)
	f.unanswered = f.kind == ErrRejected && !t.allowance.accepted
	t.finish(f)
	return nil
}
