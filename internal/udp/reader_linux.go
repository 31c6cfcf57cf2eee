package udp

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reader reads from a socket for which the kernel joins packets (udp(7), UDP_GRO). One goroutine may use it. It calls recvmmsg itself, and
// allocates nothing: golang.org/x/net makes two addresses for each message.
type Reader struct {
	socket *Socket
	held   *messages             // of the last Read; nil while Read waits
	read   func(fd uintptr) bool // readable, for RawConn.Read: a function that is made once allocates nothing later
	zone   zoneNames

	// Results of readable.
	n      int
	waited bool
	err    error
}

// messages is what one call of recvmmsg fills: 256 KiB. A Reader takes them when there is something to read, so that hundreds of sockets
// that wait hold none.
type messages struct {
	headers [readMessages]messageHeader // point at the fields below, once and for all
	names   [readMessages]unix.RawSockaddrInet6
	iovecs  [readMessages]unix.Iovec
	list    [readMessages]Message
	oob     [readMessages][oobBytes]byte
	data    [readMessages][joinedBytes]byte // last, for the garbage collector looks at what lies before a pointer
}

// messageHeader is recvmmsg(2)'s mmsghdr.
type messageHeader struct {
	unix.Msghdr
	n uint32 // bytes of data
}

var freeMessages = sync.Pool{New: func() any {
	m := new(messages)
	for i := range m.headers {
		h, data := &m.headers[i], &m.iovecs[i]
		data.Base = &m.data[i][0]
		data.SetLen(joinedBytes)
		h.Iov, h.Name, h.Control = data, (*byte)(unsafe.Pointer(&m.names[i])), &m.oob[i][0]
		h.SetIovlen(1)
	}
	return m
}}

// NewReader returns a Reader of a socket that has GRO.
func NewReader(s *Socket) *Reader {
	r := &Reader{socket: s}
	r.read = r.readable
	return r
}

// Read returns the next messages, which are valid until the next Read, and whether it had to wait for them.
func (r *Reader) Read() (ms []Message, waited bool, err error) {
	r.free()
	r.n, r.waited, r.err = 0, false, nil
	if err := r.socket.Raw.Read(r.read); err != nil {
		return nil, false, err
	}
	if r.err != nil {
		return nil, false, &net.OpError{Op: "read", Net: "udp", Source: r.socket.Conn.LocalAddr(), Err: r.err}
	}
	return r.messages(), r.waited, nil
}

// free gives the last messages back.
func (r *Reader) free() {
	if r.held != nil {
		freeMessages.Put(r.held)
		r.held = nil
	}
}

// readable reads what there is, and is false when that is nothing: RawConn.Read then waits, and calls it again.
func (r *Reader) readable(fd uintptr) bool {
	m := freeMessages.Get().(*messages)
	n, errno := m.receive(fd)
	switch errno {
	case 0:
		r.held, r.n = m, n
		return true
	case unix.EAGAIN:
		r.waited = true
	default:
		r.err = os.NewSyscallError("recvmmsg", errno)
	}
	freeMessages.Put(m)
	return r.err != nil
}

func (m *messages) receive(fd uintptr) (n int, errno unix.Errno) {
	for i := range m.headers {
		h := &m.headers[i]
		h.Namelen = uint32(unsafe.Sizeof(m.names[i]))
		h.SetControllen(oobBytes)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&m.headers)), readMessages, unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// messages returns what was read.
func (r *Reader) messages() []Message {
	m := r.held
	for i := range r.n {
		h := &m.headers[i]
		m.list[i] = Message{Data: m.data[i][:h.n], OOB: m.oob[i][:h.Controllen], From: r.zone.addrPort(&m.names[i])}
	}
	return m.list[:r.n]
}

// zoneNames knows the name of the interface of the last address that had a zone.
type zoneNames struct {
	index uint32
	name  string
}

// addrPort returns an address as the kernel writes it, in the form of [AddrPort]. Both kinds begin with family and port.
func (z *zoneNames) addrPort(name *unix.RawSockaddrInet6) netip.AddrPort {
	digits := (*[2]byte)(unsafe.Pointer(&name.Port))
	port := uint16(digits[0])<<8 | uint16(digits[1])
	if name.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr), port)
	}
	addr := netip.AddrFrom16(name.Addr).Unmap()
	if name.Scope_id != 0 {
		addr = addr.WithZone(z.of(name.Scope_id))
	}
	return netip.AddrPortFrom(addr, port)
}

// of returns the name of an interface, its number when it has none.
func (z *zoneNames) of(index uint32) string {
	if z.index != index {
		z.index, z.name = index, zoneName(int(index))
	}
	return z.name
}
