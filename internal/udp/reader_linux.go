package udp

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Reader reads from a socket whose packets the kernel may join (udp(7), UDP_GRO). It isn't safe
// for concurrent use.
//
// It calls recvmmsg itself to avoid allocations, because golang.org/x/net allocates two addresses
// for each message.
type Reader struct {
	socket *Socket
	batch  *readBatch            // holds the messages of the last Read; nil while Read waits
	tryFn  func(fd uintptr) bool // tryRead, bound once so that Read doesn't allocate a closure
	zone   zoneNames

	// Results of tryRead, which can't be returned through RawConn.
	n      int  // number of messages
	waited bool // tryRead found no message at first
	err    error
}

// A readBatch is the memory for one call of recvmmsg, 256 KiB. A Reader takes a batch from the pool
// only while it has something to read, so hundreds of waiting sockets don't hold any.
type readBatch struct {
	headers [readMessages]messageHeader // point at the fields below; set once
	names   [readMessages]unix.RawSockaddrInet6
	iovecs  [readMessages]unix.Iovec
	list    [readMessages]Message
	oob     [readMessages][oobBytes]byte
	data    [readMessages][joinedBytes]byte // last, because the garbage collector scans up to the last pointer
}

// messageHeader is mmsghdr of recvmmsg(2).
type messageHeader struct {
	unix.Msghdr
	n uint32 // bytes of data
}

// readBatches is the pool of batches.
var readBatches = sync.Pool{New: func() any {
	b := new(readBatch)
	for i := range b.headers {
		h := &b.headers[i]
		data := &b.iovecs[i]
		data.Base = &b.data[i][0]
		data.SetLen(joinedBytes)
		h.Iov = data
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Control = &b.oob[i][0]
		h.SetIovlen(1)
	}
	return b
}}

// NewReader returns a Reader of a kernel socket.
func NewReader(s *Socket) *Reader {
	r := &Reader{socket: s}
	r.tryFn = r.tryRead
	return r
}

// Read reads at least one message, and reports whether it had to wait for the first. The messages
// are valid until the next Read.
func (r *Reader) Read() (ms []Message, waited bool, err error) {
	r.free()
	r.n = 0
	r.waited = false
	r.err = nil
	if err := r.socket.Raw.Read(r.tryFn); err != nil {
		return nil, false, err
	}
	if r.err != nil {
		source := r.socket.Conn.LocalAddr()
		return nil, false, &net.OpError{Op: "read", Net: "udp", Source: source, Err: r.err}
	}
	return r.messages(), r.waited, nil
}

// free returns the batch of the last Read to the pool.
func (r *Reader) free() {
	if r.batch != nil {
		readBatches.Put(r.batch)
		r.batch = nil
	}
}

// tryRead reads what has arrived. If that is nothing, it returns false, so that RawConn.Read waits
// and then calls it again.
func (r *Reader) tryRead(fd uintptr) (done bool) {
	b := readBatches.Get().(*readBatch)
	n, errno := b.receive(fd)
	switch errno {
	case 0:
		r.batch = b
		r.n = n
		return true
	case unix.EAGAIN:
		r.waited = true
	default:
		r.err = os.NewSyscallError("recvmmsg", errno)
	}
	readBatches.Put(b)
	return r.err != nil
}

// receive sets the lengths in the headers, which the kernel overwrites, and calls recvmmsg.
// If a signal interrupts the call, receive repeats it.
func (b *readBatch) receive(fd uintptr) (n int, errno unix.Errno) {
	for i := range b.headers {
		h := &b.headers[i]
		h.Namelen = uint32(unsafe.Sizeof(b.names[i]))
		h.SetControllen(oobBytes)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.headers)),
			readMessages, unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// messages returns the messages that tryRead read. They use the batch's memory.
func (r *Reader) messages() []Message {
	b := r.batch
	for i := range r.n {
		h := &b.headers[i]
		b.list[i] = Message{
			From: r.zone.addrPort(&b.names[i]),
			Data: b.data[i][:h.n],
			OOB:  b.oob[i][:h.Controllen],
		}
	}
	return b.list[:r.n]
}

// zoneNames caches the interface name of the last address with a zone, because asking the system
// for the name with each packet would be slow.
type zoneNames struct {
	index uint32
	name  string
}

// addrPort converts an address written by the kernel to the form of [AddrPort]. It reads the family
// and the port before it knows the family, because IPv4 and IPv6 addresses both begin with them.
func (z *zoneNames) addrPort(name *unix.RawSockaddrInet6) netip.AddrPort {
	bigEndian := (*[2]byte)(unsafe.Pointer(&name.Port))
	port := uint16(bigEndian[0])<<8 | uint16(bigEndian[1])
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
		z.index = index
		z.name = zoneName(int(index))
	}
	return z.name
}
