// Package kcp is kcp-go as a contender. Its scheduler is shared by the whole
// process, so it does not run in a bubble.
package kcp

import (
	"context"
	"fmt"

	"github.com/xtaci/kcp-go/v5"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

const (
	module = "github.com/xtaci/kcp-go/v5"
	// window is the window in packets, unless the path holds more.
	window = 1024
	// payload is the payload of a packet of 1,400 bytes.
	payload = 1376
)

// A mode is the arguments of SetNoDelay.
type mode struct{ nodelay, interval, resend, nc int }

// Peers returns KCP by its defaults, and by the settings that its users call turbo.
func Peers() []peer.Peer {
	of := func(name, settings string, m mode) peer.Peer {
		return peer.Peer{
			Name: name, Module: module, Emulated: true, Moves: true, Talks: true, Calls: true,
			Settings: "windows of 1,024 packets, or the path's bandwidth-delay product where that is more; stream mode, packets of 1,400 bytes, " +
				"no encryption, no FEC, no digest; messages between pieces of 16 KiB of the blob on the one stream; " + settings,
			Open: func(_ context.Context, n emulate.Net) (peer.Pair, error) { return open(n, m) },
		}
	}
	return []peer.Peer{
		of("kcp-go", "SetNoDelay(0, 100, 0, 0), its default: with congestion control", mode{0, 100, 0, 0}),
		of("kcp-go/turbo", "SetNoDelay(1, 10, 2, 1): no congestion control, and ACKs without delay", mode{1, 10, 2, 1}),
	}
}

type pair struct {
	*peer.Line
	listener       *kcp.Listener
	client, server *kcp.UDPSession
}

func open(n emulate.Net, m mode) (*pair, error) {
	p := &pair{}
	var err error
	if p.listener, err = kcp.ServeConn(nil, 0, 0, n.Server()); err != nil {
		return nil, err
	}
	if p.client, err = kcp.NewConn2(n.Address(), nil, 0, 0, n.Client()); err != nil {
		return nil, err
	}
	tune(p.client, m, n.BDP())
	// A session exists at the server from its first packet on.
	if err := peer.WriteFrame(p.client, []byte{0}); err != nil {
		return nil, err
	}
	if p.server, err = p.listener.AcceptKCP(); err != nil {
		return nil, err
	}
	tune(p.server, m, n.BDP())
	if _, err := peer.ReadFrame(p.server, nil); err != nil {
		return nil, fmt.Errorf("kcp: first frame: %w", err)
	}
	p.Line = peer.NewLine(p.client, p.server)
	return p, nil
}

func tune(s *kcp.UDPSession, m mode, bdp int) {
	packets := max(window, bdp/payload)
	s.SetNoDelay(m.nodelay, m.interval, m.resend, m.nc)
	s.SetWindowSize(packets, packets)
	s.SetStreamMode(true)
	s.SetACKNoDelay(m.nodelay != 0)
	s.SetMtu(1400)
}

// Close closes the session.
func (p *pair) Close() {
	_, _, _ = p.client.Close(), p.server.Close(), p.listener.Close()
}
