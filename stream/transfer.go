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
	done   chan struct{} // closed when finished is set and the reader has stopped using the caller's items

	// mu guards this group, which any goroutine of the application may read or set.
	mu       sync.Mutex
	progress Progress // as of the last tick; Rate is not set
	speed    speed    // for Rate
	sealed   bool     // whether the content was in sealed packets at the last noteSealed
	finished bool     // the transfer has ended at this end
	err      error    // why it failed; nil if it is complete

	// The receiver's answers. Used by the world's goroutine only.
	accepted bool      // the receiver has answered the header
	have     bool      // the receiver has stored all of the content
	granted  int64     // the limit in the receiver's newest message
	over     bool      // the receiver's last message about the transfer, done or reject, has arrived
	reports  time.Time // when awaitReport last expected a report

	// What was sent, and what may be sent. Used by the world's goroutine only.
	limit    int64 // end of the content that may be sent: by credit or, before the answer, with the header
	next     int64 // the offset at which the next part begins
	endSent  bool  // the end message was sent
	stopSent bool  // the cancel message was sent
	share    share // of the connection; its weight may be set on any goroutine
	blocked  bool  // the route accepts no more parts in this tick
}

// newTransfer returns a transfer that is in no queue and has not begun to read: see
// Peer.start.
func newTransfer(p *Peer, h header, o options, s source) *Transfer {
	t := &Transfer{peer: p, header: h, opts: o, route: p.route(o.window), done: make(chan struct{})}
	t.share.weight.Store(int32(o.weight))
	t.progress.Total = h.total()
	t.reader = newReader(readerConfig{
		source:      s,
		hash:        h.hash,
		partSize:    o.partSize(),
		contentSize: h.size,
		account:     p.stocked,
		turns:       p.streams.turns,
		wake:        p.wake,
		guard:       t.guard,
	}, h.early() == 0)
	if blob, is := s.(*blobSource); is {
		blob.throttle = throttle{rate: o.rate, skips: t.reader.receiverHas}
	}
	return t
}

// guard runs fn, which calls functions of the game. It returns false if one of them panicked;
// the source names that function.
func (t *Transfer) guard(fn func()) (returned bool) {
	function := func() string { return t.header.describe(t.reader.source.callee()) }
	return t.peer.streams.world.Guard(t.peer.conn, function, fn)
}

// String returns the names of the transfer and of its receiver, and the progress.
func (t *Transfer) String() string {
	return fmt.Sprintf("%s to %v: %v", t.header.title(), t.peer.conn, t.Progress())
}

// Progress returns a consistent snapshot of the transfer's progress.
func (t *Transfer) Progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	p.Rate = t.speed.at(time.Now())
	return p
}

// Sealed reports whether the content is sent in sealed packets, which rpc.Config.Sealed turns
// on. If it is not, the connection's [rpc.SealedStats] show why. Once the transfer or its
// connection has ended, Sealed returns the last value.
func (t *Transfer) Sealed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished || t.peer.conn.Err() != nil {
		return t.sealed
	}
	return t.peer.conn.Sealed()
}

// noteSealed records the value of Sealed while the connection still knows it. The caller holds
// mu.
func (t *Transfer) noteSealed() {
	if !t.finished && t.peer.conn.Err() == nil {
		t.sealed = t.peer.conn.Sealed()
	}
}

