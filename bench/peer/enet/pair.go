//go:build enet

package enet

import (
	"context"
	"errors"
	"fmt"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

const (
	channelBlob = iota
	channelTalk
	channelCall
	channels
)

const pieceBytes = 16 << 10

// Version returns the library's version.
func Version() string {
	major, minor, patch := version()
	return fmt.Sprintf("%d.%d.%d", major, minor, patch)
}

// Peers returns the one contender.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name: "enet", Module: "libenet", Settings: settings, Emulated: true, Moves: true, Talks: true, Calls: true,
		Open: func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return open(ctx, n) },
	}}
}

type pair struct {
	client, server *host
	calls          peer.Numbered
	peer.Inlet
}

func open(ctx context.Context, n emulate.Net) (*pair, error) {
	fronted, ok := n.(emulate.Fronted)
	if !ok {
		return nil, errors.New("enet: it opens its own sockets, which this net does not carry")
	}
	p := &pair{}
	var err error
	if p.server, err = newHost(true, p.atServer); err != nil {
		return nil, err
	}
	front, err := fronted.Front(p.server.port())
	if err != nil {
		return nil, err
	}
	if p.client, err = newHost(false, p.atClient); err != nil {
		return nil, err
	}
	if err := p.client.connect(front.Port); err != nil {
		return nil, err
	}
	p.server.start()
	p.client.start()
	for _, h := range []*host{p.client, p.server} {
		select {
		case <-h.connected:
		case <-ctx.Done():
			p.Close()
			return nil, context.Cause(ctx)
		}
	}
	return p, nil
}

func (p *pair) atServer(channel int, packet []byte) {
	switch channel {
	case channelBlob:
		p.Take(packet)
	case channelTalk:
		p.Heard(packet)
	case channelCall:
		p.server.send(channelCall, append([]byte(nil), packet...))
	}
}

func (p *pair) atClient(_ int, packet []byte) { p.calls.Answered(packet, nil) }

// Move sends a blob.
func (p *pair) Move(ctx context.Context, blob []byte) error {
	return p.Inlet.Move(ctx, blob, pieceBytes, func(piece []byte) error {
		p.client.send(channelBlob, piece)
		return nil
	})
}

// Say sends a message.
func (p *pair) Say(message []byte) error {
	p.client.send(channelTalk, append([]byte(nil), message...))
	return nil
}

// Call sends a packet and waits for its echo.
func (p *pair) Call(ctx context.Context, argument []byte) error {
	return p.calls.Call(ctx, argument, func(message []byte) error {
		p.client.send(channelCall, message)
		return nil
	})
}

// Close destroys both hosts.
func (p *pair) Close() {
	p.client.close()
	p.server.close()
}
