// Package tcp is the kernel's TCP as a contender, which stands on the loopback alone.
package tcp

import (
	"context"
	"errors"
	"net"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

// Peers is one.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name:     "tcp",
		Settings: "one connection for blobs and one for calls with a length before each message; no encryption, no digest; the kernel's windows and congestion control; loopback only",
		Moves:    true, Calls: true,
		Open: func(ctx context.Context, _ emulate.Net) (peer.Pair, error) { return open(ctx) },
	}}
}

// Pipe connects two TCP sockets on the loopback.
func Pipe(ctx context.Context) (client, server net.Conn, err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	if client, err = new(net.Dialer).DialContext(ctx, "tcp4", listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	server, err = listener.Accept()
	return client, server, err
}

type pair struct {
	bulk, calls [2]net.Conn // the client's, the server's
	caller      *peer.Calls
}

func open(ctx context.Context) (*pair, error) {
	p := &pair{}
	for _, c := range []*[2]net.Conn{&p.bulk, &p.calls} {
		var err error
		if c[0], c[1], err = Pipe(ctx); err != nil {
			return nil, err
		}
	}
	go func() { _ = peer.Echo(p.calls[1]) }()
	p.caller = peer.NewCalls(p.calls[0])
	return p, nil
}

// Move sends a blob.
func (p *pair) Move(ctx context.Context, blob []byte) error {
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- peer.Pour(p.bulk[0], blob) }()
	err := peer.NewSink(blob).Drain(p.bulk[1])
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, <-sent)
}

// Call makes a call.
func (p *pair) Call(ctx context.Context, argument []byte) error { return p.caller.Call(ctx, argument) }

// Close closes the sockets.
func (p *pair) Close() {
	for _, c := range []net.Conn{p.bulk[0], p.bulk[1], p.calls[0], p.calls[1]} {
		_ = c.Close()
	}
}
