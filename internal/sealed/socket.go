package sealed

import (
	"errors"
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

// SocketConfig holds the settings of a Socket. The zero value is right for most.
type SocketConfig struct {
	// NoOffload switches off UDP GSO and GRO, with which the kernel sends or receives many
	// packets in one call.
	NoOffload bool
	// Guard watches what QUIC receives and sends. nil = none.
	Guard Guard
}

// A Guard watches what QUIC receives and decides what it sends. Its methods must not block,
// and must not change or retain the packets, which are not empty.
type Guard interface {
	// Came is called for each packet that QUIC receives, by QUIC's reader only.
	Came(from netip.AddrPort, packet []byte)
	// Route reports whether QUIC may send packets to to: one packet, or several consecutive
	// ones with GSO. also is an address that gets a copy; nil = none. Packets that may not
	// be sent are dropped, and QUIC counts them as sent.
	Route(to net.Addr, packets []byte) (also net.Addr, ok bool)
}

// A Socket shares a UDP socket between QUIC and carriers. All methods are safe for
// concurrent use.
type Socket struct {
	sys      *udp.Socket
	realTime bool  // the socket is the kernel's and time is real, unlike in some tests
	guard    Guard // SocketConfig.Guard

	mu      sync.RWMutex // guards boxes
	inboxes map[ID]*inbox

	reader reader               // used by quic-go's reader only
	crew   *crew.Crew[*Carrier] // takes turns for carriers without bulk
	timers *timers.Queue        // of carriers that wait

	early    early        // packets with unknown ids, for carriers about to be made; has its own lock
	borrowed atomic.Int64 // bytes that all inboxes have borrowed, at most lentBytes

	lastWriteErr atomic.Pointer[error] // why QUIC's latest packet was not sent; nil = it was

	// Counts of packets that QUIC did not get.
	routed  atomic.Uint64 // to a carrier
	unknown atomic.Uint64 // with an unknown id; dropped unless a carrier registers it within earlyTime
	badSize atomic.Uint64 // dropped because they were too short or too long to be sealed packets
}

// kernelTimers are the timers of all real sockets, because a process may have hundreds of
// clients. Sockets of tests have their own timers, which run in the test's time. So do real
// sockets in a bubble of testing/synctest.
var kernelTimers = timers.New()

// NewSocket wraps a socket, usually a *net.UDPConn. From then on only the Socket may read
// from it. The caller closes it.
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

// QUIC returns the PacketConn for quic-go's Transport. It receives all packets but those of
// carriers.
func (s *Socket) QUIC() net.PacketConn {
	plain := &plainConn{PacketConn: s.sys.Conn, socket: s}
	if s.sys.Raw != nil {
		return &udpConn{
			sizedConn: sizedConn{plain, s.sys.UDP},
			udp:       s.sys.UDP,
			reader:    udp.NewReader(s.sys),
		}
	}
	if system, ok := s.sys.Conn.(udp.SystemConn); ok {
		return &sizedConn{plain, system}
	}
	return plain
}

// register makes b the inbox of ids. It puts the packets that arrived for them within the
// last earlyTime into b. It returns an error if an id is in use.
func (s *Socket) register(b *inbox, ids ...ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.inboxes[id] != nil {
			return fmt.Errorf("sealed: id %x is in use", id)
		}
	}
	for _, id := range ids {
		s.inboxes[id] = b
	}
	s.early.deliver(b, ids)
	return nil
}

// issue draws an unused id and makes b its inbox.
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

// retire makes ids unknown. Packets for them are dropped from then on.
func (s *Socket) unregister(ids ...ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.inboxes, id)
	}
}

// forQUIC reports whether a packet is for QUIC. If it is not, forQUIC has routed or dropped
// it.
func (s *Socket) forQUIC(at time.Time, from netip.AddrPort, packet []byte) bool {
	if isSealed(packet) {
		s.route(at, from, packet)
		return false
	}
	if s.guard != nil && len(packet) > 0 {
		s.guard.Came(from, packet)
	}
	return true
}

