package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A Transfer is an outgoing transfer, at its sender. It is safe for concurrent use.
type Transfer struct {
	// Set by newTransfer.
	peer   *Peer
	header header // its id is set by sender.begin, on the world's goroutine
	opts   options
	route  route // sends the parts
	reader *reader
	done   chan struct{} // closed once finished is set and the reader no longer uses the caller's items

	// mu guards this group, which any goroutine of the application may read or set.
	mu       sync.Mutex
	progress Progress // as of the last tick; without Rate
	speed    speed    // for Rate
	sealed   bool     // the content was in sealed packets at the last noteSealed
	finished bool     // the transfer has ended at this end
	err      error    // why it failed; nil if it is complete

	// What the receiver has reported. Used by the world's goroutine only.
	accepted bool      // the receiver has answered the header
	have     bool      // the receiver has stored all of the content
	granted  int64     // the limit in the receiver's newest message
	over     bool      // the receiver has sent done or reject
	reports  time.Time // when awaitReport last expected a report

	// What was sent, and what may be. Used by the world's goroutine only.
	limit    int64 // content below it may be sent: granted or, before the answer, what may be sent with the header
	next     int64 // the offset at which the next part begins
	endSent  bool  // the end message was sent
	stopSent bool  // cancel was sent
	share    share // of the connection; its weight may be set on any goroutine
	blocked  bool  // its route accepts no more in this tick
}

// newTransfer returns a transfer that does not read yet and is in no queue: see Peer.start.
func newTransfer(p *Peer, h header, o options, s source) *Transfer {
	t := &Transfer{peer: p, header: h, opts: o, route: p.route(o.window), done: make(chan struct{})}
	t.share.weight.Store(int32(o.weight))
	t.progress.Total = h.total()
	t.reader = newReader(s, h.hash, o.partSize(), h.early() == 0, p.stocked, p.wake, t.guard)
	t.reader.turns, t.reader.whole = p.streams.turns, h.size
	if blob, is := s.(*blobSource); is {
		blob.throttle = throttle{rate: o.rate, skips: t.reader.receiverHas}
	}
	return t
}

// guard runs fn, which calls functions of the game. It returns false if one has
// panicked; the source names it.
func (t *Transfer) guard(fn func()) (returned bool) {
	return t.peer.streams.world.Guard(t.peer.conn, func() string { return t.header.function(t.reader.source.callee()) }, fn)
}

// String returns the names of the transfer and of its receiver, and the progress.
func (t *Transfer) String() string {
	return fmt.Sprintf("%s to %v: %v", t.header.title(), t.peer.conn, t.Progress())
}

// Progress returns a consistent snapshot.
func (t *Transfer) Progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	p.Rate = t.speed.at(time.Now())
	return p
}

// Sealed reports whether the content is sent in sealed packets: see
// rpc.Config.Sealed. If it is not, the connection's [rpc.SealedStats] show why.
// Once the transfer or its connection has ended, Sealed returns the last value.
func (t *Transfer) Sealed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished || t.peer.conn.Err() != nil {
		return t.sealed
	}
	return t.peer.conn.Sealed()
}

// noteSealed records the value of Sealed, because the connection no longer
// knows it once it has ended. The caller holds mu.
func (t *Transfer) noteSealed() {
	if !t.finished && t.peer.conn.Err() == nil {
		t.sealed = t.peer.conn.Sealed()
	}
}

