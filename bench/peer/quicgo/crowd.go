package quicgo

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/peer"
)

// dialers is how many connections are made at a time.
const dialers = 16

// crowd is one server and many clients, each with a socket of its own as Quiver's have.
type crowd struct {
	hear     func(message []byte)
	far      *quic.Transport
	listener *quic.Listener
	work     sync.WaitGroup

	mu      sync.Mutex
	servers []*quic.Conn
	clients []*quic.Conn
	close   []func() error
}

func gather(ctx context.Context, clients, _ int, hear func(message []byte)) (peer.Crowd, error) {
	c := &crowd{hear: hear}
	socket, err := c.socket()
	if err != nil {
		return nil, err
	}
	c.far = &quic.Transport{Conn: socket, ConnectionIDLength: connectionIDBytes}
	if c.listener, err = c.far.Listen(peer.ServerTLS("bench"), config()); err != nil {
		return nil, err
	}
	c.work.Go(c.accept)
	failed := make(chan error, clients)
	slots := make(chan struct{}, dialers)
	for range clients {
		slots <- struct{}{}
		go func() {
			failed <- c.join(ctx, socket.LocalAddr())
			<-slots
		}()
	}
	for range clients {
		err = errors.Join(err, <-failed)
	}
	return c, err
}

func (c *crowd) socket() (*net.UDPConn, error) {
	s, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.close = append(c.close, s.Close)
	}
	return s, err
}

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

func (c *crowd) join(ctx context.Context, to net.Addr) error {
	socket, err := c.socket()
	if err != nil {
		return err
	}
	near := &quic.Transport{Conn: socket, ConnectionIDLength: connectionIDBytes}
	conn, err := near.Dial(ctx, to, peer.ClientTLS("bench"), config())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, conn)
	c.close = append(c.close, near.Close)
	c.work.Go(func() { c.receive(conn) })
	return nil
}

func (c *crowd) receive(conn *quic.Conn) {
	for {
		m, err := conn.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		c.hear(m)
	}
}

// Tick implements peer.Crowd.
func (c *crowd) Tick(message []byte) error {
	for _, conn := range c.clients {
		if err := conn.SendDatagram(message); err != nil {
			return err
		}
	}
	return c.Multicast(message)
}

// Multicast implements peer.Crowd.
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

// Close ends all connections.
func (c *crowd) Close() {
	for _, conn := range c.clients {
		_ = conn.CloseWithError(0, "over")
	}
	_, _ = c.listener.Close(), c.far.Close()
	for i := len(c.close) - 1; i >= 0; i-- {
		_ = c.close[i]()
	}
	c.work.Wait()
}
