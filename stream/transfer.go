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

	// mu guards this group, which the application may use on any goroutine.
	mu       sync.Mutex
	progress Progress // as of the last tick, without Rate
	speed    speed    // for Rate
	sealed   bool     // whether the content went into sealed packets, as of the last noteSealed
	finished bool     // the transfer has ended at this end
	err      error    // why it failed; nil if it is complete

	// done is closed once finished is set and the reader no longer uses the caller's items.
	done chan struct{}

	// The receiver's answers. Only used on the world's goroutine.
	accepted   bool      // it has answered the header
	hasAll     bool      // it has stored all of the content already
	granted    int64     // the limit in its newest message
	answered   bool      // its last message about the transfer, done or reject, has arrived
	reportTime time.Time // when awaitReport last announced a report

	// What was sent, and what may be sent. Only used on the world's goroutine, except for the
	// weight in share.
	limit    int64 // end of the content that may be sent: by credit or, before the answer, early
	next     int64 // offset at which the next part begins
	endSent  bool  // the end message was sent
	stopSent bool  // the cancel message was sent
	share    share // of the connection
	blocked  bool  // the route accepts no more parts in this tick
}

// newTransfer returns a transfer that isn't in any queue and has read nothing yet. Peer.start
// does the rest.
func newTransfer(p *Peer, h header, o options, s source) *Transfer {
	t := &Transfer{peer: p, header: h, opts: o, route: p.route(o.window), done: make(chan struct{})}
	t.share.weight.Store(int32(o.weight))
	t.progress.Total = h.total()

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
func (t *Transfer) Progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	p.Rate = t.speed.at(time.Now())
	return p
}

// Sealed reports whether the content is sent in sealed packets, which rpc.Config.Sealed turns
// on. If it is not, the connection's [rpc.SealedStats] say why. Once the transfer or its
// connection has ended, Sealed returns the last value.
func (t *Transfer) Sealed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished || t.peer.conn.Err() != nil {
		return t.sealed
	}
	return t.peer.conn.Sealed()
}

// noteSealed records the current value of Sealed, for when the connection no longer knows it. The
// caller holds mu.
func (t *Transfer) noteSealed() {
	if !t.finished && t.peer.conn.Err() == nil {
		t.sealed = t.peer.conn.Sealed()
	}
}

// Done returns a channel that is closed when the transfer ends: when the receiving application
// has consumed all content and the digest has been verified, or when the transfer fails. After
// that, the caller may change the items of an array.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns why the transfer failed. It returns nil if the transfer is complete or has not
// ended yet.
func (t *Transfer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

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
		// The last grant may not have counted everything, and Total may be unknown.
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

// pollPart reports whether there is a part that may be sent now. If nothing has been read yet,
// the reader wakes the world when something is.
func (t *Transfer) pollPart() bool { return !t.hasAll && t.reader.poll(t.limit) }

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
	size := t.contentSize()
	switch {
	case t.hasAll || t.isFinished():
		return 0
	case size < 0:
		return firstCredit
	}
	return max(size-t.next, 0)
}

// earlyBytes returns the number of bytes that count against the peer's limit on early bytes,
// which are sent before their header is answered. Until the answer arrives, all bytes that the
// transfer may send count. Afterwards, only bytes sent in excess of the granted credit count.
func (t *Transfer) earlyBytes() int64 {
	if t.accepted {
		return max(t.next-t.granted, 0)
	}
	if size := t.contentSize(); size >= 0 {
		return min(t.limit, size)
	}
	return t.limit
}

// sendPart sends the next part. The caller must have checked right before that the route is
// open.
func (t *Transfer) sendPart() error {
	b := t.reader.take(t.limit, t.peer.window.pathFull)
	if b == nil {
		return nil // canceled in the meantime
	}
	bytes := b.size()
	t.peer.sender.shares.serve(&t.share, bytes)
	sent := t.header.progress(b.end(), b.index+int64(b.count))
	t.next = b.end()
	if err := t.route.send(b, t.header.id); err != nil {
		return err
	}
	t.peer.sender.bytes += uint64(bytes)
	extend.Owe(t.peer.conn, 1) // the peer will answer with a grant

	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Sent = sent
	t.noteSealed()
	return nil
}

// awaitReport announces to the connection that the peer will send us a progress report, which
// must not count against the peer as load (see extend.Owe).
//
// The receiver sends at most one report in each progressInterval, but one of them may be late and
// the next one on time. That's why we announce two in each interval.
func (t *Transfer) awaitReport(now time.Time) {
	if t.accepted && now.Sub(t.reportTime) >= progressInterval/2 {
		t.reportTime = now
		extend.Owe(t.peer.conn, 1)
	}
}

// headerSent is called when the header is sent. The speed is measured from then on.
func (t *Transfer) headerSent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.speed.start(time.Now(), 0)
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
	case t.endSent || t.hasAll:
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
	t.noteTotal(total)
	return true, sendEnd.call(control, total)
}

// noteTotal records the final size of a blob, in case we didn't know it at the start.
func (t *Transfer) noteTotal(total end) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.header.kind == kindBlob {
		t.progress.Total = total.size
	}
}

// onAccept is called with the answer to the header. It returns an error if the receiver broke
// the protocol.
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
	t.hasAll = m.hasAll
	t.granted = m.limit
	// The limit may fall, because early bytes that we haven't sent are no longer promised to us.
	t.limit = max(t.next, m.limit)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Resumed = t.header.progress(m.offset, m.index)
	t.progress.Sent = max(t.progress.Sent, t.progress.Resumed)
	t.progress.Acked = max(t.progress.Acked, t.progress.Resumed)
	if t.progress.Resumed > 0 {
		// The content that the receiver had stored doesn't count.
		t.speed.start(time.Now(), t.progress.Acked)
	}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.accepted:
		return fmt.Errorf("transfer %d was granted %d bytes before it was accepted", m.id, m.limit)
	case m.limit < t.granted:
		// Credit that has been granted can't be taken back.
		return fmt.Errorf("transfer %d was granted %d bytes after %d", m.id, m.limit, t.granted)
	case !t.hasAll && m.acked > t.progress.Sent:
		return fmt.Errorf("transfer %d: %d %s were consumed, %d sent", m.id, m.acked, t.header.units(), t.progress.Sent)
	}
	t.noteSealed()
	t.granted = m.limit
	t.limit = max(t.limit, m.limit)
	t.progress.Acked = max(t.progress.Acked, min(m.acked, max(t.progress.Sent, t.progress.Total)))
	t.speed.note(time.Now(), t.progress.Acked)
	return nil
}

// onDone is called when the receiver has consumed everything. It returns an error if the
// receiver broke the protocol.
func (t *Transfer) onDone() error {
	if !t.endSent && !t.hasAll {
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
	f.unanswered = f.kind == ErrRejected && !t.accepted
	t.finish(f)
	return nil
}
