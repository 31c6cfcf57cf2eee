package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc"
)

// A Transfer is an outgoing transfer, at its sender. It is safe for concurrent use.
//
// The world's goroutine sends it, one part at a time, as fast as the receiver's credit and the
// route to the receiver allow. A goroutine of the transfer reads the content ahead.
type Transfer struct {
	// Set by newTransfer.
	peer   *Peer
	header header // except for its id, which sender.begin sets on the world's goroutine
	opts   options
	route  route // sends the parts
	reader *reader

	status status // what the application sees, on any goroutine

	// done is closed when the transfer has ended and the reader no longer uses the caller's items.
	done chan struct{}

	// What may be sent. Only used on the world's goroutine, except for the weight in share.
	allowance allowance // how much of the content may be sent, and how much was sent
	share     share     // of the connection
	blocked   bool      // the route accepts no more parts in this tick

	// Messages about the transfer as a whole. Only used on the world's goroutine.
	endSent    bool      // the end message was sent
	stopSent   bool      // the cancel message was sent
	answered   bool      // the receiver's last message, done or reject, has arrived
	reportTime time.Time // when awaitReport last announced a report
}

// newTransfer returns a transfer that isn't in any queue and has read nothing. Peer.start queues
// it.
func newTransfer(p *Peer, h header, o options, s source) *Transfer {
	t := &Transfer{peer: p, header: h, opts: o, route: p.route(o.window), done: make(chan struct{})}
	t.share.weight.Store(int32(o.weight))
	t.status.conn = p.conn
	t.status.progress.Total = h.total()

	// If nothing may be sent before the answer, there is no need to read before it either.
	awaitsAnswer := h.early() == 0
	t.reader = newReader(readerConfig{
		source:      s,
		hash:        h.hash,
		contentSize: h.size,
		account:     p.stocked,
		turns:       p.streams.turns,
		wake:        p.wake,
		guard:       t.guard,
	}, awaitsAnswer)
	if blob, ok := s.(*blobSource); ok {
		blob.throttle = throttle{rate: o.rate, skips: t.reader.receiverHas}
	}
	return t
}

// startReader starts the reader, unless the connection has yet to agree on the limits that parts
// depend on, or these are too small. In both cases, sender.begin goes on.
func (t *Transfer) startReader() {
	entries, maxBunch, agreed := extend.Limits(t.peer.conn)
	if agreed && t.opts.checkLimits(entries, maxBunch) == nil {
		t.reader.start(t.opts.partSize(entries, maxBunch))
	}
}

// guard runs fn, which calls functions of the game through the source. It returns false if one of
// them panicked and rpc.Config.OnPanic handled the panic.
func (t *Transfer) guard(fn func()) (returned bool) {
	function := func() string { return t.header.describe(t.reader.source.callbackName()) }
	return t.peer.streams.world.Guard(t.peer.conn, function, fn)
}

// String returns the names of the transfer and of its receiver, and the progress.
func (t *Transfer) String() string {
	return fmt.Sprintf("%s: %v", t.name(), t.Progress())
}

// name returns the names of the transfer and of its receiver, for errors. See [extend.NameOf].
func (t *Transfer) name() string { return t.header.title() + " to " + extend.NameOf(t.peer.conn) }

// Progress returns a consistent snapshot of the transfer's progress.
func (t *Transfer) Progress() Progress { return t.status.current() }

// Sealed reports whether the content is sent in sealed packets, which rpc.Config.Sealed turns
// on. If it returns false, the connection's [rpc.SealedStats] say why. Once the transfer or its
// connection has ended, Sealed keeps returning the last value.
func (t *Transfer) Sealed() bool { return t.status.isSealed() }

// Done returns a channel that is closed when the transfer ends: when the receiving application
// has consumed all content and the digest has been verified, or when the transfer fails. The caller
// may then change the items of an array.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns why the transfer failed. It returns nil if the transfer is complete or has not
// ended yet.
func (t *Transfer) Err() error { return t.status.cause() }

// Wait waits until the transfer ends and returns Err. If ctx ends first, Wait returns the cause
// of ctx and the transfer continues. It also continues if Wait returns ErrBlocking, as it does on
// the world's goroutine, which must not block, until the transfer has ended. Watch Done there.
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

// Cancel ends the transfer. At both ends it fails with an error that wraps ErrCanceled and, at this
// end, cause. Cancel never blocks. If a Read of the source is in progress, its result is discarded
// when it returns.
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
	t.peer.wake() // so that a world that waits for events applies the new weight soon
}

// finish ends the transfer at this end. err is nil if the receiver has consumed everything. Only
// the first call has an effect.
//
// It holds the lock of the status until it returns, so that the reader hands out no more parts once
// somebody can see that the transfer is finished.
func (t *Transfer) finish(err error) {
	s := &t.status
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if err != nil {
		err = failureOf(err).describe(senderSide, t.peer.conn, &t.header, s.progress)
	}
	s.end(err)
	t.peer.counts.noteSent(err)
	t.reader.stop()
	t.reader.whenUnused(func() { close(t.done) })
}

