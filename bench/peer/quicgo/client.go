package quicgo

import (
	"context"
	"errors"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/peer"
)

// A client is the client's end of a connection over the bare loopback, with a
// socket of its own as Quiver's clients have.
type client struct {
	*quic.Conn
	transport *quic.Transport
}

// dial connects a client. It is safe for concurrent use.
func dial(ctx context.Context, to net.Addr) (*client, error) {
	t, err := listenLoopback()
	if err != nil {
		return nil, err
	}
	conn, err := t.Dial(ctx, to, peer.ClientTLS("bench"), config())
	if err != nil {
		return nil, errors.Join(err, t.Close(), t.Conn.Close())
	}
	return &client{conn, t}, nil
}

// close closes the connection, and the socket, which quic.Transport does not close.
func (c *client) close() {
	_, _, _ = c.CloseWithError(0, "over"), c.transport.Close(), c.transport.Conn.Close()
}

// listenLoopback returns a transport with a new socket on the loopback.
func listenLoopback() (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: socket, ConnectionIDLength: connectionIDBytes}, nil
}
