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

// SocketConfig holds the settings of a Socket; the zero value is right for most.
type SocketConfig struct {
	// NoOffload switches UDP GSO and GRO off, by which the kernel takes or hands over many packets in one call.
	NoOffload bool
	// Guard watches what QUIC receives and sends. nil = nobody does.
	Guard Guard
}

// Guard watches what QUIC receives, and decides what it sends. Its methods must not block, nor change or keep the packets, which are not
// empty.
type Guard interface {
	// Came notes a packet that QUIC gets. Only QUIC's reader calls it.
	Came(from netip.AddrPort, packet []byte)
	// Route reports whether QUIC may send packets, one or, with GSO, several in a row, and where a copy of them goes; nil = nowhere. Those
	// that it refuses are dropped, and QUIC takes them for sent.
	Route(to net.Addr, packets []byte) (also net.Addr, ok bool)
}

// Socket shares a UDP socket between QUIC and carriers. All methods may be called concurrently.
type Socket struct {
	sys   *udp.Socket
	real  bool  // it is the kernel's, and time is real, not a test's
	guard Guard // SocketConfig.Guard

	mu    sync.RWMutex // guards boxes
	boxes map[ID]*inbox

	reader reader               // what quic-go reads
	crew   *crew.Crew[*Carrier] // takes turns for carriers without bulk
	timers *timers.Queue        // of carriers, while they wait

	early early        // packets with unknown ids, for carriers that are about to begin; guarded by its own lock
	lent  atomic.Int64 // bytes that inboxes have borrowed, at most lentBytes

	unsent atomic.Pointer[error] // why the newest packet of QUIC's did not leave; nil = it did

	// Counts of the packets that were kept from QUIC.
	kept    atomic.Uint64 // for a carrier
	unknown atomic.Uint64 // with an unknown id: dropped, unless a carrier registers the id within earlyTime
	size    atomic.Uint64 // dropped because they were too short or too long to be sealed packets
}

// kernelTimers are those of all sockets of the kernel's: a process may have hundreds of clients. Others live in a test's time, and so do the
// kernel's in a bubble of testing/synctest.
var kernelTimers = timers.New()

// NewSocket wraps a socket, usually a *net.UDPConn. From now on nobody else may read from that; the caller closes it.
func NewSocket(conn net.PacketConn, c SocketConfig) *Socket {
	s := &Socket{sys: udp.New(conn, !c.NoOffload), guard: c.Guard, boxes: make(map[ID]*inbox), crew: crew.New((*Carrier).play), timers: kernelTimers}
	if s.real = s.sys.Raw != nil && kernelTimers.Shares(time.Now()); !s.real {
		s.timers = timers.New()
	}
	return s
}

// QUIC returns the Conn for quic-go's Transport: the socket without the packets of carriers.
func (s *Socket) QUIC() net.PacketConn {
	plain := &plainConn{PacketConn: s.sys.Conn, socket: s}
	if s.sys.Raw != nil {
		return &udpConn{sizedConn: sizedConn{plain, s.sys.UDP}, udp: s.sys.UDP, reader: udp.NewReader(s.sys)}
	}
	if system, ok := s.sys.Conn.(udp.SystemConn); ok {
		return &sizedConn{plain, system}
	}
	return plain
}

// register makes b the inbox of ids, and gives b the packets that arrived for them within the last earlyTime. It is an error when an id
// is in use.
func (s *Socket) register(b *inbox, ids ...ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.boxes[id] != nil {
			return fmt.Errorf("sealed: id %x is in use", id)
		}
	}
	for _, id := range ids {
		s.boxes[id] = b
	}
	s.early.deliver(b, ids)
	return nil
}

// issue draws an unused id, and makes b its inbox.
func (s *Socket) issue(b *inbox) ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		id := NewID()
		if s.boxes[id] == nil {
			s.boxes[id] = b
			return id
		}
	}
}

func (s *Socket) retire(ids ...ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.boxes, id)
	}
}

// forQUIC reports whether a packet is for QUIC. If not, it has routed the packet, or dropped it.
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

