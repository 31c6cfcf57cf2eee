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
	// maxSessions limits the clients of a Relay, which drops packets from any further ones.
	maxSessions = 64
	// socketBuffer is how many bytes of kernel buffer a Relay requests for each of its sockets,
	// so that the sockets don't lose packets that the links carry.
	socketBuffer = 4 << 20
	// maxReadErrors is how many reads in a row may fail before a Relay stops reading a socket.
	// It must allow many, because reads may fail for a while, such as until the target listens.
	maxReadErrors = 1000
)

// A Relay carries UDP datagrams between clients and one target over emulated links. Each client has
// a pair of links of its own, whose losses don't depend on those of other clients.
//
// A Relay works in real time and with real sockets. All methods may be called concurrently.
type Relay struct {
	up, down Config
	target   *net.UDPAddr
	listener *net.UDPConn
	work     sync.WaitGroup
	refused  atomic.Uint64 // packets from clients beyond maxSessions

	mu       sync.Mutex // guards the fields below
	closed   bool
	sessions map[netip.AddrPort]*session
}

// A session is one client's way through a Relay, from the client to the listener, near, far,
// upstream and the target. The emulated links are those between near and far.
type session struct {
	near, far *PacketConn
	upstream  *net.UDPConn
}

// NewRelay listens on a free UDP port of the loopback interface. It forwards packets to the
// target over up and the target's packets over down.
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
	r := &Relay{
		up: up, down: down,
		target:   addr,
		listener: listener,
		sessions: make(map[netip.AddrPort]*session),
	}
	r.work.Go(func() { pump(listener, r.accept) })
	return r, nil
}

// Addr returns the address to which clients send.
func (r *Relay) Addr() *net.UDPAddr { return r.listener.LocalAddr().(*net.UDPAddr) }

// Stats returns the sums over all clients, for packets from clients and for packets to
// clients.
func (r *Relay) Stats() (up, down Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		up = up.Add(s.near.To(s.far).Stats())
		down = down.Add(s.far.To(s.near).Stats())
	}
	return up, down
}

// Refused returns how many packets were dropped because their clients have no session, usually
// because there are more than maxSessions clients.
func (r *Relay) Refused() uint64 { return r.refused.Load() }

// Close closes the Relay, and waits for its goroutines to end.
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

// enlarge asks for larger socket buffers. It ignores errors, because the Relay works with smaller
// buffers too, although it may lose packets if many arrive at once.
func enlarge(c *net.UDPConn) {
	_ = c.SetReadBuffer(socketBuffer)
	_ = c.SetWriteBuffer(socketBuffer)
}

// accept puts a client's packet into the client's link.
func (r *Relay) accept(packet []byte, from net.Addr) {
	if s := r.openSession(from.(*net.UDPAddr).AddrPort()); s != nil {
		_, _ = s.near.WriteTo(packet, s.far.addr)
	} else {
		r.refused.Add(1)
	}
}

// openSession returns the client's session, which it starts if there is none yet. It returns nil if
// there are too many sessions, if the Relay is closed or if the kernel has no socket for us.
func (r *Relay) openSession(client netip.AddrPort) *session {
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
	// The first client's links use streams 1 and 2, the next one's 3 and 4, and so on.
	stream := 2 * uint64(len(r.sessions))
	join(s.near, s.far, newLink(r.up, stream+1))
	join(s.far, s.near, newLink(r.down, stream+2))
	r.sessions[client] = s

	toTarget := func(p []byte, _ net.Addr) { _, _ = upstream.Write(p) }
	toClient := func(p []byte, _ net.Addr) { _, _ = r.listener.WriteToUDPAddrPort(p, client) }
	fromTarget := func(p []byte, _ net.Addr) { _, _ = s.far.WriteTo(p, s.near.addr) }
	r.work.Go(func() { pump(s.far, toTarget) })
	r.work.Go(func() { pump(s.near, toClient) })
	r.work.Go(func() { pump(upstream, fromTarget) })
	return s
}

// pump passes every packet that arrives at a socket to a function. It returns when the socket is
// closed, or after maxReadErrors failed reads in a row.
func pump(socket net.PacketConn, to func(packet []byte, from net.Addr)) {
	buf := make([]byte, maxDatagram)
	failures := 0
	for failures < maxReadErrors {
		n, from, err := socket.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			failures++
			continue
		}
		failures = 0
		to(buf[:n], from)
	}
}
