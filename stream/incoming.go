package stream

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// Incoming holds the methods that the receiving ends of blobs and arrays share. They are safe from any goroutine, except
// OnEnd and SetStore.
type Incoming struct{ in *incoming }

// Conn returns the connection of the sender.
func (i Incoming) Conn() *rpc.Conn { return i.in.peer.conn }

// Name returns the sender's name for the transfer. It comes from outside and may be any string: do not use it as a path.
func (i Incoming) Name() string { return i.in.header.name }

// Key returns the sender's key for the content, "" if it gave none. Like Name it comes from outside.
func (i Incoming) Key() string { return i.in.header.key }

// String names the transfer and its sender, and says how far it is.
func (i Incoming) String() string {
	return fmt.Sprintf("%s from %v: %v", i.in.header.title(), i.Conn(), i.Progress())
}

// Progress returns one consistent snapshot. Total is known from the beginning if the sender knew it then.
func (i Incoming) Progress() Progress { return i.in.progress() }

// Done is closed when the transfer has ended: when all was consumed here and its digest was right, or when it failed.
func (i Incoming) Done() <-chan struct{} { return i.in.done }

// Err returns the reason for which the transfer failed. It is nil while the transfer goes on and when it is complete.
func (i Incoming) Err() error { return i.in.cause() }

// Reject refuses the transfer, or what is left of it. Both ends see an error that Is ErrRejected, the sender with the
// text of reason, cut to 256 bytes. It never waits.
func (i Incoming) Reject(reason error) { i.in.finish(stopped(ErrRejected, reason)) }

// Cancel gives the transfer up. Both ends see an error that Is ErrCanceled. It never waits.
func (i Incoming) Cancel(cause error) { i.in.finish(canceled(cause)) }

// OnEnd runs fn on the world's goroutine when the transfer has ended, with what Err returns. Call it in the handler that
// is given the transfer. The sender was sent word before, which [rpc.Conn.Close] delivers: an application that leaves with what it has got
// closes here, and not when Done is closed or when Read returns, for word leaves in the world's next tick. A second OnEnd takes the place
// of the first.
func (i Incoming) OnEnd(fn func(err error)) { i.in.delivery.ended = fn }

// SetStore makes the transfer use store instead of Config.Store; nil: none. Call it in the handler that is given the transfer: once that
// returns, the store is asked for the content.
func (i Incoming) SetStore(store Store) { i.in.store = store }

// incoming is a transfer at its receiver. The world's goroutine adds its parts to arrival and tells the sender, by answer, how far
// it may go. The writer, a goroutine of its own, takes them from there in order, hashes, stores and decodes them, and gives them to
// delivery. From there the application takes them, on a goroutine of its own or in a tick.
type incoming struct {
	peer *Peer

	// Written on the world's goroutine before start starts the writer, and only read afterwards.
	header header
	known  bool       // the header has come; before that only its id is set
	decode decodeFunc // arrays only
	store  Store      // nil: none; the handler may change it

	// Owned by the world's goroutine.
	waits   bool      // for memory: its header has come, and no handler has it
	came    time.Time // when its header came
	records int64     // what is borrowed for its records, and for its goroutines once it runs

	// mu guards this group, and the fields of arrival, delivery and answer.
	mu       sync.Mutex
	finished bool
	err      error
	done     chan struct{} // closed when finished

	unread   *time.Timer // rejects the transfer when nobody begins to read it; nil until the handler has it
	arrival  arrival
	delivery delivery
	answer   answer
}

func newIncoming(p *Peer, id uint64) *incoming {
	in := &incoming{peer: p, header: header{id: id, size: -1}, store: p.streams.config.Store, done: make(chan struct{})}
	in.arrival.in, in.delivery.in, in.answer.in = in, in, in
	in.arrival.changed.L, in.delivery.ready.L = &in.mu, &in.mu
	in.arrival.parts.limit = p.receiver.mostEarly()
	in.arrival.usage = newUsage(time.Now(), 0)
	return in
}

// begin notes the header. An error is the sender's violation.
func (in *incoming) begin(h header) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.header, in.known = h, true
	return in.arrival.checkEnd()
}

// start gives the transfer to its handler, and starts the writer unless the handler has rejected it.
func (in *incoming) start(t topic) {
	in.guard("the handler", func() { t.open(in) })
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.finished {
		in.expectReader()
		in.delivery.speed.start(time.Now(), 0)
		in.peer.streams.writing.Begin(&in.peer.receiver.writing)
		go (&writer{in: in}).run()
	}
}

// expectReader rejects the transfer after Config.ReadTime, unless somebody reads it by then. The caller holds the lock.
func (in *incoming) expectReader() {
	if in.delivery.onTick || in.delivery.read {
		return
	}
	most := in.peer.streams.config.readTime()
	in.unread = time.AfterFunc(most, func() {
		in.finish(stopped(ErrRejected, fmt.Errorf("nobody has read it for %v (stream.Config.ReadTime)", most)))
	})
}

// readerCame notes that somebody reads the transfer. The caller holds the lock.
func (in *incoming) readerCame() {
	if in.delivery.read {
		return
	}
	in.delivery.read = true
	if in.unread != nil {
		in.unread.Stop()
	}
}

