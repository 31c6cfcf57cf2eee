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
var ErrBlocked = errors.New("udp: the socket's send buffer is full")

// A Writer sends the packets of one carrier. It is not safe for concurrent use.
type Writer struct {
	// MayWait makes Write wait until earlier writes to the socket are done. A caller that
	// must not wait leaves it false.
	//
	// It is set for bulk. When the carriers of a crowd wrote at the same time, the processors
	// had no time for play (game traffic: everything but bulk), and calls took three times as
	// long.
	MayWait bool

	socket *Socket
	to     net.Addr
	system systemWriter
}

// NewWriter returns a Writer without an address.
func NewWriter(s *Socket) Writer { return Writer{socket: s} }

// Aim sets the destination. If this machine has several addresses, from is the one to send
// from.
func (w *Writer) Aim(to, from net.Addr) {
	w.to = to
	w.system.aim(w.socket, AddrPort(to), source(w.socket, from))
}

// source returns the source address that packets must name, or zero. If the socket listens on
// all addresses, packets must name QUIC's source address, because the system may choose
// another.
func source(s *Socket, from net.Addr) netip.Addr {
	bound := AddrPort(s.Conn.LocalAddr()).Addr()
	ours := AddrPort(from).Addr()
	if !bound.IsUnspecified() || !ours.IsValid() || ours.IsUnspecified() {
		return netip.Addr{}
	}
	return ours
}

// Write sends a batch of packets of size bytes each. Only the last packet may be shorter.
// sent counts bytes. After ErrBlocked, the caller must send the rest again. After any other
// error, the rest counts as lost on the path.
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
