package demo

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

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

// ParseRate takes bits a second, which have the units of bytes: 0, 10mbit, 512kbit/s and the like.
func ParseRate(s string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), "/s"), "bit"))
	if err != nil || n > 1e12 {
		return 0, errors.New("it is a rate like 512kbit or 10mbit, up to 1000gbit")
	}
	return int64(n), nil
}

// ParseLoss takes 1%, 0.5%, or 0.01.
func ParseLoss(s string) (loss float64, err error) {
	number, percent := strings.CutSuffix(s, "%")
	if loss, err = strconv.ParseFloat(number, 64); percent {
		loss /= 100
	}
	if err != nil || !(loss >= 0 && loss < 1) {
		return 0, errors.New("it is a share like 1%, below 100%")
	}
	return loss, nil
}
