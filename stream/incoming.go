package stream

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// Incoming has the methods that incoming blobs and arrays have in common. They may be called
// concurrently, except OnEnd and SetStore.
type Incoming struct{ in *incoming }

// Conn returns the connection to the sender.
func (i Incoming) Conn() *rpc.Conn { return i.in.peer.conn }

// Name returns the sender's name for the transfer. It is untrusted and may be any string, so
// do not use it as a path.
func (i Incoming) Name() string { return i.in.header.name }

// Key returns the sender's key for the content, or "" if it gave none. It is as untrusted as
// Name.
func (i Incoming) Key() string { return i.in.header.key }

// String returns the names of the transfer and of its sender, and the progress.
func (i Incoming) String() string {
	return fmt.Sprintf("%s from %s: %v", i.in.header.title(), extend.NameOf(i.Conn()), i.Progress())
}

// Progress returns a consistent snapshot of the transfer's progress. Total is known from the
// beginning if the sender knew it when it started the transfer.
func (i Incoming) Progress() Progress { return i.in.progress() }

// Done returns a channel that is closed when the transfer ends: when all content has been consumed
// here and its digest verified, or when the transfer fails.
func (i Incoming) Done() <-chan struct{} { return i.in.done }

// Err returns why the transfer failed. It returns nil while the transfer is in progress, or if it
// is complete.
func (i Incoming) Err() error { return i.in.cause() }

// Reject refuses the transfer, or the rest of it. At both ends, the transfer fails with an error
// that wraps ErrRejected. The sender's error contains the text of reason, truncated to 256 bytes.
// Reject never blocks.
func (i Incoming) Reject(reason error) { i.in.finish(stopped(ErrRejected, reason)) }

// Cancel ends the transfer. At both ends, it fails with an error that wraps ErrCanceled. Cancel
// never blocks.
func (i Incoming) Cancel(cause error) { i.in.finish(canceled(cause)) }

// OnEnd registers fn to be called on the world's goroutine with the result of Err when the transfer
// has ended. It must be called by the transfer's handler. A second call replaces fn.
//
// When fn is called, the message that tells the sender about the end has been passed to the
// connection, so [rpc.Conn.Close] delivers it. An application that wants to leave once it has the
// content should therefore close the connection in fn. Closing it when Done is closed or Read
// returns io.EOF is too early, because the message is only sent in the world's next tick.
func (i Incoming) OnEnd(fn func(err error)) { i.in.delivery.onEnd = fn }

// SetStore makes the transfer use store instead of Config.Store, or no store if store is nil.
// It must be called by the transfer's handler, because the transfer looks for its content in
// the store as soon as the handler has returned.
func (i Incoming) SetStore(store Store) { i.in.store = store }

// incoming is a transfer at its receiver. Three goroutines work on it, and content passes from
// one to the next:
//
//   - The world's goroutine adds the parts that arrive to arrival. Through answer, it tells the
//     sender how much it may send.
//   - The writer, a goroutine of the transfer, takes the parts from arrival in order. It hashes,
//     stores and decodes them, and adds the result to delivery.
//   - The application takes the result from delivery, either on its own goroutine or in a tick.
type incoming struct {
	peer *Peer

	// Set on the world's goroutine before start starts the writer, and only read after that.
	header header
	known  bool       // the header has arrived; before that, only its id is set
	decode decodeFunc // nil for a blob
	store  Store      // nil if there is none; the handler may replace it

	// Used by the world's goroutine only.
	headerTime     time.Time // when the header arrived
	waitsForMemory bool      // the header has arrived, but there is no memory yet for the content
	records        int64     // memory charged for the transfer itself, without its content

	// mu guards this group, and most fields of arrival, delivery and answer.
	mu       sync.Mutex
	finished bool
	err      error         // why the transfer failed; nil if it's complete or not finished
	done     chan struct{} // closed when finished
	unread   *time.Timer   // rejects the transfer if nobody reads it; set once the handler returned

	arrival  arrival
	delivery delivery
	answer   answer
}

// newIncoming returns a new transfer. Parts may arrive before the header, which begin sets.
func newIncoming(p *Peer, id uint64) *incoming {
	in := &incoming{
		peer:   p,
		header: header{id: id, size: -1},
		store:  p.streams.config.Store,
		done:   make(chan struct{}),
	}
	in.arrival.init(in)
	in.delivery.in = in
	in.delivery.ready.L = &in.mu
	in.answer.in = in
	return in
}

// begin is called with the header. It returns an error if the sender broke the protocol.
func (in *incoming) begin(h header) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.header = h
	in.known = true
	return in.arrival.checkEnd() // parts may have arrived ahead of the header
}

// start hands the transfer to its handler and, unless the handler has rejected it, starts the
// writer.
func (in *incoming) start(t topic) {
	in.guard("handler", func() { t.open(in) })
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.finished {
		in.startReadTimer()
		in.delivery.speed.start(time.Now(), 0)
		in.peer.receiver.writerStarted()
		go (&writer{in: in}).run()
	}
}

// startReadTimer starts the timer that rejects the transfer if nobody reads it within
// Config.ReadTime. The caller holds mu.
func (in *incoming) startReadTimer() {
	if in.delivery.onTick || in.delivery.read {
		return // the handler called OnBatch, or the application is already reading
	}
	readTime := in.peer.streams.config.readTime()
	in.unread = time.AfterFunc(readTime, func() {
		in.finish(stopped(ErrRejected, fmt.Errorf("not read within %v (stream.Config.ReadTime)", readTime)))
	})
}

