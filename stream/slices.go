package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// sliceRoute is the route of chunks: what the world's goroutine, to which it belongs, asks of the machine of slices under the lock
// of the connection's link.
type sliceRoute struct {
	conn  *rpc.Conn
	link  *sliceLink
	queue time.Duration // that may wait unsent; each tick sets it
	ended bool          // the machine was told that no part will follow
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	return &sliceRoute{conn: conn, link: sliceLinkOf(conn)}
}

func sliceLinkOf(conn *rpc.Conn) *sliceLink { return guest.Of(conn, sliceProtocol).(*sliceLink) }

func (s *sliceRoute) open(Backend) (open bool) {
	unmeasured := false
	guest.Drive(s.conn, func(time.Time) {
		open, unmeasured = s.link.Open(s.queue), s.link.Unmeasured()
	})
	if unmeasured {
		rtt := s.conn.Stats() // takes the lock
		guest.Drive(s.conn, func(time.Time) { s.link.Assume(rtt.SmoothedRTT, rtt.Jitter) })
	}
	return open
}

// send keeps the block until all of its slices are acked.
func (s *sliceRoute) send(_ Backend, b *block, id uint64) (err error) {
	message := b.message(id)
	guest.Drive(s.conn, func(time.Time) { err = s.link.Send(message, b) })
	if err != nil {
		b.Free()
	}
	return err
}

func (s *sliceRoute) watch(Backend) { guest.Drive(s.conn, func(time.Time) { s.link.Watch(s.queue) }) }

// end tells whether no part will follow those that were given.
func (s *sliceRoute) end(ended bool) {
	if ended != s.ended {
		s.ended = ended
		guest.Drive(s.conn, func(time.Time) { s.link.End(ended) })
	}
}

// shrink gives up the memory that is spare for messages to come.
func (s *sliceRoute) shrink() { guest.Drive(s.conn, func(time.Time) { s.link.Shrink() }) }

// received gives the messages that arrived to handle, which must not keep them.
func (s *sliceRoute) received(handle func(message []byte)) {
	if !s.link.news.Swap(false) {
		return
	}
	var batch [][]byte
	guest.Drive(s.conn, func(time.Time) { batch = s.link.Take() })
	for _, message := range batch {
		s.link.Release(message)
		handle(message)
	}
	guest.Drive(s.conn, func(time.Time) { s.link.GiveBack(batch) })
}

// stats is safe from any goroutine.
func (s *sliceRoute) stats() (now slices.Stats) {
	guest.Drive(s.conn, func(time.Time) { now = s.link.Stats() })
	return now
}

// sliceProtocol is the first byte of a datagram with a packet of package chunk behind it.
const sliceProtocol = 0x02

const (
	// awaitedSlices has the largest part that a sender makes.
	awaitedSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// goOnBytes is the room for a chunk that is waited for, and for the records before it, in whole pages.
	goOnBytes = (awaitedSlices*slices.Size+8191)/8192*8192 + slices.ReceiverBytes
)

// sliceLink is the machine of slices of a connection, whose link drives it. All but the account and news is reached within
// [guest.Drive].
type sliceLink struct {
	*slices.Machine
	account *budget.Account
	news    atomic.Bool // for the world's goroutine, which need not take the lock to see that there is none
}

func newSliceLink(account *budget.Account) *sliceLink {
	return &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
}

// Wake reports, once, that the world's goroutine finds news.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}

// Drained is always true: a connection that closes does not wait for bulk.
func (l *sliceLink) Drained() bool { return true }

// Copies says that the machine keeps nothing of what it receives.
func (l *sliceLink) Copies() {}

// sliceLink is a machine that the link drives.
var _ guest.Machine = (*sliceLink)(nil)
