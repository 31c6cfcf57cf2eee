package peer

import (
	"net"
	"sync"
)

// A Conn is a net.Conn over a datagram socket: to a known remote, or to the one
// that sends the first packet.
type Conn struct {
	net.PacketConn

	mu     sync.Mutex
	remote net.Addr
	known  chan struct{} // closed when remote is known
}

// NewConn returns a Conn to remote; nil = the sender of the first packet.
func NewConn(socket net.PacketConn, remote net.Addr) *Conn {
	c := &Conn{PacketConn: socket, remote: remote, known: make(chan struct{})}
	if remote != nil {
		close(c.known)
	}
	return c
}

// Read reads one packet.
func (c *Conn) Read(p []byte) (int, error) {
	n, from, err := c.ReadFrom(p)
	if err != nil {
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote == nil {
		c.remote = from
		close(c.known)
	}
	return n, nil
}

// Write sends one packet, once the remote is known.
func (c *Conn) Write(p []byte) (int, error) {
	<-c.known
	return c.WriteTo(p, c.remote)
}

// RemoteAddr returns the remote, or nil until it is known.
func (c *Conn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remote
}