// markRead is called whenever the application reads the transfer. The first call stops the timer
// of startReadTimer. The caller holds mu.
func (in *incoming) markRead() {
	if in.delivery.read {
		return
	}
	in.delivery.read = true
	if in.unread != nil {
		in.unread.Stop()
	}
}

// guard runs fn, which calls the given function of the game. If that function panics, the transfer
// fails. guard then returns false if rpc.Config.OnPanic handles the panic, and otherwise lets the
// panic continue.
func (in *incoming) guard(function string, fn func()) (returned bool) {
	defer func() {
		if !returned {
			in.finish(fmt.Errorf("%w: %s", ErrPanicked, function))
		}
	}()
	return in.peer.streams.world.Guard(in.peer.conn, func() string { return in.header.describe(function) }, fn)
}

// finish ends the transfer at this end. err is nil if all content was consumed. Only the first
// call has an effect.
func (in *incoming) finish(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finishLocked(err)
}

// finishLocked is finish for a caller that holds mu.
func (in *incoming) finishLocked(err error) {
	if in.finished {
		return
	}
	in.finished = true
	in.peer.counts.noteReceived(err)
	if err != nil {
		f := *failureOf(err)
		f.refused = f.by == "" && f.isRefusal() && !in.answer.replied && in.delivery.consumedUnits == 0
		in.err = f.describe(receiverSide, in.peer.conn, &in.header, in.progressLocked())
		in.delivery.speed = speed{}
	} else {
		in.delivery.speed.end(time.Now(), in.delivery.consumedUnits)
	}
	close(in.done)

	// Stop the timers, free the content, and let the next tick tell the sender.
	in.markRead()
	in.answer.remind.stop()
	in.arrival.free()
	in.delivery.free()
	in.peer.wake()
}

// waitsForSender reports whether only the sender can advance the transfer, because neither the
// writer nor the application has anything left to do. The caller holds mu.
func (in *incoming) waitsForSender() bool {
	senderMayGoOn := in.answer.replied || !in.known
	nothingQueued := len(in.arrival.parts.ready) == 0 && len(in.delivery.pieces) == 0
	return !in.finished && senderMayGoOn && nothingQueued
}

// takeBack implements holder. It gives back memory that was promised for credit that the sender
// has not used recently. If the sender uses it later, cover gets another promise.
//
// The transfer is stuck if it waits for its sender, which has recently sent nothing, or less than
// the transfer holds.
func (in *incoming) takeBack(now time.Time) (since time.Time, stuck bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.waitsForSender() {
		return since, false
	}

	recent := in.arrival.recentBytes(now)
	needed := int64(0)
	if recent > 0 {
		needed = heldBytes(min(recent, in.answer.credit.ahead))
	}
	in.answer.withdraw(needed)
	return in.arrival.usage.lastArrival, recent == 0 || recent < in.arrival.parts.held
}

// chargedBytes returns how much memory the account charges for the transfer and its content.
func (in *incoming) chargedBytes() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.records + in.arrival.chargedBytes() + in.delivery.borrowed
}

// owner implements holder.
func (in *incoming) owner() (conn *rpc.Conn, holds bool) {
	return in.peer.conn, in.chargedBytes() > incomingBytes
}

// evict implements holder. It ends the transfer because other transfers need its memory.
func (in *incoming) evict(idle time.Duration) {
	in.peer.receiver.evicted++
	in.finish(fmt.Errorf("%w: no usable content arrived for %v while other transfers needed memory; "+
		"the limit for all peers is %d bytes (stream.Config.MaxMemory)",
		ErrRejected, idle, in.peer.streams.config.maxMemory()))
	in.answer.withdraw(0)
}

// bytesReceived returns the number of bytes received on the transfer's connection. A transfer from
// p that wants to write the same content to the store uses it to find out whether that connection
// is dead.
//
// known is false if the number can't tell, either because the transfer is on p's own connection or
// belongs to another party, or because it may only have stopped until the application reads on. in
// may be nil.
func (in *incoming) bytesReceived(p *Peer) (bytes uint64, known bool) {
	if in == nil || in.peer == p || extend.PartyOf(in.peer.conn) != extend.PartyOf(p.conn) {
		return 0, false
	}
	in.mu.Lock()
	paused := len(in.delivery.pieces) > 0
	in.mu.Unlock()
	s := in.peer.conn.Stats()
	return s.BytesIn + s.SliceBytesIn, !paused
}

// cause returns why the transfer failed, or nil if it did not fail.
func (in *incoming) cause() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// ended returns nil while the transfer is in progress, and then the error of endedLocked.
func (in *incoming) ended() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.finished {
		return nil
	}
	return in.endedLocked()
}

// endedLocked returns the error that stops the writer of a transfer that has ended: the reason why
// it failed, or io.EOF if it's complete. The caller holds mu.
func (in *incoming) endedLocked() error {
	if in.err != nil {
		return in.err
	}
	return io.EOF
}

// progress returns a snapshot of the progress.
func (in *incoming) progress() Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	p := in.progressLocked()
	p.Rate = in.delivery.speed.at(time.Now())
	return p
}

// progressLocked is progress without the Rate. The caller holds mu.
func (in *incoming) progressLocked() Progress {
	p := Progress{
		Sent:    in.arrival.parts.next,
		Acked:   in.delivery.consumedUnits,
		Total:   in.arrival.contentSize(),
		Resumed: in.answer.resumed,
	}
	if in.header.kind == kindArray {
		// Parts have offsets in bytes, so elements can only be counted once they're decoded.
		p.Sent = p.Acked + in.delivery.waitingUnits()
		p.Total = in.header.count
	}
	return p
}
