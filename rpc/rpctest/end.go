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
	// maxDatagram is the largest datagram that QUIC accepts on a path
	// that it has not yet probed.
	maxDatagram = 1163

	// maxArrived is the maximum number of datagrams that wait at an end that does not read
	// them. Further ones are lost, as in a socket.
	maxArrived = 4096
)

var (
	// errClosed is the error of an end that was closed on this side.
	errClosed = errors.New("rpctest: closed")
	// errCrashed is the error of an end whose world crashed.
	errCrashed = errors.New("rpctest: crashed")
)

// An end is one end of a path. It implements [rpc.Carrier].
type end struct {
	hub   *hub
	out   *link
	peer  *end
	addr  net.Addr                // the peer's address; nil at a client's end
	ended context.Context         // done when the end has ended; its cause is the error
	end   context.CancelCauseFunc // cancels ended

	more bell.Bell // rung when something arrives

	mu sync.Mutex // guards arrived

	// At most maxArrived datagrams. A channel of that size would take 96 KiB
	// for each end, even for one that has ended.
	arrived [][]byte
}

func newEnd(h *hub) *end {
	e := &end{hub: h, more: bell.New()}
	e.ended, e.end = context.WithCancelCause(context.Background())
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
// Because of it, package rpc sends calls without another goroutine.
func (e *end) SendQueue() int { return maxArrived }

// ReceiveDatagram implements [rpc.Carrier]. It first returns the datagrams that arrived
// before the end was closed. Only one goroutine calls it.
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
			if p, ok := e.take(); ok { // a packet arrived at the same instant
				return p, nil
			}
			return nil, context.Cause(e.ended)
		}
	}
}

// take removes and returns the oldest datagram. ok is false if there is none.
func (e *end) take() (packet []byte, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.arrived) == 0 {
		return nil, false
	}
	packet = e.arrived[0]
	e.arrived[0] = nil // the array may stay in memory for a long time
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

// Path returns the window that the hub set, for paths with a limited rate.
func (e *end) Path() rpc.Path {
	return rpc.Path{MaxDatagram: maxDatagram, Cwnd: int(e.out.window.Load())}
}

// RemoteAddr returns the peer's address, or nil at a client's end.
func (e *end) RemoteAddr() net.Addr { return e.addr }

// CloseWithError closes the end at once. The peer is told after all packets in flight
// have arrived, even if the path loses packets. UE also flushes when it disconnects.
// If the world crashed, the peer is not told.
func (e *end) CloseWithError(code uint64, reason string) error {
	if context.Cause(e.ended) == errCrashed {
		return nil
	}
	e.hub.mu.Lock()
	delay := e.out.delay + time.Millisecond
	e.hub.mu.Unlock()
	e.end(errClosed)
	time.AfterFunc(delay, func() {
		e.peer.end(&rpc.CloseError{Code: rpc.Code(code), Reason: reason, Remote: true})
	})
	return nil
}

// crash ends the end without telling the peer. Packets in flight still arrive there.
func (e *end) crash() { e.end(errCrashed) }

// over reports whether the end has ended.
func (e *end) over() bool { return e.ended.Err() != nil }
