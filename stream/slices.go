package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// sliceRoute is the [route] that sends parts as chunks. It calls the machine of slices, within [extend.Drive], under the lock of the
// connection's link. It belongs to the world's goroutine.
type sliceRoute struct {
	conn  *rpc.Conn
	link  *sliceLink
	queue time.Duration // how long the unsent slices may take to leave; each tick sets it
	ended bool          // the machine was told that no part will follow

	handed int64 // bytes of messages that the machine has handed over
	usage  usage // of the machine's memory for them
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	return &sliceRoute{conn: conn, link: sliceLinkOf(conn), usage: newUsage(time.Now(), 0)}
}

// sliceLinkOf returns the machine that Install has added to each connection.
func sliceLinkOf(conn *rpc.Conn) *sliceLink { return extend.Of(conn, sliceProtocol).(*sliceLink) }

// open reports whether the machine takes one more part. Before it has measured the path it gets the round trip of the connection.
func (s *sliceRoute) open() (open bool) {
	unmeasured := false
	extend.Drive(s.conn, func() {
		open, unmeasured = s.link.Open(s.queue), s.link.Unmeasured()
	})
	if unmeasured {
		rtt := extend.Stats(s.conn) // it takes the lock of the link, so not within Drive
		extend.Drive(s.conn, func() { s.link.Assume(rtt.SmoothedRTT, rtt.RTTVar) })
	}
	return open
}

// send gives the block to the machine, which frees it when all of its slices are acked.
func (s *sliceRoute) send(b *block, id uint64) (err error) {
	message := b.message(id)
	b.sliced = true
	extend.Drive(s.conn, func() { err = s.link.Send(message, b) })
	if err != nil {
		b.sliced = false
		b.Free()
	}
	return err
}

func (s *sliceRoute) watch() { extend.Drive(s.conn, func() { s.link.Watch(s.queue) }) }

// end tells the machine whether no part will follow: the last chunk then gets repair slices.
func (s *sliceRoute) end(ended bool) {
	if ended != s.ended {
		s.ended = ended
		extend.Drive(s.conn, func() { s.link.End(ended) })
	}
}

// discard frees what the peer has sent, when its connection ends.
func (s *sliceRoute) discard() { extend.Drive(s.conn, func() { s.link.Discard() }) }

// yield frees what the peer sends again.
func (s *sliceRoute) yield() { extend.Drive(s.conn, func() { s.link.Yield() }) }

// received calls handle, which must not keep it, with each message that has arrived.
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

// stats is safe for concurrent use.
func (s *sliceRoute) stats() (now slices.Stats) {
	extend.Drive(s.conn, func() { now = s.link.Stats() })
	return now
}

// sliceProtocol is the first byte of a datagram with a packet of package chunk behind it.
const sliceProtocol = 0x02

const (
	// awaitedSlices is how many slices the largest part takes.
	awaitedSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// goOnBytes is the room for the chunk that content waits for, in whole pages of 8 KiB, and for the machine's records.
	goOnBytes = (awaitedSlices*slices.Size+8191)/8192*8192 + slices.ReceiverBytes
)

// sliceLink is the machine of slices of one connection, which the connection's link drives under its lock. Others call it within
// [extend.Drive]; account and news need no lock.
type sliceLink struct {
	*slices.Machine
	account *budget.Account
	news    atomic.Bool // messages have arrived: spares the world's goroutine the lock when there are none
	ended   *Peer       // of the connection, once the world has told of its end: for who asks for its Stats; guarded by Streams.mu
}

func newSliceLink(account *budget.Account) *sliceLink {
	return &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
}

// Wake reports, once, that there is something for the world's goroutine, and sets news. The link calls it.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}

// Drained is always true: a connection that closes does not wait for bulk.
func (l *sliceLink) Drained() bool { return true }

var _ extend.Machine = (*sliceLink)(nil)
