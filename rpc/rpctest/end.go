package rpctest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// maxDatagram is the largest datagram that QUIC takes on a path that it has not probed yet.
	maxDatagram = 1163
	// maxArrived is how many datagrams may wait at an end that does not read them; more are lost, as in a socket.
	maxArrived = 4096
)

var (
	// errClosed is the error of an end that was closed on this side.
	errClosed = errors.New("rpctest: closed")
	// errCrashed is that of an end whose world has crashed.
	errCrashed = errors.New("rpctest: crashed")
)

// end is one end of a path. It implements [rpc.Carrier].
type end struct {
	hub     *hub
	out     *link
	peer    *end
	addr    net.Addr // the peer's address; nil at a client
	arrived chan []byte
	ended   context.Context
	end     context.CancelCauseFunc
}

func newEnd(h *hub) *end {
	e := &end{hub: h, arrived: make(chan []byte, maxArrived)}
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

// SendQueue returns how many datagrams the end takes before SendDatagram blocks, so that calls leave without a goroutine.
func (e *end) SendQueue() int { return maxArrived }

func (e *end) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select { // first the datagrams that arrived before the end
	case p := <-e.arrived:
		return p, nil
	default:
	}
	select {
	case p := <-e.arrived:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.ended.Done():
		return nil, context.Cause(e.ended)
	}
}

func (e *end) deliver(packet []byte) {
	select {
	case e.arrived <- packet:
	default:
	}
}

// Path returns the window that the hub has set, for paths with a bounded rate.
func (e *end) Path() rpc.Path {
	return rpc.Path{MaxDatagram: maxDatagram, Cwnd: int(e.out.window.Load())}
}

// RemoteAddr returns the peer's address; nil at a client.
func (e *end) RemoteAddr() net.Addr { return e.addr }

// CloseWithError closes the end at once. The peer learns of it after all packets under way have arrived, even if the path loses packets:
// UE, too, flushes when it disconnects. That of a world that has crashed tells nothing.
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

// crash ends the end without a word to the peer. Packets under way still arrive there.
func (e *end) crash() { e.end(errCrashed) }

func (e *end) over() bool { return e.ended.Err() != nil }
