// Package tcp is the kernel's TCP as a contender.
package tcp

import (
	"context"
	"errors"
	"net"
	"runtime"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

const settings = "one connection for blobs and one for calls with a length before each message; no encryption, no digest; the kernel's windows; congestion control "

// Peers returns TCP with the congestion control that the kernel uses, and with
// CUBIC if that is another one.
func Peers() []peer.Peer {
	of := func(name, settings, control string) peer.Peer {
		return peer.Peer{
			Name: name, Settings: settings, Moves: true, Calls: control == "", Tunneled: emulate.CanTunnel(),
			Open: func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return Open(ctx, n, control) },
		}
	}
	peers := []peer.Peer{of("tcp", settings+control(), "")}
	if runtime.GOOS == "linux" && control() != "cubic" {
		peers = append(peers, of("tcp/cubic", settings+"cubic", "cubic"))
	}
	return peers
}

// Over returns where TCP listens and dials: over the net if that carries TCP,
// otherwise on the loopback.
func Over(n emulate.Net) emulate.Streamed {
	if s, ok := n.(emulate.Streamed); ok {
		return s
	}
	return Loopback{}
}

// Loopback is for TCP without a net.
type Loopback struct{}

func (Loopback) Listen() (net.Listener, error) { return net.Listen("tcp4", "127.0.0.1:0") }

func (Loopback) Dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp4", address)
}

// Pipe connects two TCP sockets.
func Pipe(ctx context.Context, over emulate.Streamed) (client, server net.Conn, err error) {
	listener, err := over.Listen()
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	if client, err = over.Dial(ctx, listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	server, err = listener.Accept()
	return client, server, err
}

type pair struct {
	bulk, calls [2]net.Conn // the client's, the server's
	caller      *peer.Calls
}

// Open connects both ends over the net. Blobs use that congestion control; "" =
// the kernel's default.
func Open(ctx context.Context, n emulate.Net, control string) (peer.Mover, error) {
	p, over := &pair{}, Over(n)
	for _, c := range []*[2]net.Conn{&p.bulk, &p.calls} {
		var err error
		if c[0], c[1], err = Pipe(ctx, over); err != nil {
			return nil, err
		}
	}
	if control != "" {
		if err := setControl(control, p.bulk[:]...); err != nil {
			p.Close()
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
