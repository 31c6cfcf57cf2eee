package stream

import (
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc"
)

// endGrace is how long a world may still handle messages, such as done, that arrived before their
// connection ended. After that, the remaining transfers fail. A world that ticks normally finishes
// sooner, so this matters only if ticks have stopped.
const endGrace = time.Second

// A liveSet holds the transfers of one connection that have not ended, in both directions. It
// fails them when the connection ends, even if the world is no longer driven. It is safe for
// concurrent use.
type liveSet struct {
	closed chan struct{} // closed when err is set

	// mu guards the fields below.
	mu      sync.Mutex
	err     error // why the connection ended; nil until then. It needs no mu once closed is closed.
	watched bool  // watch has started its goroutine

	// An outgoing transfer stays in the map from Start until the receiver has sent done or reject.
	// An incoming transfer stays in the map from its arrival until we have sent done or reject.
	transfers map[ender]struct{}
	outgoing  int // number of outgoing transfers in transfers
}

// An ender is a *Transfer or an *incoming.
type ender interface{ finish(err error) }

func newLive() *liveSet {
	return &liveSet{transfers: make(map[ender]struct{}), closed: make(chan struct{})}
}

// addOutgoing adds an outgoing transfer, and returns how many there are now. It fails if there
// are limit of them already, or if the connection has ended.
func (l *liveSet) addOutgoing(t *Transfer, limit int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return 0, l.err
	case l.outgoing >= limit:
		return 0, fmt.Errorf("stream: %s: %s in progress or waiting; the limit is %d (stream.Config.MaxQueued): %w",
			t.name(), words.Plural(l.outgoing, "transfer is", "transfers are"), limit, rpc.ErrBacklogFull)
	}
	l.transfers[t] = struct{}{}
	l.outgoing++
	return l.outgoing, nil
}

// addIncoming adds an incoming transfer. It returns false if the connection has ended.
func (l *liveSet) addIncoming(in *incoming) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.transfers[in] = struct{}{}
	return true
}

// appendOutgoing appends the outgoing transfers that have not ended. One that we have canceled may
// still be in the set, until the receiver confirms it.
func (l *liveSet) appendOutgoing(transfers []*Transfer) []*Transfer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.transfers {
		if t, ok := t.(*Transfer); ok && !bell.Closed(t.done) {
			transfers = append(transfers, t)
		}
	}
	return transfers
}

// remove removes a transfer, if it's still there.
func (l *liveSet) remove(t ender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.transfers[t]; !ok {
		return
	}
	delete(l.transfers, t)
	if _, ok := t.(*Transfer); ok {
		l.outgoing--
	}
}

// watch starts a goroutine on its first call. The goroutine calls onTimeout if the world
// doesn't end the transfers within endGrace after conn has ended.
func (l *liveSet) watch(conn *rpc.Conn, onTimeout func(cause error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watched {
		l.watched = true
		go afterEnd(conn.Done(), l.closed, l.grace, func() { onTimeout(conn.Err()) })
	}
}

// grace returns endGrace, or 0 if there are no transfers to wait for.
func (l *liveSet) grace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.transfers) == 0 {
		return 0
	}
	return endGrace
}

// afterEnd waits until parentDone is closed, because a connection or a world has ended. It calls
// onTimeout after the grace period that follows, unless done is closed first.
func afterEnd(parentDone, done <-chan struct{}, grace func() time.Duration, onTimeout func()) {
	select {
	case <-done:
		return
	case <-parentDone:
	}
	timer := time.NewTimer(grace())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		onTimeout()
	}
}

// failAll fails all transfers, after which none can be added. Only the first call has an effect.
func (l *liveSet) failAll(cause error) {
	err := fmt.Errorf("%w: %w", ErrClosed, cause)
	for t := range l.markClosed(err) {
		t.finish(err)
	}
}

// markClosed sets err and returns the transfers that must fail, or none if err was already set.
func (l *liveSet) markClosed(err error) (failing map[ender]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.err = err
	close(l.closed)
	failing = l.transfers
	l.transfers = nil
	return failing
}
