package udp

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Reader reads from a socket whose packets the kernel may join (udp(7),
// UDP_GRO). Only one goroutine may use it. It calls recvmmsg itself in order to
// allocate nothing: golang.org/x/net allocates two addresses for each message.
type Reader struct {
	socket *Socket
	held   *readBatch // the messages that the last Read returned; nil while Read waits
	// Readable, for RawConn.Read; bound once in NewReader, so that Read allocates no closure.
	read func(fd uintptr) bool
	zone zoneNames

	// Results of the last call of readable, for Read.
	n      int  // number of messages
	waited bool // it found none at first
	err    error
}

// readBatch is the memory for one call of recvmmsg: 256 KiB. A Reader gets one from the
// pool only when there is something to read, so hundreds of waiting sockets hold none.
type readBatch struct {
	headers [readMessages]messageHeader // point at the fields below; set once
	names   [readMessages]unix.RawSockaddrInet6
	iovecs  [readMessages]unix.Iovec
	list    [readMessages]Message
	oob     [readMessages][oobBytes]byte
	data    [readMessages][joinedBytes]byte // last: the garbage collector scans a value only up to its last pointer
}

// messageHeader is recvmmsg(2)'s mmsghdr.
type messageHeader struct {
	unix.Msghdr
	n uint32 // bytes of data
}

// readBatches is a pool of the batches that no Reader holds.
var readBatches = sync.Pool{New: func() any {
	b := new(readBatch)
	for i := range b.headers {
		h, data := &b.headers[i], &b.iovecs[i]
		data.Base = &b.data[i][0]
		data.SetLen(joinedBytes)
		h.Iov, h.Name, h.Control = data, (*byte)(unsafe.Pointer(&b.names[i])), &b.oob[i][0]
		h.SetIovlen(1)
	}
	return b
}}

// NewReader returns a Reader of a kernel's socket.
func NewReader(s *Socket) *Reader {
	r := &Reader{socket: s}
	r.read = r.readable
	return r
}

// Read waits for messages, reads at least one, and reports whether it had to
// wait. The messages are valid until the next Read.
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

// free returns the batch of the last Read to the pool.
func (r *Reader) free() {
	if r.held != nil {
		readBatches.Put(r.held)
		r.held = nil
	}
}

// readable reads what has arrived. If that is nothing it returns false;
// RawConn.Read then waits, and calls it again.
func (r *Reader) readable(fd uintptr) (done bool) {
	b := readBatches.Get().(*readBatch)
	n, errno := b.receive(fd)
	switch errno {
	case 0:
		r.held, r.n = b, n
		return true
	case unix.EAGAIN:
		r.waited = true
	default:
		r.err = os.NewSyscallError("recvmmsg", errno)
	}
	readBatches.Put(b)
	return r.err != nil
}

// receive sets the lengths in the headers, which the kernel overwrites, and
// calls recvmmsg, again if a signal interrupts it.
func (b *readBatch) receive(fd uintptr) (n int, errno unix.Errno) {
	for i := range b.headers {
		h := &b.headers[i]
		h.Namelen = uint32(unsafe.Sizeof(b.names[i]))
		h.SetControllen(oobBytes)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.headers)), readMessages, unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// messages returns the messages that readable has read. They are in the memory of the batch.
func (r *Reader) messages() []Message {
	b := r.held
	for i := range r.n {
		h := &b.headers[i]
		b.list[i] = Message{Data: b.data[i][:h.n], OOB: b.oob[i][:h.Controllen], From: r.zone.addrPort(&b.names[i])}
	}
	return b.list[:r.n]
}

// zoneNames caches the name of the interface of the last address that had a
// zone, because asking the system for each packet would be slow.
type zoneNames struct {
	index uint32
	name  string
}

// addrPort converts an address that the kernel has written to the form of
// [AddrPort]. Addresses of IPv4 and IPv6 both begin with family and port.
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

// of returns the name of an interface, or its number if it has none.
func (z *zoneNames) of(index uint32) string {
	if z.index != index {
		z.index, z.name = index, zoneName(int(index))
	}
	return z.name
}
