package demo

import (
	"net"

	"github.com/quivernet/quiver/internal/netsim"
)

// link is the sockets of a server and its clients: of the loopback, or joined by an emulated link, of which all clients share
// one bottleneck each way.
type link struct {
	way      netsim.Config
	server   net.PacketConn
	emulated *netsim.PacketConn // the server; nil: on the loopback
	clients  []*netsim.PacketConn
}

// newLink opens the server's socket: on the loopback when the link would do nothing.
func newLink(way netsim.Config) (l *link, err error) {
	l = &link{way: way}
	if way.Delay == 0 && way.Jitter == 0 && way.Loss == 0 && way.Rate == 0 {
		l.server, err = net.ListenPacket("udp4", "127.0.0.1:0")
		return l, err
	}
	l.emulated = netsim.NewPacketConn()
	l.server = l.emulated
	return l, nil
}

// client opens the socket of one more client, whose packets have fates of their own.
func (l *link) client() (net.PacketConn, error) {
	if l.emulated == nil {
		return net.ListenPacket("udp4", "127.0.0.1:0")
	}
	c, way := netsim.NewPacketConn(), l.way
	way.Seed += uint64(len(l.clients))
	netsim.Connect(c, l.emulated, way, way)
	if l.clients = append(l.clients, c); len(l.clients) > 1 {
		netsim.Share(l.clients[0].To(l.emulated), c.To(l.emulated))
		netsim.Share(l.emulated.To(l.clients[0]), l.emulated.To(c))
	}
	return c, nil
}

// stats returns what the emulated link did, both ways: nothing on the loopback.
func (l *link) stats() (s netsim.Stats) {
	for _, c := range l.clients {
		s = s.Add(c.To(l.emulated).Stats()).Add(l.emulated.To(c).Stats())
	}
	return s
}
