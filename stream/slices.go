package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// A sliceRoute is the [route] that sends parts as chunks. A chunk is a large message that the
// slice machine (package internal/slices) cuts into datagrams.
//
// The machine belongs to the connection's link, so we only call it within [extend.Drive], which
// holds the link's lock. The sliceRoute itself is only used on the world's goroutine.
type sliceRoute struct {
	conn  *rpc.Conn
	link  *sliceLink
	queue time.Duration // how long the queued slices may take to send; set by each tick
	ended bool          // we told the machine that no more parts follow

	// What arrived through the machine, to judge how much memory it needs.
	handed int64 // bytes of messages that it handed to us
	usage  usage
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	return &sliceRoute{conn: conn, link: sliceLinkOf(conn), usage: newUsage(time.Now(), 0)}
}

// sliceLinkOf returns the slice machine of a connection. Install adds one to each.
func sliceLinkOf(conn *rpc.Conn) *sliceLink { return extend.Of(conn, sliceProtocol).(*sliceLink) }

// prepare reports whether the machine accepts another part. Until the machine has measured the path
// itself, it uses the connection's round-trip time.
func (s *sliceRoute) prepare() (open bool) {
	unmeasured := false
	extend.Drive(s.conn, func() {
		open, unmeasured = s.link.Open(s.queue), s.link.Unmeasured()
	})
	if unmeasured {
		rtt := extend.Stats(s.conn) // not within Drive, since it takes the link's lock too
		extend.Drive(s.conn, func() { s.link.Assume(rtt.SmoothedRTT, rtt.RTTVar) })
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
// repair slices to the last chunk. Repair slices are redundant, in case others get lost.
func (s *sliceRoute) setEnded(ended bool) {
	if ended != s.ended {
		s.ended = ended
		extend.Drive(s.conn, func() { s.link.End(ended) })
	}
}

// discard frees everything that the peer has sent, when its connection ends.
func (s *sliceRoute) discard() { extend.Drive(s.conn, func() { s.link.Discard() }) }

// yield frees received repair slices that still wait for other slices of their chunk. We can do
// without them, since the peer resends whatever they would have restored.
func (s *sliceRoute) yield() { extend.Drive(s.conn, func() { s.link.Yield() }) }

// receive calls handle with each message that has arrived. handle must not retain it.
func (s *sliceRoute) receive(handle func(message []byte)) {
	if !s.link.news.Swap(false) {
		return // as in most ticks, so they needn't take the lock
	}
	var batch [][]byte
	extend.Drive(s.conn, func() { batch = s.link.Take() })
	for _, message := range batch {
		s.usage.move(time.Now(), s.handed, s.handed+int64(len(message)))
		s.handed += int64(len(message))
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
	// awaitedSlices is the number of slices in the largest part.
	awaitedSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// goOnBytes is the memory that a transfer needs to make progress: enough for the chunk that
	// its content waits for, in whole pages of 8 KiB, and for the machine's records.
	goOnBytes = (awaitedSlices*slices.Size+8191)/8192*8192 + slices.ReceiverBytes
)

// A sliceLink is the slice machine of one connection. The connection's link drives it, under the
// link's lock. All other code must call it within [extend.Drive].
type sliceLink struct {
	*slices.Machine

	// These need no lock.
	account *budget.Account
	news    atomic.Bool // set by Wake: there's something that receive hasn't looked at yet

	// ended is the peer, once the world has reported that the connection ended. It's for
	// callers that still ask for its Stats. Guarded by Streams.mu.
	ended *Peer
}

func newSliceLink(account *budget.Account) *sliceLink {
	return &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
}

// Wake is called by the link. It reports whether there's something new for the world's goroutine
// to look at. It reports the same news only once.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}

// Drained always returns true, because a connection that closes doesn't wait for transfers.
func (l *sliceLink) Drained() bool { return true }

var _ extend.Machine = (*sliceLink)(nil)
