package emulate

import (
	"errors"
	"fmt"
	"net"

	"github.com/quivernet/quiver/internal/netsim"
)

// sockets are two real sockets on the loopback.
type sockets struct {
	server, client *net.UDPConn
}

func newSockets() (s sockets, err error) {
	for _, c := range []**net.UDPConn{&s.server, &s.client} {
		if *c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			s.Close()
			return s, err
		}
		_ = (*c).SetReadBuffer(receiveBuffer)
		_ = (*c).SetWriteBuffer(receiveBuffer)
	}
	return s, nil
}

func (s sockets) Server() net.PacketConn { return s.server }
func (s sockets) Client() net.PacketConn { return s.client }

func (s sockets) Close() {
	for _, c := range []*net.UDPConn{s.client, s.server} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// A loopback is a Net with nothing between the sockets.
type loopback struct{ sockets }

func newLoopback() (Net, error) {
	s, err := newSockets()
	return loopback{s}, err
}

func (l loopback) Address() net.Addr { return l.server.LocalAddr() }

func (l loopback) BDP() int { return 0 }

func (l loopback) Stats() (up, down netsim.Stats) { return netsim.Stats{}, netsim.Stats{} }

func (l loopback) Front(port int) (*net.UDPAddr, error) {
	return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, nil
}

// A relay is a Net with a netsim.Relay between the sockets.
type relay struct {
	sockets
	path  netsim.Config
	relay *netsim.Relay
	front *netsim.Relay // the relay to a server that opens its socket itself; nil = none
}

func newRelay(path netsim.Config) (Net, error) {
	s, err := newSockets()
	if err != nil {
		return nil, err
	}
	r, err := netsim.NewRelay(s.server.LocalAddr().String(), path, path)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &relay{sockets: s, path: path, relay: r}, nil
}

func (r *relay) Address() net.Addr { return r.relay.Addr() }

func (r *relay) BDP() int { return bdp(r.path) }

func (r *relay) Front(port int) (*net.UDPAddr, error) {
	if r.front != nil {
		return nil, errors.New("emulate: relay already has a front")
	}
	front, err := netsim.NewRelay(fmt.Sprintf("127.0.0.1:%d", port), r.path, r.path)
	if err != nil {
		return nil, err
	}
	r.front = front
	return front.Addr(), nil
}

func (r *relay) Stats() (up, down netsim.Stats) {
	if r.front != nil {
		return r.front.Stats()
	}
	return r.relay.Stats()
}

func (r *relay) Close() {
	_ = r.relay.Close()
	if r.front != nil {
		_ = r.front.Close()
	}
	r.sockets.Close()
}
