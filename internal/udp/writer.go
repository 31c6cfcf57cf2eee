package udp

import (
	"errors"
	"net"
	"net/netip"
)

// MaxSegments is the maximum number of packets that one call may send.
const MaxSegments = 16

// ErrBlocked is returned if the socket's send buffer is full. The caller must send the rest
// again.
var ErrBlocked = errors.New("udp: send buffer is full")

// A Writer sends the packets of one carrier. It isn't safe for concurrent use.
type Writer struct {
	// MayWait makes Write wait until earlier writes to the socket return. A caller that must not
	// wait leaves it false.
	//
	// It should be set for bulk (transfers). If many carriers wrote bulk at the same time, the
	// processors would have no time for play (the game's own traffic), whose calls took three
	// times as long in a test.
	MayWait bool

	socket *Socket
	to     net.Addr
	system systemWriter
}

// NewWriter returns a Writer without an address.
func NewWriter(s *Socket) Writer { return Writer{socket: s} }

// Aim sets the destination. If this machine has several addresses, packets are sent from the
// address from.
func (w *Writer) Aim(to, from net.Addr) {
	w.to = to
	w.system.aim(w.socket, AddrPort(to), source(w.socket, from))
}

// source returns the source address that packets must specify, or zero if they needn't specify one.
// A socket that listens on all addresses must specify the one that QUIC uses, because the system
// might choose another.
func source(s *Socket, from net.Addr) netip.Addr {
	bound := AddrPort(s.Conn.LocalAddr()).Addr()
	ours := AddrPort(from).Addr()
	if !bound.IsUnspecified() || !ours.IsValid() || ours.IsUnspecified() {
		return netip.Addr{}
	}
	return ours
}

// Write sends a batch of packets of size bytes each, of which only the last may be shorter, and
// returns the number of bytes sent. After ErrBlocked, the caller must send the rest again. After
// any other error, the packets that weren't sent count as lost on the path.
func (w *Writer) Write(batch []byte, size int) (sent int, err error) {
	if w.system.ready() {
		return w.system.write(w.socket, batch, size, w.MayWait)
	}
	for sent < len(batch) {
		end := min(sent+size, len(batch))
		_, writeErr := w.socket.Conn.WriteTo(batch[sent:end], w.to)
		err = errors.Join(err, writeErr)
		sent = end
	}
	return sent, err
}