// Done returns a channel that is closed when the transfer has ended: when the
// receiving application has consumed everything and the digest is right, or when
// the transfer has failed. After that the caller may change the items of an array.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns why the transfer failed. It returns nil until the transfer has
// ended, and if the transfer is complete.
func (t *Transfer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Wait waits until the transfer has ended and returns Err. If ctx ends first,
// Wait returns the cause of ctx, and the transfer continues. On the world's
// goroutine Wait returns ErrBlocking instead of waiting.
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

// send starts a transfer to peer and waits for its end. If ctx ends first, it
// cancels the transfer. by names the caller, for errors.
func send(ctx context.Context, peer *Peer, by string, start func() (*Transfer, error)) error {
	if peer.inside() {
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

// Cancel ends the transfer. Both ends get an error that Is ErrCanceled; the one
// at this end also wraps cause. Cancel never waits. A Read of the source that
// has begun may return later, and the bytes that it reads are dropped.
func (t *Transfer) Cancel(cause error) {
	t.finish(canceled(cause))
	t.peer.wake()
}

// SetWeight changes the transfer's [Weight] immediately, even if the transfer
// has not begun. n is clamped to the range from 1 to MaxWeight.
//
// A game that wants the nearest content first therefore need not delay transfers.
// It starts all of them, and sets new weights when the player has moved.
func (t *Transfer) SetWeight(n int) {
	t.share.weight.Store(int32(min(max(n, 1), MaxWeight)))
	t.peer.wake() // the next tick uses the new weight, and need not wait for an event
}

// finish ends the transfer at this end. err is nil if the receiver has consumed
// everything. Only the first call has an effect.
func (t *Transfer) finish(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return
	}
	t.noteSealed()
	t.finished = true
	t.peer.noteEnd(&t.peer.sent, err)
	if err != nil {
		t.err = ending(err, bySender, t.peer.conn, &t.header, t.progress)
		t.speed = speed{}
	} else {
		t.progress.Acked = max(t.progress.Sent, t.progress.Total)
		t.progress.Sent, t.progress.Total = t.progress.Acked, t.progress.Acked
		t.speed.end(time.Now(), t.progress.Acked)
	}
	t.reader.stop()
	t.reader.whenUnused(func() { close(t.done) })
}

func (t *Transfer) isFinished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finished
}

// hasPart reports whether a part was read and the credit allows it to be sent.
func (t *Transfer) hasPart() bool { return !t.have && t.reader.has(t.limit) }

// size returns the size of the content in bytes, or -1 while it is unknown.
func (t *Transfer) size() int64 {
	if ended, known := t.reader.size(); known {
		return ended
	}
	return t.header.size
}

// left returns how many bytes have not been sent yet: 0 if the receiver has
// everything, or if the transfer has ended at this end. While the size is
// unknown, it returns the credit with which a transfer starts.
func (t *Transfer) left() int64 {
	size := t.size()
	switch {
	case t.have || t.isFinished():
		return 0
	case size < 0:
		return firstCredit
	}
	return max(size-t.next, 0)
}

// early returns how many bytes the transfer may send before its header is answered. After
// the answer, it returns by how many bytes the transfer has exceeded the granted credit.
func (t *Transfer) early() int64 {
	if t.accepted {
		return max(t.next-t.granted, 0)
	}
	if size := t.size(); size >= 0 {
		return min(t.limit, size)
	}
	return t.limit
}

// sendPart sends the next part on the route. route.open must just have returned true.
func (t *Transfer) sendPart() error {
	b := t.reader.take(t.limit, t.peer.window.waits)
	if b == nil {
		return nil // canceled meanwhile
	}
	bytes := b.size()
	t.peer.sender.shares.serve(&t.share, bytes)
	sent := t.header.progress(b.end(), b.index+int64(b.count))
	t.next = b.end()
	if err := t.route.send(b, t.header.id); err != nil {
		return err
	}
	t.peer.sender.bytes += uint64(bytes)
	extend.Owe(t.peer.conn, 1) // a grant
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Sent = sent
	t.noteSealed()
	return nil
}

// awaitReport makes the connection expect a report of progress, twice in each progressInterval. The
// receiver sends at most one report in each interval, but one may be late and the next on time.
func (t *Transfer) awaitReport(now time.Time) {
	if t.accepted && now.Sub(t.reports) >= progressInterval/2 {
		t.reports = now
		extend.Owe(t.peer.conn, 1)
	}
}

// begin starts to measure the speed; it is called when the header is sent.
func (t *Transfer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.speed.start(time.Now(), 0)
}

// sendControl sends the end or the cancellation of t, if one is due.
func (t *Transfer) sendControl(control *rpc.Actor) (bool, error) {
	switch {
	case t.stopSent:
		return false, nil
	case t.isFinished():
		t.stopSent = true
		return true, sendCancel.call(control, failureOf(t.Err()).stop(t.header.id))
	case t.endSent || t.have:
		return false, nil
	}
	total, err, ok := t.reader.result()
	if !ok {
		return false, nil
	}
	if err != nil {
		t.finish(err)
		return t.sendControl(control)
	}
	t.endSent = true
	total.id = t.header.id
	t.noteTotal(total)
	return true, sendEnd.call(control, total)
}

// noteTotal records the size of a blob, which may have been unknown at its start.
func (t *Transfer) noteTotal(total end) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.header.kind == kindBlob {
		t.progress.Total = total.size
	}
}

// onAccept handles the answer to the header. An error means that the receiver broke the protocol.
func (t *Transfer) onAccept(m accept) error {
	size, count := t.header.size, t.header.count
	switch {
	case t.accepted:
		return fmt.Errorf("transfer %d accepted twice", m.id)
	case t.header.key == "" && (m.have || m.offset > 0 || m.index > 0):
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, but it has no key", m.id, m.offset, m.index)
	case t.header.kind == kindBlob && size >= 0 && m.offset > size, m.index > count:
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, beyond its end", m.id, m.offset, m.index)
	}

	t.accepted, t.have, t.granted = true, m.have, m.limit
	t.limit = max(t.next, m.limit) // early content that was not sent before the answer was never promised

	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Resumed = t.header.progress(m.offset, m.index)
	t.progress.Sent = max(t.progress.Sent, t.progress.Resumed)
	t.progress.Acked = max(t.progress.Acked, t.progress.Resumed)
	if t.progress.Resumed > 0 {
		t.speed.start(time.Now(), t.progress.Acked)
	}
	if m.have {
		t.reader.stop()
	} else {
		t.reader.resume(m.offset, m.index)
	}
	return nil
}

// onGrant handles a message that grants credit. Credit never shrinks. An error
// means that the receiver broke the protocol.
func (t *Transfer) onGrant(m grant) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.accepted:
		return fmt.Errorf("transfer %d was granted %d bytes before it was accepted", m.id, m.limit)
	case m.limit < t.granted:
		return fmt.Errorf("transfer %d was granted %d bytes after %d", m.id, m.limit, t.granted)
	case !t.have && m.acked > t.progress.Sent:
		return fmt.Errorf("transfer %d: %d %s were consumed, %d sent", m.id, m.acked, t.header.units(), t.progress.Sent)
	}
	t.noteSealed()
	t.granted = m.limit
	t.limit = max(t.limit, m.limit)
	t.progress.Acked = max(t.progress.Acked, min(m.acked, max(t.progress.Sent, t.progress.Total)))
	t.speed.note(time.Now(), t.progress.Acked)
	return nil
}

// onDone ends the transfer as complete. An error means that the receiver broke the protocol.
func (t *Transfer) onDone() error {
	if !t.endSent && !t.have {
		return fmt.Errorf("transfer %d done before its end was sent", t.header.id)
	}
	t.over = true
	t.finish(nil)
	return nil
}

// onReject ends the transfer with the receiver's reason. If the transfer has
// ended at this end, the message confirms that.
func (t *Transfer) onReject(m stop) error {
	t.over = true
	f := peerFailure(m, byReceiver)
	f.unanswered = f.kind == ErrRejected && !t.accepted
	t.finish(f)
	return nil
}
