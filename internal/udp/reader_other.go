//go:build !linux

package udp

import "time"

// A Reader reads one packet at a time. Only one goroutine may use it.
type Reader struct {
	socket *Socket
	held   [1]Message
	data   [joinedBytes]byte
	oob    [oobBytes]byte
}

// NewReader returns a Reader of a kernel socket.
func NewReader(s *Socket) *Reader { return &Reader{socket: s} }

// Read reads a packet, and reports whether it had to wait for the packet. The packet is valid until
// the next Read.
func (r *Reader) Read() (ms []Message, waited bool, err error) {
	begin := time.Now()
	n, oobn, _, from, err := r.socket.UDP.ReadMsgUDPAddrPort(r.data[:], r.oob[:])
	if err != nil {
		return nil, false, err
	}
	r.held[0] = Message{Data: r.data[:n], OOB: r.oob[:oobn], From: canonical(from)}
	return r.held[:], time.Since(begin) >= LongRead, nil
}
