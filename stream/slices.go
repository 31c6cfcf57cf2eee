package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// A sliceRoute is the [route] that sends parts as chunks. A chunk is a large message that the
// slice machine (package internal/slices) cuts into datagrams.
//
// The machine belongs to the connection's link, so it's only called within [extend.Drive], which
// locks the link. The sliceRoute itself is only used on the world's goroutine.
type sliceRoute struct {
	conn  *rpc.Conn
	link  *sliceLink
	queue time.Duration // maximum time to send the queued slices; set by each tick
	ended bool          // the machine was told that no more parts follow

	// What arrived through the machine, to judge how much memory it needs.
	received int64 // bytes of messages
	usage    usage
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	return &sliceRoute{conn: conn, link: sliceLinkOf(conn), usage: newUsage(time.Now(), 0)}
}

// sliceLinkOf returns the slice machine of a connection. Install adds one to each.
func sliceLinkOf(conn *rpc.Conn) *sliceLink { return extend.Of(conn, sliceProtocol).(*sliceLink) }

// prepare reports whether the machine accepts another part. It also passes the connection's
// round-trip time to the machine until the machine has measured the path itself.
func (s *sliceRoute) prepare() (open bool) {
	unmeasured := false
	extend.Drive(s.conn, func() {
		open = s.link.CanSend(s.queue)
		unmeasured = s.link.Unmeasured()
	})
	if unmeasured {
		path := extend.Stats(s.conn) // not within Drive, since it locks the link as well
		extend.Drive(s.conn, func() { s.link.Assume(path.SmoothedRTT, path.RTTVar) })
	}
	return open
}

// send gives the block to the machine, which frees the block when the peer has acked all of its
// slices.
func (s *sliceRoute) send(b *block, id uint64) (err error) {
	message := b.message(id)
	b.sentAsSlices = true
	extend.Drive(s.conn, func() { err = s.link.Send(message, b) })
	if err != nil {
		b.sentAsSlices = false
		b.Free()
	}
	return err
}

// watch asks for a tick when the machine accepts another part.
func (s *sliceRoute) watch() { extend.Drive(s.conn, func() { s.link.Watch(s.queue) }) }

// setEnded tells the machine whether the last part has been sent. If it has, the machine adds
// repair slices to the last chunk, which are redundant slices that replace lost ones.
func (s *sliceRoute) setEnded(ended bool) {
	if ended != s.ended {
		s.ended = ended
		extend.Drive(s.conn, func() { s.link.SetNoMore(ended) })
	}
}

// discard frees everything that the peer has sent. It's called when the connection ends.
func (s *sliceRoute) discard() { extend.Drive(s.conn, func() { s.link.Discard() }) }

// dropRepairs frees received repair slices that are still waiting for other slices of their chunk.
// They are dispensable, since the peer resends whatever they would have restored.
func (s *sliceRoute) dropRepairs() { extend.Drive(s.conn, func() { s.link.DropRepairs() }) }

// receive calls handle with each message that has arrived. handle must not retain it.
func (s *sliceRoute) receive(handle func(message []byte)) {
	if !s.link.woken.Swap(false) {
		return // as in most ticks, which then needn't lock the link
	}
	var batch [][]byte
	extend.Drive(s.conn, func() { batch = s.link.Take() })
	for _, message := range batch {
		before := s.received
		s.received += int64(len(message))
		s.usage.move(time.Now(), before, s.received)
		s.link.Release(message)
		handle(message)
	}
	extend.Drive(s.conn, func() { s.link.GiveBack(batch) })
}

// stats returns the machine's counters. It is safe for concurrent use.
func (s *sliceRoute) stats() (now slices.Stats) {
	extend.Drive(s.conn, func() { now = s.link.Stats() })
	return now
}

// sliceProtocol is the first byte of a datagram that carries a packet of the slice machine.
const sliceProtocol = 0x02

const (
	// largestPartSlices is the number of slices in the largest part.
	largestPartSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// allocationPage is the unit of large allocations in the Go runtime.
	allocationPage = 8192
	// recordsBytes is the memory for the records of a slice machine while it receives.
	recordsBytes = slices.ReceiverBytes + slices.RecordsBytes
	// goOnBytes is the memory that a transfer needs to make progress: enough for the chunk that
	// its content is waiting for, and for the machine's records.
	goOnBytes = (largestPartSlices*slices.Size+allocationPage-1)/allocationPage*allocationPage + recordsBytes
)

// A sliceLink is the slice machine of one connection. The connection's link drives it, under the
// link's lock. All other code must call it within [extend.Drive].
type sliceLink struct {
	*slices.Machine

	// Safe for concurrent use.
	account *budget.Account
	woken   atomic.Bool // set by Wake and cleared by receive

	// ended is the connection's peer once the world has reported the end of the connection, for
	// callers that still want its Stats. Guarded by Streams.mu.
	ended *Peer
}

func newSliceLink(account *budget.Account, random func(n int) int) *sliceLink {
	l := &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
	l.Withhold(random)
	return l
}

// Receive implements extend.Machine. An error ends the connection, with the code that bunch has for
// acks of packets that were never sent.
func (l *sliceLink) Receive(now time.Time, datagram []byte) error {
	if err := l.Machine.Receive(now, datagram); err != nil {
		return &bunch.Error{Code: bunch.AckSequenceMismatch, Reason: err.Error()}
	}
	return nil
}

// Wake implements extend.Machine. Like the slice machine's Wake, it reports whether something new
// has arrived for the world's goroutine. It also tells receive.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.woken.Store(true)
	return true
}

// Drained implements extend.Machine. It always returns true, because a connection that closes
// doesn't wait for transfers.
func (l *sliceLink) Drained() bool { return true }

var _ extend.Machine = (*sliceLink)(nil)