// send sends QUIC's packets by write, to the addresses that the guard allows. It does not
// return an error that is equivalent to a lost packet, because quic-go ends a connection if
// sending fails.
func (s *Socket) send(packets []byte, to net.Addr, write func(to net.Addr) (int, error)) (int, error) {
	n, err := s.sendGuarded(packets, to, write)
	if err == nil {
		if s.lastWriteErr.Load() != nil {
			s.lastWriteErr.Store(nil)
		}
		return n, nil
	}
	refused := err
	s.lastWriteErr.Store(&refused)
	if udp.IsLoss(err) {
		return len(packets), nil
	}
	return n, err
}

// guarded is send without the handling of errors.
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
		_, _ = write(also) // a failure is equivalent to a lost packet
	}
	return n, err
}

// route copies a sealed packet, unopened, into the inbox of its id. at is its time of
// arrival.
func (s *Socket) route(at time.Time, from netip.AddrPort, packet []byte) {
	if len(packet) < Overhead || len(packet) > JumboPacket {
		s.badSize.Add(1)
		return
	}
	id := ID(packet[1 : 1+idBytes])
	s.mu.RLock()
	box := s.inboxes[id]
	if box == nil && len(packet) <= MaxPacket { // a new carrier sends no jumbo packets
		s.early.keep(at, from, id, packet) // under the lock, so that register does not miss it
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

const (
	// promptTime is how long after a wait for packets the reader still takes turns for
	// carriers. A reader that has not waited for that long is busy, and would delay the
	// packets of all carriers. Other goroutines take the turns then.
	promptTime = time.Millisecond
	// minFailedPause is the pause after the second of two consecutive failed reads. It
	// doubles up to maxFailedPause. After failedTime of failed reads, the socket is
	// abandoned.
	minFailedPause = time.Millisecond
	maxFailedPause = 100 * time.Millisecond
	failedTime     = 10 * time.Second
)

// reader records which carriers have packets. It is used only by the goroutine that reads
// the socket, which is quic-go's.
type reader struct {
	inboxes  []*inbox  // inboxes that were empty and have received packets since the last serve
	waitedAt time.Time // when the last read that had to wait for packets returned

	failedAt     time.Time     // when the last read failed; zero = it succeeded
	failingSince time.Time     // when the first of the consecutive failed reads failed
	pause        time.Duration // before the next failed read returns
}

// retry reports whether to read again after an error at now. It returns true for an error
// that only means that the network is temporarily gone. For most of these errors quic-go
// would abandon the socket with all its connections.
//
// After other errors quic-go reads again at once, so retry pauses if errors follow each
// other. It does not pause for a datagram that is too long, because anybody may send such
// datagrams.
func (r *reader) handleError(now time.Time, err error) bool {
	if errors.Is(err, udp.TooLong) {
		return false
	}
	if now.Sub(r.failedAt) >= failedTime/10 {
		r.failingSince = now
		r.pause = 0
	}
	time.Sleep(r.pause)
	r.pause = min(max(2*r.pause, minFailedPause), maxFailedPause)
	r.failedAt = time.Now()
	return udp.IsLoss(err) && now.Sub(r.failingSince) < failedTime
}

// succeeded is called after a read without an error. The next error is then the first of a
// series.
func (r *reader) succeeded() { r.failedAt = time.Time{} }

// noteRead records a read from begin to end, if it had to wait.
func (r *reader) noteRead(begin, end time.Time) {
	if end.Sub(begin) >= udp.LongRead {
		r.waitedAt = end
	}
}

// serve makes the carriers handle the packets that were routed to them.
func (r *reader) notifyInboxes(now time.Time) {
	atOnce := now.Sub(r.waitedAt) < promptTime
	for _, b := range r.inboxes {
		b.notify(atOnce)
	}
	clear(r.inboxes)
	r.inboxes = r.inboxes[:0]
}
