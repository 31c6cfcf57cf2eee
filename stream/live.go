package stream

import (
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// endGrace is the time for which the transfers of a connection that has ended wait for the
// world. They wait so that the world can handle messages that arrived before the end, such as
// done. A world that is driven ends the transfers sooner.
const endGrace = time.Second

// A live holds the transfers of one connection that have not ended, in both directions. It
// fails them when the connection ends, even if the world is no longer driven. It is safe for
// concurrent use.
type live struct {
	// mu guards the fields below.
	mu sync.Mutex
	// Outgoing transfers are here from Start until the receiver has sent done or reject, and
	// incoming ones until this end has sent done or reject.
	transfers map[ender]struct{}
	outgoing  int           // number of outgoing transfers
	watched   bool          // watch has started the goroutine that waits for the connection's end
	err       error         // why the connection ended; nil if it has not
	over      chan struct{} // closed when err is set
}

// An ender is a *Transfer or an *incoming.
type ender interface{ finish(err error) }

func newLive() *live { return &live{transfers: make(map[ender]struct{}), over: make(chan struct{})} }

// addOutgoing adds an outgoing transfer and returns the number of outgoing transfers. It fails
// if there are already limit of them, or if the connection has ended.
func (l *live) addOutgoing(t *Transfer, limit int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return 0, l.err
	case l.outgoing >= limit:
		return 0, fmt.Errorf("stream: %v to %v: %d transfers are under way or waiting, "+
			"the limit is stream.Config.MaxQueued, %d: %w",
			&t.header, t.peer.conn, l.outgoing, limit, rpc.ErrBacklogFull)
	}
	l.transfers[t] = struct{}{}
	l.outgoing++
	return l.outgoing, nil
}

// addIncoming adds an incoming transfer. It returns false if the connection has ended.
func (l *live) addIncoming(in *incoming) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.transfers[in] = struct{}{}
	return true
}

// remove removes a transfer.
func (l *live) remove(t ender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.transfers[t]; !there {
		return
	}
	delete(l.transfers, t)
	if _, is := t.(*Transfer); is {
		l.outgoing--
	}
}

// watch starts a goroutine on its first call. When conn has ended and the world has not ended
// the transfers in time, the goroutine calls ended.
func (l *live) watch(conn *rpc.Conn, ended func(cause error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watched {
		l.watched = true
		go afterEnd(conn.Done(), l.over, l.grace, func() { ended(conn.Err()) })
	}
}

// grace returns endGrace, or 0 if there are no transfers.
func (l *live) grace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.transfers) == 0 {
		return 0
	}
	return endGrace
}

// afterEnd waits until end is closed, because a connection or a world has ended, and then for
// the duration grace. After that it calls ended, unless over was closed earlier.
func afterEnd(end, over <-chan struct{}, grace func() time.Duration, ended func()) {
	select {
	case <-over:
		return
	case <-end:
	}
	timer := time.NewTimer(grace())
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		ended()
	}
}

// end fails all transfers, and those that are added later. Only the first call has an effect.
func (l *live) end(cause error) {
	for t := range l.close(fmt.Errorf("%w: %w", ErrClosed, cause)) {
		t.finish(l.err)
	}
}

// close sets err and returns the transfers to fail. If err was already set, it returns none.
func (l *live) close(err error) (failing map[ender]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.err = err
	close(l.over)
	failing = l.transfers
	l.transfers = nil
	return failing
}