// Done returns a channel that is closed when the transfer ends. It ends when the receiving
// application has consumed all content and the digest is verified, or when it fails. After
// that, the caller may change the items of an array.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns the reason why the transfer failed. It returns nil if the transfer has not ended
// or is complete.
func (t *Transfer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Wait waits until the transfer ends and returns Err. If ctx ends first, Wait returns the
// cause of ctx, and the transfer continues. On the world's goroutine, Wait returns ErrBlocking
// instead of waiting.
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

// send starts a transfer to peer and waits until it ends. If ctx ends first, send cancels the
// transfer. Its errors name by, the calling function.
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

// Cancel ends the transfer. At both ends it fails with an error that Is ErrCanceled; at this
// end, the error also wraps cause. Cancel never waits. If a Read of the source is in progress,
// it may return later, and the bytes that it reads are dropped.
func (t *Transfer) Cancel(cause error) {
	t.finish(canceled(cause))
	t.peer.wake()
}

// SetWeight changes the transfer's [Weight] immediately, whether or not it has begun. n is
// clamped to the range from 1 to MaxWeight.
//
// A game that wants the nearest content first can start all transfers at once and set new
// weights when the player moves.
func (t *Transfer) SetWeight(n int) {
	t.share.weight.Store(int32(min(max(n, 1), MaxWeight)))
	t.peer.wake() // the next tick uses the new weight, and need not wait for an event
}

// finish ends the transfer at this end. err is nil if the receiver has consumed everything.
// Only the first call has an effect.
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
		t.progress.Sent = t.progress.Acked
		t.progress.Total = t.progress.Acked
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

// hasPart reports whether a part has been read that the credit allows to be sent.
func (t *Transfer) hasPart() bool { return !t.have && t.reader.poll(t.limit) }

// size returns the size of the content in bytes, or -1 while it is unknown.
func (t *Transfer) size() int64 {
	if ended, known := t.reader.size(); known {
		return ended
	}
	return t.header.size
}

// left returns the number of bytes that were not sent yet. It is 0 if the receiver has all of
// the content, or if the transfer has ended at this end. While the size is unknown, left
// returns the credit with which a transfer starts.
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

// early returns the number of bytes that the transfer may send before its header is answered.
// After the answer, it returns the number of bytes sent in excess of the granted credit.
func (t *Transfer) early() int64 {
	if t.accepted {
		return max(t.next-t.granted, 0)
	}
	if size := t.size(); size >= 0 {
		return min(t.limit, size)
	}
	return t.limit
}

// sendPart sends the next part on the route. The caller must have checked route.open just
// before.
func (t *Transfer) sendPart() error {
	b := t.reader.take(t.limit, t.peer.window.pathFull)
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

// awaitReport makes the connection expect a progress report, twice in each progressInterval.
// The receiver sends at most one report in each interval, but one report may be late and the
// next one on time.
func (t *Transfer) awaitReport(now time.Time) {
	if t.accepted && now.Sub(t.reports) >= progressInterval/2 {
		t.reports = now
		extend.Owe(t.peer.conn, 1)
	}
}

// begin starts the measurement of the speed. It is called when the header is sent.
func (t *Transfer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.speed.start(time.Now(), 0)
}

// sendControl sends the end or cancel message of t, if one is due. It reports whether it sent
// one.
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
	total, done, err := t.reader.result()
	if !done {
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

// noteTotal records the size of a blob, which may have been unknown when the transfer started.
func (t *Transfer) noteTotal(total end) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.header.kind == kindBlob {
		t.progress.Total = total.size
	}
}

// onAccept handles the answer to the header. It returns an error if the receiver broke the
// protocol.
func (t *Transfer) onAccept(m accept) error {
	size, count := t.header.size, t.header.count
	switch {
	case t.accepted:
		return fmt.Errorf("transfer %d accepted twice", m.id)
	case t.header.key == "" && (m.hasAll || m.offset > 0 || m.index > 0):
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, but it has no key", m.id, m.offset, m.index)
	case t.header.kind == kindBlob && size >= 0 && m.offset > size, m.index > count:
		return fmt.Errorf("transfer %d resumed at byte %d, element %d, beyond its end", m.id, m.offset, m.index)
	}

	t.accepted = true
	t.have = m.hasAll
	t.granted = m.limit
	t.limit = max(t.next, m.limit) // early content that was not sent before the answer was never promised

	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Resumed = t.header.progress(m.offset, m.index)
	t.progress.Sent = max(t.progress.Sent, t.progress.Resumed)
	t.progress.Acked = max(t.progress.Acked, t.progress.Resumed)
	if t.progress.Resumed > 0 {
		t.speed.start(time.Now(), t.progress.Acked)
	}
	if m.hasAll {
		t.reader.stop()
	} else {
		t.reader.resume(m.offset, m.index)
	}
	return nil
}

// onGrant handles a grant of credit. Credit never shrinks. onGrant returns an error if the
// receiver broke the protocol.
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

// onDone ends the transfer as complete. It returns an error if the receiver broke the
// protocol.
func (t *Transfer) onDone() error {
	if !t.endSent && !t.have {
		return fmt.Errorf("transfer %d done before its end was sent", t.header.id)
	}
	t.over = true
	t.finish(nil)
	return nil
}

// onReject ends the transfer with the receiver's reason. If the transfer has already ended at
// this end, the message only confirms the end.
func (t *Transfer) onReject(m stop) error {
	t.over = true
	f := peerFailure(m, byReceiver)
	f.unanswered = f.kind == ErrRejected && !t.accepted
	t.finish(f)
	return nil
}
