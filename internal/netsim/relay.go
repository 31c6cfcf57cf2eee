package netsim

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

const (
	// maxSessions is the most clients of a Relay. Packets of further ones are dropped.
	maxSessions = 64
	// socketBuffer is the size in bytes of the kernel buffers to ask for, for each socket
	// of a Relay, so that the sockets lose none of the packets that the links carry.
	socketBuffer = 4 << 20
	// maxReadErrors is how many reads in a row may fail, for instance because
	// the target does not listen yet, before a Relay stops reading a socket.
	maxReadErrors = 1000
)

// A Relay carries UDP datagrams between clients and one target over emulated links,
// in real time and over real sockets. Each client has links and fates of its own.
type Relay struct {
	up, down Config
	target   *net.UDPAddr
	listener *net.UDPConn
	work     sync.WaitGroup
	refused  atomic.Uint64 // packets of clients beyond maxSessions

	mu       sync.Mutex // guards the fields below
	closed   bool
	sessions map[netip.AddrPort]*session
}

// session is one client of a Relay: client - listener - near = far - upstream - target.
type session struct {
	near, far *PacketConn
	upstream  *net.UDPConn
}

// NewRelay listens on a free UDP port of the loopback interface. It forwards
// packets to the target over up, and the target's packets over down.
func NewRelay(target string, up, down Config) (*Relay, error) {
	if err := errors.Join(up.Validate(), down.Validate()); err != nil {
		return nil, err
	}
	addr, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		return nil, fmt.Errorf("netsim: relay to %q: %w", target, err)
	}
	listener, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("netsim: relay to %q: %w", target, err)
	}
	enlarge(listener)
	r := &Relay{up: up, down: down, target: addr, listener: listener, sessions: make(map[netip.AddrPort]*session)}
	r.work.Go(func() { pump(listener, r.accept) })
	return r, nil
}

// Addr returns the address to which clients send.
func (r *Relay) Addr() *net.UDPAddr { return r.listener.LocalAddr().(*net.UDPAddr) }

// Stats returns the sums over all clients, for packets from them and to them.
func (r *Relay) Stats() (up, down Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		up = up.Add(s.near.To(s.far).Stats())
		down = down.Add(s.far.To(s.near).Stats())
	}
	return up, down
}

// Refused returns how many packets of clients beyond the limit were dropped.
func (r *Relay) Refused() uint64 { return r.refused.Load() }

// Close ends the Relay, and returns after its goroutines have ended.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for _, s := range r.sessions {
		_ = s.near.Close()
		_ = s.far.Close()
		_ = s.upstream.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
	return err
}

// enlarge asks for larger socket buffers. If the kernel gives less, packets may be lost in bursts.
func enlarge(c *net.UDPConn) {
	_ = c.SetReadBuffer(socketBuffer)
	_ = c.SetWriteBuffer(socketBuffer)
}

// accept puts a packet of a client into the client's link.
func (r *Relay) accept(packet []byte, from net.Addr) {
	if s := r.session(from.(*net.UDPAddr).AddrPort()); s != nil {
		_, _ = s.near.WriteTo(packet, s.far.addr)
	} else {
		r.refused.Add(1)
	}
}

// session returns the client's session, which it makes if there is none, or nil
// if there are too many or the Relay is closed.
func (r *Relay) session(client netip.AddrPort) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[client]; s != nil || r.closed || len(r.sessions) >= maxSessions {
		return s
	}
	upstream, err := net.DialUDP("udp", nil, r.target)
	if err != nil {
		return nil
	}
	enlarge(upstream)
	s := &session{near: NewPacketConn(), far: NewPacketConn(), upstream: upstream}
	stream := 2 * uint64(len(r.sessions))
	join(s.near, s.far, newLink(r.up, stream+1))
	join(s.far, s.near, newLink(r.down, stream+2))
	r.sessions[client] = s

	r.work.Go(func() { pump(s.far, func(p []byte, _ net.Addr) { _, _ = upstream.Write(p) }) })
	r.work.Go(func() { pump(s.near, func(p []byte, _ net.Addr) { _, _ = r.listener.WriteToUDPAddrPort(p, client) }) })
	r.work.Go(func() { pump(upstream, func(p []byte, _ net.Addr) { _, _ = s.far.WriteTo(p, s.near.addr) }) })
	return s
}

// pump passes every packet of a socket to a function until the socket is
// closed, or maxReadErrors reads in a row have failed.
func pump(socket net.PacketConn, to func(packet []byte, from net.Addr)) {
	buf := make([]byte, maxDatagram)
	for failed := 0; failed < maxReadErrors; {
		n, from, err := socket.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			failed++
			continue
		}
		failed = 0
		to(buf[:n], from)
	}
}
