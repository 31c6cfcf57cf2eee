package rpctest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/rpc"
)

const (
	// maxDatagram is the maximum size of a datagram on a path that QUIC hasn't probed yet.
	maxDatagram = 1163

	// maxArrived is the maximum number of unread datagrams that an end buffers. Further datagrams
	// are lost, as in a socket.
	maxArrived = 4096
)

var (
	errClosed  = errors.New("rpctest: closed")  // we closed the end
	errCrashed = errors.New("rpctest: crashed") // its world crashed
)

// An end is one end of a path between a client and the server. It implements [rpc.Carrier].
type end struct {
	hub  *hub
	out  *link // to the peer
	peer *end
	addr net.Addr // the peer's address; nil at a client's end

	// ended is done when the end has ended. Its cause is the error that the end's methods return.
	ended  context.Context
	cancel context.CancelCauseFunc

	more bell.Bell // rung when something arrives

	mu sync.Mutex // guards arrived

	// At most maxArrived datagrams. This isn't a channel, because a channel of this size would take
	// 96 KiB for each end, even for an end that has long ended.
	arrived [][]byte
}

func newEnd(h *hub) *end {
	e := &end{hub: h, more: bell.New()}
	e.ended, e.cancel = context.WithCancelCause(context.Background())
	return e
}

// SendDatagram implements [rpc.Carrier]. It never blocks.
func (e *end) SendDatagram(p []byte) error {
	if err := context.Cause(e.ended); err != nil {
		return err
	}
	if len(p) > maxDatagram {
		return &rpc.TooLargeError{Max: maxDatagram}
	}
	e.hub.send(e.out, p)
	return nil
}

// SendQueue returns the number of datagrams that the end accepts before SendDatagram blocks.
// Because the end has this method, package rpc sends calls without the help of another goroutine.
func (e *end) SendQueue() int { return maxArrived }

// ReceiveDatagram implements [rpc.Carrier]. After the end has been closed, it still returns the
// datagrams that arrived earlier. Only one goroutine calls it.
func (e *end) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	for {
		if p, ok := e.take(); ok {
			return p, nil
		}
		select {
		case <-e.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-e.ended.Done():
			// A packet may have arrived at the same instant.
			if p, ok := e.take(); ok {
				return p, nil
			}
			return nil, context.Cause(e.ended)
		}
	}
}

// take removes the oldest datagram and returns it. ok is false if there is none.
func (e *end) take() (packet []byte, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.arrived) == 0 {
		return nil, false
	}
	packet = e.arrived[0]
	e.arrived[0] = nil // for the garbage collector, since the array remains in use
	e.arrived = e.arrived[1:]
	return packet, true
}

// deliver is called by the hub when a datagram arrives.
func (e *end) deliver(packet []byte) {
	e.mu.Lock()
	if len(e.arrived) < maxArrived {
		e.arrived = append(e.arrived, packet)
	}
	e.mu.Unlock()
	e.more.Ring()
}

// Path returns the congestion window, which the hub sets for paths with a limited rate.
func (e *end) Path() rpc.Path {
	return rpc.Path{MaxDatagram: maxDatagram, Cwnd: int(e.out.window.Load())}
}

// RemoteAddr returns the peer's address, or nil at a client's end.
func (e *end) RemoteAddr() net.Addr { return e.addr }

// CloseWithError closes the end at once. The peer learns of the close after all packets in flight
// have arrived, even if the path loses packets. (UE also flushes when it disconnects.) If the world
// has crashed, the peer doesn't learn of it at all.
func (e *end) CloseWithError(code uint64, reason string) error {
	if context.Cause(e.ended) == errCrashed {
		return nil
	}
	e.hub.mu.Lock()
	delay := e.out.delay + time.Millisecond
	e.hub.mu.Unlock()
	e.cancel(errClosed)
	time.AfterFunc(delay, func() {
		e.peer.cancel(&rpc.CloseError{Code: rpc.Code(code), Reason: reason, Remote: true})
	})
	return nil
}

// crash ends the end without telling the peer. Packets in flight still arrive there.
func (e *end) crash() { e.cancel(errCrashed) }

// hasEnded reports whether the end was closed, by either side, or has crashed.
func (e *end) hasEnded() bool { return e.ended.Err() != nil }