// guard runs fn, which calls a function of the game. When that panics, the transfer fails, and the panic goes on unless
// rpc.Config.OnPanic takes it.
func (in *incoming) guard(what string, fn func()) (returned bool) {
	defer func() {
		if !returned {
			in.finish(fmt.Errorf("%w: %s", ErrPanicked, what))
		}
	}()
	return in.peer.streams.world.Guard(in.peer.conn, func() string { return in.header.function(what) }, fn)
}

// finish ends the transfer at this end; err is nil when all was consumed. Only the first call counts.
func (in *incoming) finish(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finishLocked(err)
}

func (in *incoming) finishLocked(err error) {
	if in.finished {
		return
	}
	in.finished = true
	in.peer.noteEnd(&in.peer.received, err)
	if err != nil {
		in.err = ending(err, byReceiver, in.peer.conn, &in.header, in.progressLocked())
		in.delivery.speed = speed{}
	} else {
		in.delivery.speed.end(time.Now(), in.delivery.units)
	}
	close(in.done)
	in.readerCame() // or needs not come any more
	in.answer.remind.stop()
	in.arrival.free()
	in.delivery.free()
	in.peer.wake()
}

// withdraw gives back the memory that was promised for its credit.
func (in *incoming) withdraw() {
	in.peer.account.Withdraw(in.answer.promised)
	in.answer.promised = 0
}

// waitsForSender reports whether the transfer goes on as soon as its sender sends what it may: neither the store nor the application holds it
// up. The caller holds the lock.
func (in *incoming) waitsForSender() bool {
	return !in.finished && (in.answer.replied || !in.known) && len(in.arrival.parts.ready) == 0 && len(in.delivery.pieces) == 0
}

// takeBack gives back the memory that was promised for credit that the sender has not used lately. When it does use that, cover has the
// memory promised anew, if there is some then. It reports whether the transfer is stuck, and since when nothing has come: the sender owes what it
// waits for, and has brought less of it lately than the memory that waits with it.
func (in *incoming) takeBack(now time.Time) (since time.Time, stuck bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.waitsForSender() {
		return since, false
	}
	recent, needs := in.arrival.usage.recent(now, in.arrival.parts.next), int64(0)
	if recent > 0 {
		needs = heldBytes(min(recent, in.answer.credit.ahead))
	}
	if over := in.answer.promised - needs; over > 0 {
		in.peer.account.Withdraw(over)
		in.answer.promised = needs
	}
	return in.arrival.usage.moved, recent == 0 || recent < in.arrival.parts.held
}

// holds returns how much of the account is charged for what the transfer holds.
func (in *incoming) holds() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.records + in.arrival.parts.held + in.arrival.taken + in.delivery.borrowed
}

// holder returns whose transfer it is, and whether it holds content.
func (in *incoming) holder() (conn *rpc.Conn, holds bool) {
	return in.peer.conn, in.holds() > incomingBytes
}

// evict ends a transfer that is stuck, for others need its memory.
func (in *incoming) evict(idle time.Duration) {
	in.peer.receiver.evicted++
	in.finish(fmt.Errorf("%w: nothing that can be used has come for %v, and others need its part of stream.Config.MaxMemory, %d bytes",
		ErrRejected, idle, in.peer.streams.config.maxMemory()))
	in.withdraw()
}

// heard returns the number of bytes that have come over the transfer's connection, from which the writer of another transfer tells
// whether this one is dead. They tell nothing when the connection is p's own or somebody else's, or when the transfer may stand still
// because the application takes nothing.
func (in *incoming) heard(p *Peer) (bytes uint64, telling bool) {
	if in == nil || in.peer == p || extend.PartyOf(in.peer.conn) != extend.PartyOf(p.conn) {
		return 0, false
	}
	in.mu.Lock()
	paused := len(in.delivery.pieces) > 0
	in.mu.Unlock()
	s := in.peer.conn.Stats()
	return s.BytesIn + s.SliceBytesIn, !paused
}

// cause returns why the transfer failed, nil when it did not.
func (in *incoming) cause() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// ended returns nil while the transfer goes on, and after that the error of endedLocked.
func (in *incoming) ended() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.finished {
		return nil
	}
	return in.endedLocked()
}

// endedLocked returns the error with which the writer's waits end once the transfer has ended: err, or io.EOF.
func (in *incoming) endedLocked() error {
	if in.err != nil {
		return in.err
	}
	return io.EOF
}

func (in *incoming) progress() Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	p := in.progressLocked()
	p.Rate = in.delivery.speed.at(time.Now())
	return p
}

// progressLocked returns the progress without its Rate. The caller holds the lock.
func (in *incoming) progressLocked() Progress {
	p := Progress{Sent: in.arrival.parts.next, Acked: in.delivery.units, Total: in.header.total(), Resumed: in.answer.resumed}
	switch {
	case in.header.kind == kindArray:
		p.Sent = p.Acked + in.delivery.waiting()
	case in.arrival.tail != nil:
		p.Total = in.arrival.tail.size
	}
	return p
}
