package udp

import (
	"errors"
	"net"
	"net/netip"
)

// MaxSegments is how many packets one call may send.
const MaxSegments = 16

// ErrBlocked is returned when the socket's send buffer is full. The caller must send the rest again.
var ErrBlocked = errors.New("udp: the socket's send buffer is full")

// Writer sends packets of one carrier. It is not safe for concurrent use.
type Writer struct {
	// MayWait makes Write wait for its turn among the writes to the socket. Bulk does: if the carriers of a crowd wrote at the same time, the
	// processors would have no time for play, whose calls took three times as long. Who must not wait leaves it false.
	MayWait bool

	socket *Socket
	to     net.Addr
	system systemWriter
}

// NewWriter returns a writer without an address.
func NewWriter(s *Socket) Writer { return Writer{socket: s} }

// Aim sets the address to send to, and the address of this machine to send from where the socket has several.
func (w *Writer) Aim(to, from net.Addr) {
	w.to = to
	w.system.aim(w.socket, AddrPort(to), source(w.socket, from))
}

// source returns the address that packets must name as theirs: QUIC's, when the socket listens on all addresses, for the
// system's choice may be another.
func source(s *Socket, from net.Addr) netip.Addr {
	bound, ours := AddrPort(s.Conn.LocalAddr()).Addr(), AddrPort(from).Addr()
	if !bound.IsUnspecified() || !ours.IsValid() || ours.IsUnspecified() {
		return netip.Addr{}
	}
	return ours
}

// Write sends a batch of packets that are all size bytes long but for the last, which may be shorter. sent counts bytes.
// With ErrBlocked the rest is to be sent again; with other errors it is as good as lost on the way.
func (w *Writer) Write(batch []byte, size int) (sent int, err error) {
	if w.system.ready() {
		return w.system.write(w.socket, batch, size, w.MayWait)
	}
	for sent < len(batch) {
		end := min(sent+size, len(batch))
		_, failed := w.socket.Conn.WriteTo(batch[sent:end], w.to)
		err = errors.Join(err, failed)
		sent = end
	}
	return sent, err
}
