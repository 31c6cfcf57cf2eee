//go:build !linux

package udp

import "time"

// Reader reads one packet at a time. One goroutine may use it.
type Reader struct {
	socket *Socket
	held   [1]Message
	data   [joinedBytes]byte
	oob    [oobBytes]byte
}

// NewReader returns a Reader of a socket of the kernel's.
func NewReader(s *Socket) *Reader { return &Reader{socket: s} }

// Read returns the next packet, which is valid until the next Read, and whether it had to wait for it.
func (r *Reader) Read() (ms []Message, waited bool, err error) {
	begin := time.Now()
	n, oobn, _, from, err := r.socket.UDP.ReadMsgUDPAddrPort(r.data[:], r.oob[:])
	if err != nil {
		return nil, false, err
	}
	r.held[0] = Message{Data: r.data[:n], OOB: r.oob[:oobn], From: inOneForm(from)}
	return r.held[:], time.Since(begin) >= LongRead, nil
}
