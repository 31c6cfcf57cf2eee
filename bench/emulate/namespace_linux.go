package emulate

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/quivernet/quiver/internal/netsim"
)

const tunDevice = "/dev/net/tun"

// CanTunnel reports whether NewTunnel is likely to succeed.
func CanTunnel() bool {
	_, err := os.Stat(tunDevice)
	return err == nil && os.Geteuid() == 0
}

// A namespace is the network namespace of a locked thread, with a TUN device and a socket for
// datagrams.
type namespace struct {
	tun     *os.File
	socket  *net.UDPConn
	work    chan func()
	arrived [256]atomic.Uint64 // bytes received from the path, by protocol of IP
}

func newNamespace(ip net.IP) (*namespace, error) {
	n := &namespace{work: make(chan func())}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // permanently: the thread ends with its goroutine, and the namespace with it
		err := n.enter(ip)
		failed <- err
		for fn := range n.work {
			fn()
		}
	}()
	if err := <-failed; err != nil {
		close(n.work)
		return nil, fmt.Errorf("emulate: make namespace with TUN device: %w", err)
	}
	return n, nil
}

func (n *namespace) enter(ip net.IP) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("bench0")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	n.tun = os.NewFile(uintptr(fd), tunDevice)
	if err := raise("bench0", ip); err != nil {
		return errors.Join(err, n.tun.Close())
	}
	if n.socket, err = net.ListenUDP("udp4", &net.UDPAddr{IP: ip}); err != nil {
		return errors.Join(err, n.tun.Close())
	}
	_ = n.socket.SetReadBuffer(receiveBuffer)
	_ = n.socket.SetWriteBuffer(receiveBuffer)
	return nil
}

// raise sets the address of a device and brings it up.
func raise(device string, ip net.IP) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, step := range []struct {
		request uint
		set     func(r *unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.IPv4Mask(255, 255, 255, 0)) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(device)
		if err == nil {
			err = step.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within runs fn in the namespace, to which sockets that fn opens then belong.
func (n *namespace) within(fn func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); fn() }
	<-done
}

const maxPacket = 1 << 16

// carry copies packets between the device and one end of the path until both are closed.
func (n *namespace) carry(end *netsim.PacketConn, peer net.Addr) {
	go func() {
		packet := make([]byte, maxPacket)
		for {
			size, _, err := end.ReadFrom(packet)
			if err != nil {
				return
			}
			n.arrived[packet[9]].Add(uint64(size))
			_, _ = n.tun.Write(packet[:size])
		}
	}()
	packet := make([]byte, maxPacket)
	for {
		size, err := n.tun.Read(packet)
		if err != nil {
			return
		}
		if packet[0]>>4 == 4 {
			_, _ = end.WriteTo(packet[:size], peer)
		}
	}
}

func (n *namespace) close() {
	_, _ = n.socket.Close(), n.tun.Close()
	close(n.work)
}
