package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// A sliceRoute is the [route] that sends parts as chunks. It calls the machine of slices
// within [extend.Drive], under the lock of the connection's link. It is used on the world's
// goroutine only.
type sliceRoute struct {
	conn  *rpc.Conn
	link  *sliceLink
	queue time.Duration // maximum time that the queued slices may take to send; set by each tick
	ended bool          // the machine was told that no more parts follow

	handed int64 // bytes of messages taken from the machine
	usage  usage // of the machine's memory for messages
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	return &sliceRoute{conn: conn, link: sliceLinkOf(conn), usage: newUsage(time.Now(), 0)}
}

// sliceLinkOf returns the machine that Install adds to each connection.
func sliceLinkOf(conn *rpc.Conn) *sliceLink { return extend.Of(conn, sliceProtocol).(*sliceLink) }

// open reports whether the machine accepts one more part. Until the machine has measured the
// path, it uses the connection's round trip time.
func (s *sliceRoute) open() (open bool) {
	unmeasured := false
	extend.Drive(s.conn, func() {
		open, unmeasured = s.link.Open(s.queue), s.link.Unmeasured()
	})
	if unmeasured {
		rtt := extend.Stats(s.conn) // takes the lock of the link, so it must be outside Drive
		extend.Drive(s.conn, func() { s.link.Assume(rtt.SmoothedRTT, rtt.RTTVar) })
	}
	return open
}

// send passes the block to the machine, which frees the block when all of its slices are
// acked.
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

func (s *sliceRoute) watch() { extend.Drive(s.conn, func() { s.link.Watch(s.queue) }) }

// end tells the machine whether more parts follow. If none do, the last chunk gets repair
// slices.
func (s *sliceRoute) end(ended bool) {
	if ended != s.ended {
		s.ended = ended
		extend.Drive(s.conn, func() { s.link.End(ended) })
	}
}

// discard frees everything that the peer has sent, at the end of its connection.
func (s *sliceRoute) discard() { extend.Drive(s.conn, func() { s.link.Discard() }) }

// yield frees those received slices that the peer will send again.
func (s *sliceRoute) yield() { extend.Drive(s.conn, func() { s.link.Yield() }) }

// received calls handle with each message that has arrived. handle must not keep the message.
func (s *sliceRoute) received(handle func(message []byte)) {
	if !s.link.news.Swap(false) {
		return
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

// sliceProtocol is the first byte of a datagram that holds a packet of package chunk.
const sliceProtocol = 0x02

const (
	// awaitedSlices is the number of slices in the largest part.
	awaitedSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// goOnBytes is the memory for the chunk that content waits for, in whole pages of 8 KiB,
	// and for the machine's records.
	goOnBytes = (awaitedSlices*slices.Size+8191)/8192*8192 + slices.ReceiverBytes
)

// A sliceLink is the machine of slices of one connection. The connection's link drives it
// under the link's lock. Others call it within [extend.Drive]. account and news need no lock.
type sliceLink struct {
	*slices.Machine
	account *budget.Account
	news    atomic.Bool // messages have arrived; if false, the world's goroutine need not take the lock
	// The peer, once the world has reported the end of the connection. It serves callers that
	// still ask for its Stats. Guarded by Streams.mu.
	ended *Peer
}

func newSliceLink(account *budget.Account) *sliceLink {
	return &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
}

// Wake reports, once, that there is something for the world's goroutine, and sets news. The
// link calls Wake.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}

// Drained always returns true, because a connection that closes does not wait for bulk.
func (l *sliceLink) Drained() bool { return true }

var _ extend.Machine = (*sliceLink)(nil)
