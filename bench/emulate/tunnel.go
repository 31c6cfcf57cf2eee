package emulate

import (
	"context"
	"net"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// Streamed is a Net for peers that need the kernel's TCP.
type Streamed interface {
	// Listen listens where the server is.
	Listen() (net.Listener, error)
	// Dial connects from where the client is.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// tunnel carries IP packets between two network namespaces over netsim's links, in real time, so that the kernel's TCP
// meets the path. To be comparable with what others send in datagrams it counts 28 bytes less a packet than it carries:
// the headers of IP and UDP.
type tunnel struct {
	path           netsim.Config
	near, far      *netsim.PacketConn
	client, server *namespace
}

// NewTunnel returns a tunnel for the job's path, for which the process must be root on Linux with a TUN device. Its
// sockets for datagrams are nil.
func NewTunnel(j job.Job) (Net, error) {
	t := &tunnel{path: Path(j)}
	var err error
	if t.client, err = newNamespace(clientIP); err != nil {
		return nil, err
	}
	if t.server, err = newNamespace(serverIP); err != nil {
		t.client.close()
		return nil, err
	}
	whole := t.path
	whole.Overhead = -1 // packets bring their headers
	t.near, t.far = netsim.Pipe(whole, whole)
	_ = t.near.SetReadBuffer(receiveBuffer)
	_ = t.far.SetReadBuffer(receiveBuffer)
	go t.client.carry(t.near, t.far.LocalAddr())
	go t.server.carry(t.far, t.near.LocalAddr())
	return t, nil
}

var (
	clientIP = net.IPv4(10, 77, 0, 1).To4()
	serverIP = net.IPv4(10, 77, 0, 2).To4()
)

func (t *tunnel) Server() net.PacketConn { return nil }
func (t *tunnel) Client() net.PacketConn { return nil }
func (t *tunnel) Address() net.Addr      { return &net.TCPAddr{IP: serverIP} }

func (t *tunnel) Listen() (l net.Listener, err error) {
	t.server.within(func() { l, err = net.Listen("tcp4", net.JoinHostPort(serverIP.String(), "0")) })
	return l, err
}

func (t *tunnel) Dial(ctx context.Context, address string) (c net.Conn, err error) {
	t.client.within(func() { c, err = new(net.Dialer).DialContext(ctx, "tcp4", address) })
	return c, err
}

func (t *tunnel) BDP() int { return bdp(t.path) }

func (t *tunnel) Stats() (up, down netsim.Stats) {
	return withoutHeaders(t.near.To(t.far).Stats()), withoutHeaders(t.far.To(t.near).Stats())
}

func withoutHeaders(s netsim.Stats) netsim.Stats {
	s.Bytes -= s.Packets * netsim.UDPOverhead
	s.DeliveredBytes -= s.Delivered * netsim.UDPOverhead
	return s
}

func (t *tunnel) Close() {
	t.client.close()
	t.server.close()
	_, _ = t.near.Close(), t.far.Close()
}