func (t *Transfer) isFinished() bool { return t.status.isFinished() }

// pollPart reports whether there is a part that may be sent now. If no content is ready, it
// arranges for the world to be woken when some is.
func (t *Transfer) pollPart() bool {
	return !t.allowance.hasAll && t.reader.allow(t.allowance.limit)
}

// contentSize returns the size of the content in bytes, or -1 while it is unknown.
func (t *Transfer) contentSize() int64 {
	if size, known := t.reader.size(); known {
		return size
	}
	return t.header.size
}

// unsentBytes returns the number of bytes that have not been sent yet. If the size is unknown, it
// returns firstCredit, the credit with which a transfer starts.
func (t *Transfer) unsentBytes() int64 {
	if t.isFinished() {
		return 0
	}
	return t.allowance.unsentBytes(t.contentSize())
}

// earlyBytes returns the number of bytes that count against the peer's limit on early bytes,
// which are sent before their header is answered.
func (t *Transfer) earlyBytes() int64 { return t.allowance.earlyBytes(t.contentSize()) }

// contentSent reports whether no content is left to send, because the end message was sent or
// because the receiver has stored all of it.
func (t *Transfer) contentSent() bool { return t.endSent || t.allowance.hasAll }

// sendPart sends the next part. It may only be called right after route.prepare has returned true.
func (t *Transfer) sendPart() error {
	b := t.reader.take(t.allowance.limit, t.peer.window.pathFull)
	if b == nil {
		return nil // canceled since prepare
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

// awaitReport announces to the connection that the peer will send a progress report, which must not
// count against the peer as load (see extend.Owe).
//
// The receiver sends at most one report per progressInterval. Since a late one may arrive together
// with the next one, awaitReport announces two per interval.
func (t *Transfer) awaitReport(now time.Time) {
	if t.allowance.accepted && now.Sub(t.reportTime) >= progressInterval/2 {
		t.reportTime = now
		extend.Owe(t.peer.conn, 1)
	}
}

// sendControl sends the transfer's end or cancel message if one is due, and reports whether it sent
// one.
func (t *Transfer) sendControl(control *rpc.Actor) (bool, error) {
	switch {
	case t.stopSent:
		return false, nil
	case t.isFinished():
		t.stopSent = true
		return true, cancelMessage.send(control, failureOf(t.Err()).stop(t.header.id))
	case t.contentSent():
		return false, nil
	}
	total, done, err := t.reader.result()
	if !done {
		return false, nil
	}
	if err != nil {
		// The source failed, so cancel the transfer.
		t.finish(err)
		return t.sendControl(control)
	}
	t.endSent = true
	total.id = t.header.id
	if t.header.kind == kindBlob {
		t.status.setTotal(total.size) // in case we didn't know it at the start
	}
	return true, endMessage.send(control, total)
}

// onAccept is called with the answer to the header. Like the methods below, it returns an error if
// the receiver broke the protocol.
func (t *Transfer) onAccept(m accept) error {
	size, count := t.header.size, t.header.count
	switch {
	case t.allowance.accepted:
		return fmt.Errorf("transfer %d accepted twice", m.id)
	case t.header.key == "" && (m.hasAll || m.offset > 0 || m.index > 0):
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, although it has no key", m.id, m.offset, m.index)
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

// onGrant is called with a grant, which raises the credit or at least reports progress.
func (t *Transfer) onGrant(m grant) error {
	a, sent := &t.allowance, t.status.sent()
	switch {
	case !a.accepted:
		return fmt.Errorf("transfer %d was granted %d bytes before it was accepted", m.id, m.limit)
	case m.limit < a.granted: // a grant can't be taken back
		return fmt.Errorf("transfer %d was granted %d bytes after it was granted %d", m.id, m.limit, a.granted)
	case !a.hasAll && m.acked > sent:
		return fmt.Errorf("transfer %d has %d %s consumed, but only %d sent", m.id, m.acked, t.header.units(), sent)
	}
	a.grant(m.limit)
	t.status.ack(m.acked)
	return nil
}

// onDone is called when the receiver has consumed everything.
func (t *Transfer) onDone() error {
	if !t.contentSent() {
		return fmt.Errorf("transfer %d is done before its end was sent", t.header.id)
	}
	t.answered = true
	t.finish(nil)
	return nil
}

// onReject is called with the reason for which the receiver ended the transfer. If the transfer has
// already ended here, the message merely confirms that. onReject never fails.
func (t *Transfer) onReject(m stop) error {
	t.answered = true
	f := peerFailure(m, receiverSide)
	f.refused = f.isRefusal() && !t.allowance.accepted
	if array, ok := t.reader.source.(interface{ fields() string }); ok && m.code == stopFields && f.cause != nil {
		f.cause = fmt.Errorf("%w; at the sender: %s", f.cause, words.Cut(array.fields(), maxReasonBytes))
	}
	t.finish(f)
	return nil
}
