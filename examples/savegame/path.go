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

// path is the sockets of a demo's two ends, and what lies between.
type path struct {
	server, client net.PacketConn
	target         string // where the client sends to
	relay          *netsim.Relay
	counted        [2]*countedSocket // without a relay
}

// newPath opens two sockets on the loopback, with an emulated link between them unless it would do nothing.
func newPath(i impairment) (*path, error) {
	server, err := listenLoopback()
	if err != nil {
		return nil, err
	}
	client, err := listenLoopback()
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	p := &path{server: server, client: client, target: server.LocalAddr().String()}
	if i.none() {
		p.counted = [2]*countedSocket{{UDPConn: server}, {UDPConn: client}}
		p.server, p.client = p.counted[0], p.counted[1]
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

func listenLoopback() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

// linkBytes is what went over the link in both directions, with IP and UDP.
func (p *path) linkBytes() uint64 {
	if p.relay != nil {
		up, down := p.relay.Stats()
		return up.CarriedBytes + down.CarriedBytes
	}
	return p.counted[0].bytes.Load() + p.counted[1].bytes.Load()
}

func (p *path) close() error {
	err := errors.Join(p.client.Close(), p.server.Close())
	if p.relay != nil {
		err = errors.Join(err, p.relay.Close())
	}
	return err
}

// countedSocket counts what is sent. It is a UDPConn for all else, so that quic-go sends in batches.
type countedSocket struct {
	*net.UDPConn
	bytes atomic.Uint64
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
