package main

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// impairment is what the emulated link does, the same in both directions.
type impairment struct {
	rtt  time.Duration
	loss float64
	rate int64 // bit/s; 0: no limit
	seed uint64
}

func (i impairment) none() bool { return i.rtt == 0 && i.loss == 0 && i.rate == 0 }

// path is the server's socket, the clients', and what lies between.
type path struct {
	server  net.PacketConn
	clients []net.PacketConn
	target  string        // where clients send to
	relay   *netsim.Relay // nil: nothing lies between
	bytes   atomic.Uint64 // without a relay
}

// newPath opens the server's socket on the loopback, with an emulated link before it unless that would do nothing.
func newPath(i impairment) (*path, error) {
	socket, err := listenLoopback()
	if err != nil {
		return nil, err
	}
	p := &path{server: socket, target: socket.LocalAddr().String()}
	if i.none() {
		p.server = &countedSocket{socket, &p.bytes}
		return p, nil
	}
	// The queue is netsim's default: one bandwidth-delay product, at least 64 KiB. So is the overhead of 28 bytes.
	way := netsim.Config{Delay: i.rtt / 2, Loss: i.loss, Rate: i.rate, Seed: i.seed}
	if p.relay, err = netsim.NewRelay(p.target, way, way); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.target = p.relay.Addr().String()
	return p, nil
}

// client opens the socket of one more client.
func (p *path) client() (net.PacketConn, error) {
	socket, err := listenLoopback()
	if err != nil {
		return nil, err
	}
	p.clients = append(p.clients, socket)
	if p.relay == nil {
		return &countedSocket{socket, &p.bytes}, nil
	}
	return socket, nil
}

func listenLoopback() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

// linkBytes is what went over the link in both directions, with IP and UDP.
func (p *path) linkBytes() uint64 {
	if p.relay != nil {
		up, down := p.relay.Stats()
		return up.CarriedBytes + down.CarriedBytes
	}
	return p.bytes.Load()
}

func (p *path) close() error {
	err := p.server.Close()
	for _, c := range p.clients {
		err = errors.Join(err, c.Close())
	}
	if p.relay != nil {
		err = errors.Join(err, p.relay.Close())
	}
	return err
}

// countedSocket counts what is sent. It is a UDPConn for all else, so that quic-go sends in batches.
type countedSocket struct {
	*net.UDPConn
	bytes *atomic.Uint64
}

func (c *countedSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	c.count(len(b), segments(len(b), oob))
	return c.UDPConn.WriteMsgUDP(b, oob, addr)
}

func (c *countedSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	c.count(len(b), 1)
	return c.UDPConn.WriteTo(b, addr)
}

func (c *countedSocket) count(bytes, packets int) {
	c.bytes.Add(uint64(bytes + packets*netsim.UDPOverhead))
}
