package emulate

import (
	"context"
	"net"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// Streamed is a Net for peers that need the kernel's TCP.
type Streamed interface {
	// Listen listens on the server's side.
	Listen() (net.Listener, error)
	// Dial connects from the client's side.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// A Tunnel carries IP packets between two network namespaces over netsim's links, in
// real time, so that the kernel's TCP uses the path, beside datagrams of the same
// namespaces. Its Stats count 28 bytes less per packet than it carries, the headers
// of IP and UDP, so that they are comparable with those of nets that carry datagrams.
type Tunnel struct {
	path           netsim.Config
	near, far      *netsim.PacketConn
	client, server *namespace
}

// NewTunnel returns a tunnel for the job's path. The process must be root on
// Linux with a TUN device.
func NewTunnel(j job.Job) (*Tunnel, error) {
	t := &Tunnel{path: Path(j)}
	var err error
	if t.client, err = newNamespace(clientIP); err != nil {
		return nil, err
	}
	if t.server, err = newNamespace(serverIP); err != nil {
		t.client.close()
		return nil, err
	}
	whole := t.path
	whole.Overhead = -1 // the packets include their headers
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

func (t *Tunnel) Server() net.PacketConn { return t.server.socket }
func (t *Tunnel) Client() net.PacketConn { return t.client.socket }
func (t *Tunnel) Address() net.Addr      { return t.server.socket.LocalAddr() }

// Protocol numbers of IP.
const (
	TCP = 6
	UDP = 17
)

// Arrived returns how many bytes of a protocol have arrived at the server, including headers.
func (t *Tunnel) Arrived(protocol byte) uint64 { return t.server.arrived[protocol].Load() }

func (t *Tunnel) Listen() (l net.Listener, err error) {
	t.server.within(func() { l, err = net.Listen("tcp4", net.JoinHostPort(serverIP.String(), "0")) })
	return l, err
}

func (t *Tunnel) Dial(ctx context.Context, address string) (c net.Conn, err error) {
	t.client.within(func() { c, err = new(net.Dialer).DialContext(ctx, "tcp4", address) })
	return c, err
}

func (t *Tunnel) BDP() int { return bdp(t.path) }

func (t *Tunnel) Stats() (up, down netsim.Stats) {
	return withoutHeaders(t.near.To(t.far).Stats()), withoutHeaders(t.far.To(t.near).Stats())
}

func withoutHeaders(s netsim.Stats) netsim.Stats {
	s.Bytes -= s.Packets * netsim.UDPOverhead
	s.DeliveredBytes -= s.Delivered * netsim.UDPOverhead
	return s
}

func (t *Tunnel) Close() {
	t.client.close()
	t.server.close()
	_, _ = t.near.Close(), t.far.Close()
}