// send sends packets of QUIC's by write, to where the guard says. Those that are as good as lost on the way are taken for sent, for quic-go ends
// a connection of which a packet fails.
func (s *Socket) send(packets []byte, to net.Addr, write func(to net.Addr) (int, error)) (int, error) {
	n, err := s.guarded(packets, to, write)
	if err == nil {
		if s.unsent.Load() != nil {
			s.unsent.Store(nil)
		}
		return n, nil
	}
	refused := err
	s.unsent.Store(&refused)
	if udp.IsLoss(err) {
		return len(packets), nil
	}
	return n, err
}

func (s *Socket) guarded(packets []byte, to net.Addr, write func(to net.Addr) (int, error)) (int, error) {
	if s.guard == nil || len(packets) == 0 {
		return write(to)
	}
	also, ok := s.guard.Route(to, packets)
	if !ok {
		return len(packets), nil
	}
	n, err := write(to)
	if also != nil {
		_, _ = write(also) // as good as lost, if it fails
	}
	return n, err
}

// route copies a packet that is not for QUIC into the inbox of its id, without opening it. at is its time of arrival.
func (s *Socket) route(at time.Time, from netip.AddrPort, packet []byte) {
	if len(packet) < Overhead || len(packet) > JumboPacket {
		s.size.Add(1)
		return
	}
	id := ID(packet[1 : 1+idBytes])
	s.mu.RLock()
	box := s.boxes[id]
	if box == nil && len(packet) <= MaxPacket { // a carrier that begins sends no jumbo packet
		s.early.keep(at, from, id, packet) // under the lock, so that register does not miss it
	}
	s.mu.RUnlock()
	if box == nil {
		s.unknown.Add(1)
		return
	}
	s.kept.Add(1)
	if box.put(at, from, packet) {
		s.reader.boxes = append(s.reader.boxes, box)
	}
}

const (
	// promptTime is how long after a wait the reader still takes turns for carriers. One that has had no time to wait for so long would
	// keep everybody's packets waiting; then the turns are for other goroutines.
	promptTime = time.Millisecond
	// failedPause is the pause after the second of two failed reads in a row; it doubles up to failedMost. When reads have failed for failedTime, the
	// socket is given up.
	failedPause = time.Millisecond
	failedMost  = 100 * time.Millisecond
	failedTime  = 10 * time.Second
)

// reader knows which carriers have got packets. It belongs to the goroutine that reads the socket, quic-go's.
type reader struct {
	boxes  []*inbox  // got their first packets since the last serve
	waited time.Time // when packets ended the last wait for some

	failed  time.Time     // when the last read failed; zero = it did not
	failing time.Time     // when the first of those failed that follow each other
	pause   time.Duration // after the next one
}

// goesOn reports whether the socket may be read again after an error, at now, as after one that says no more than that the network has gone. quic-go
// gives up the socket, with all connections, for most of those, and reads again at once after others, so goesOn waits where they come in a row. It
// does not for a datagram that does not fit: anybody may send some.
func (r *reader) goesOn(now time.Time, err error) bool {
	if errors.Is(err, udp.TooLong) {
		return false
	}
	if now.Sub(r.failed) >= failedTime/10 {
		r.failing, r.pause = now, 0
	}
	time.Sleep(r.pause)
	r.pause = min(max(2*r.pause, failedPause), failedMost)
	r.failed = time.Now()
	return udp.IsLoss(err) && now.Sub(r.failing) < failedTime
}

// succeeded notes a read that has not failed: the next error is the first of a row.
func (r *reader) succeeded() { r.failed = time.Time{} }

// noteRead notes a read, which may have waited.
func (r *reader) noteRead(begin, end time.Time) {
	if end.Sub(begin) >= udp.LongRead {
		r.waited = end
	}
}

// serve has carriers take the packets that have come by now.
func (r *reader) serve(now time.Time) {
	atOnce := now.Sub(r.waited) < promptTime
	for _, b := range r.boxes {
		b.look(atOnce)
	}
	clear(r.boxes)
	r.boxes = r.boxes[:0]
}
