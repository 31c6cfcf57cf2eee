package quicgo

import (
	"context"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

// A conns is one connection and what it uses.
type conns struct {
	near, far        *quic.Transport
	listener         *quic.Listener
	client, accepted *quic.Conn
}

func connect(ctx context.Context, n emulate.Net) (c conns, err error) {
	c.far = &quic.Transport{Conn: n.Server(), ConnectionIDLength: connectionIDBytes}
	c.near = &quic.Transport{Conn: n.Client(), ConnectionIDLength: connectionIDBytes}
	if c.listener, err = c.far.Listen(peer.ServerTLS("bench"), config()); err != nil {
		return c, err
	}
	if c.client, err = c.near.Dial(ctx, n.Address(), peer.ClientTLS("bench"), config()); err != nil {
		return c, err
	}
	c.accepted, err = c.listener.Accept(ctx)
	return c, err
}

func (c *conns) Close() {
	_ = c.client.CloseWithError(0, "over")
	_ = c.accepted.CloseWithError(0, "over")
	_, _, _ = c.listener.Close(), c.near.Close(), c.far.Close()
}
