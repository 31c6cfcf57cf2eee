package quicgo

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/peer"
)

// A crowd is one server and many clients.
type crowd struct {
	hear     func(message []byte) // of [peer.Peer].Gather
	far      *quic.Transport      // the server's
	listener *quic.Listener
	work     sync.WaitGroup // the goroutines that accept and receive

	mu      sync.Mutex
	servers []*quic.Conn // the server's end of each connection
	clients []*client    // complete when gather returns
}

// gather implements [peer.Peer].Gather.
func gather(ctx context.Context, clients, _ int, hear func(message []byte)) (peer.Crowd, error) {
	far, err := listenLoopback()
	if err != nil {
		return nil, err
	}
	c := &crowd{hear: hear, far: far}
	if c.listener, err = far.Listen(peer.ServerTLS("bench"), config()); err != nil {
		return nil, err
	}
	c.work.Go(c.accept)
	return c, peer.Join(clients, func() error { return c.join(ctx) })
}

// accept accepts connections until the listener is closed.
func (c *crowd) accept() {
	for {
		conn, err := c.listener.Accept(context.Background())
		if err != nil {
			return
		}
		c.mu.Lock()
		c.servers = append(c.servers, conn)
		c.mu.Unlock()
		c.work.Go(func() { c.receive(conn) })
	}
}

// join connects one client. It is safe for concurrent use.
func (c *crowd) join(ctx context.Context) error {
	near, err := dial(ctx, c.far.Conn.LocalAddr())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, near)
	c.work.Go(func() { c.receive(near.Conn) })
	return nil
}

// receive calls hear with the datagrams of one end until the connection is closed.
func (c *crowd) receive(conn *quic.Conn) {
	for {
		m, err := conn.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		c.hear(m)
	}
}

// Tick implements [peer.Crowd].
func (c *crowd) Tick(message []byte) error {
	for _, near := range c.clients {
		if err := near.SendDatagram(message); err != nil {
			return err
		}
	}
	return c.Multicast(message)
}

// Multicast implements [peer.Crowd].
func (c *crowd) Multicast(message []byte) error {
	c.mu.Lock()
	servers := c.servers
	c.mu.Unlock()
	for _, conn := range servers {
		if err := conn.SendDatagram(message); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all connections.
func (c *crowd) Close() {
	for _, near := range c.clients {
		near.close()
	}
	_, _, _ = c.listener.Close(), c.far.Close(), c.far.Conn.Close()
	c.work.Wait()
}
