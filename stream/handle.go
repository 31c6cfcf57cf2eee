package stream

import (
	"fmt"

	"github.com/quivernet/quiver/rpc"
)

// Incoming is what the receiving ends of blobs and arrays have in common. Its methods are safe from any goroutine,
// but for OnEnd.
type Incoming struct{ in *incoming }

// Conn is who sends.
func (i Incoming) Conn() *rpc.Conn { return i.in.peer.conn }

// Name is what the sender called the transfer. It is any string from outside: not a path.
func (i Incoming) Name() string { return i.in.header.name }

// Key is what the sender calls the content.
func (i Incoming) Key() string { return i.in.header.key }

// Progress returns one consistent snapshot. Total is known from the beginning where the sender knows it.
func (i Incoming) Progress() Progress { return i.in.progress() }

// Done is closed when the transfer has ended: when all was consumed here and its digest was right, or when it failed.
func (i Incoming) Done() <-chan struct{} { return i.in.done }

// Err is why the transfer failed; nil while it goes on and when it is complete.
func (i Incoming) Err() error { return i.in.cause() }

// Reject refuses the transfer, or what is left of it. Both ends see an error that Is ErrRejected, the sender with the
// text of reason, cut to 256 bytes. It never waits.
func (i Incoming) Reject(reason error) { i.in.finish(stopped(ErrRejected, reason)) }

// Cancel gives the transfer up. Both ends see an error that Is ErrCanceled. It never waits.
func (i Incoming) Cancel(cause error) { i.in.finish(canceled(cause)) }

// OnEnd runs fn on the world's goroutine when the transfer has ended, with what Err returns. It is for the handler
// that is given the transfer.
func (i Incoming) OnEnd(fn func(err error)) { i.in.delivery.ended = fn }

// SetStore has the transfer kept in store instead of Config.Store, nil: nowhere. It is for the handler that is given the transfer,
// before that returns: nothing was asked of a store yet.
func (i Incoming) SetStore(store Store) { i.in.store = store }

// Progress is a snapshot of a transfer, in bytes of a blob or elements of an array.
type Progress struct {
	// Sent is what has left the sender for the connection, where some of it may wait; at the receiver, what has arrived in order.
	Sent int64
	// Acked is what the receiving application has consumed, as far as is known here: what a progress bar shows.
	Acked int64
	// Total is -1 while it is not known.
	Total int64
	// Resumed is what was at the receiver before the transfer began, and did not travel again.
	Resumed int64
}

// of is n of the total, where that is known.
func (p Progress) of(n int64) string {
	if p.Total < 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, p.Total)
}
