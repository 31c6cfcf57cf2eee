package sealed

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/timers"
	"github.com/quivernet/quiver/internal/udp"
)

// SocketConfig holds the settings of a Socket. The zero value is right for most sockets.
type SocketConfig struct {
	// NoOffload disables UDP GSO and GRO, which let the kernel send or receive many packets in
	// one call.
	NoOffload bool
	// Guard, if not nil, watches what QUIC receives and limits what it sends.
	Guard Guard
}

// A Guard watches what QUIC receives and limits what it sends. Its methods must not block, and
// must not change or retain the packets. The packets are never empty.
type Guard interface {
	// Received is called for each packet that QUIC receives. It is called only by the goroutine
	// that reads for QUIC.
	Received(from netip.AddrPort, packet []byte)
	// Route reports whether QUIC may send packets to an address. packets is one packet, or
	// several consecutive ones with GSO. If also is not nil, a copy is sent there. Packets that
	// may not be sent are dropped, but QUIC counts them as sent.
	Route(to net.Addr, packets []byte) (also net.Addr, ok bool)
}

// A Socket shares a UDP socket between QUIC and carriers. All methods are safe for concurrent
// use.
//
// When quic-go reads from the PacketConn that QUIC returns, the Socket picks out the sealed
// packets and puts them into the inboxes of their carriers, so it needs no goroutine for reading.
type Socket struct {
	sys      *udp.Socket
	realTime bool  // the socket is the kernel's and time is real, unlike in some tests
	guard    Guard // SocketConfig.Guard

	mu      sync.RWMutex // guards inboxes
	inboxes map[ID]*inbox

	reader reader               // used only by quic-go's reader
	crew   *crew.Crew[*Carrier] // goroutines that take turns for carriers without bulk
	timers *timers.Queue        // alarms of carriers without a goroutine

	early    earlyBuffer  // packets for carriers that may be created soon; has its own lock
	borrowed atomic.Int64 // bytes that all inboxes have borrowed, up to maxBorrowed

	lastWriteErr atomic.Pointer[error] // why QUIC's latest packet wasn't sent; nil if it was

	// Counts of packets that weren't passed to QUIC.
	routed  atomic.Uint64 // put into a carrier's inbox
	unknown atomic.Uint64 // with an unknown id; dropped unless it is registered within earlyTime
	badSize atomic.Uint64 // dropped because they were too short or too long for a sealed packet
}

// kernelTimers are shared by all real sockets, because a process may have hundreds of clients.
// The sockets of tests have their own timers, which run in the test's time. So do real sockets
// in a bubble of testing/synctest.
var kernelTimers = timers.New()

// NewSocket wraps a socket, usually a *net.UDPConn. From then on, only the Socket may read from
// it. The caller must close it.
func NewSocket(conn net.PacketConn, c SocketConfig) *Socket {
	s := &Socket{
		sys:     udp.New(conn, !c.NoOffload),
		guard:   c.Guard,
		inboxes: make(map[ID]*inbox),
		crew:    crew.New((*Carrier).takeTurns),
		timers:  kernelTimers,
	}
	s.realTime = s.sys.Raw != nil && kernelTimers.Shares(time.Now())
	if !s.realTime {
		s.timers = timers.New()
	}
	return s
}

// QUIC returns the PacketConn for quic-go's Transport. It receives all packets except those
// that belong to carriers.
func (s *Socket) QUIC() net.PacketConn {
	plain := &plainConn{PacketConn: s.sys.Conn, socket: s}
	if s.sys.Raw != nil {
		return &udpConn{
			systemConn: systemConn{plain, s.sys.UDP},
			udp:        s.sys.UDP,
			reader:     udp.NewReader(s.sys),
		}
	}
	if system, ok := s.sys.Conn.(udp.SystemConn); ok {
		return &systemConn{plain, system}
	}
	return plain
}

// newInbox returns an inbox that may borrow from the socket.
func (s *Socket) newInbox(notify func(inline bool)) *inbox {
	b := newInbox(notify)
	b.allBorrowed = &s.borrowed
	return b
}

// register makes b the inbox of ids, and delivers packets for them that arrived within the last
// earlyTime. It returns an error if one of the ids is in use.
func (s *Socket) register(b *inbox, ids ...ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.inboxes[id] != nil {
			return fmt.Errorf("sealed: connection ID %x is already in use", id)
		}
	}
	for _, id := range ids {
		s.inboxes[id] = b
	}
	s.early.deliver(b, ids)
	return nil
}

// issue returns a new id, of which it makes b the inbox.
func (s *Socket) issue(b *inbox) ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		id := NewID()
		if s.inboxes[id] == nil {
			s.inboxes[id] = b
			return id
		}
	}
}

// unregister removes ids. Packets for them are dropped from then on.
func (s *Socket) unregister(ids ...ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.inboxes, id)
	}
}

// dispatch routes a sealed packet to its carrier, and shows any other packet to the guard. It
// reports whether the packet is for QUIC.
func (s *Socket) dispatch(at time.Time, from netip.AddrPort, packet []byte) (forQUIC bool) {
	if isSealed(packet) {
		s.route(at, from, packet)
		return false
	}
	if s.guard != nil && len(packet) > 0 {
		s.guard.Received(from, packet)
	}
	return true
}

// route copies a sealed packet, which hasn't been opened yet, into the inbox for its id, or drops
// it. at is its arrival time.
func (s *Socket) route(at time.Time, from netip.AddrPort, packet []byte) {
	if len(packet) < Overhead || len(packet) > JumboPacket {
		s.badSize.Add(1)
		return
	}
	id := ID(packet[1 : 1+idBytes])
	s.mu.RLock()
	box := s.inboxes[id]
	if box == nil && len(packet) <= FullPacket { // a new carrier sends no jumbo packets
		// Keep it under the lock, or a concurrent register could miss it.
		s.early.keep(at, from, id, packet)
	}
	s.mu.RUnlock()
	if box == nil {
		s.unknown.Add(1)
		return
	}
	s.routed.Add(1)
	if box.put(at, from, packet) {
		s.reader.inboxes = append(s.reader.inboxes, box)
	}
}

// send sends QUIC's packets by calling write for each address that the guard allows. quic-go
// closes the connection if sending fails, so send doesn't return an error that is no worse than
// the loss of a packet.
func (s *Socket) send(packets []byte, to net.Addr, write func(to net.Addr) (int, error)) (int, error) {
	n, err := s.sendGuarded(packets, to, write)
	if err == nil {
		if s.lastWriteErr.Load() != nil {
			s.lastWriteErr.Store(nil)
		}
		return n, nil
	}
	writeErr := err
	s.lastWriteErr.Store(&writeErr)
	if udp.IsLoss(err) {
		return len(packets), nil
	}
	return n, err
}

// sendGuarded is send without error handling.
func (s *Socket) sendGuarded(packets []byte, to net.Addr, write func(to net.Addr) (int, error)) (int, error) {
	if s.guard == nil || len(packets) == 0 {
		return write(to)
	}
	also, ok := s.guard.Route(to, packets)
	if !ok {
		return len(packets), nil
	}
	n, err := write(to)
	if also != nil {
		_, _ = write(also) // if it fails, the copy counts as lost
	}
	return n, err
}
