package main

import (
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// peaks follows the reliable buffers of two worlds.
type peaks struct {
	mu         sync.Mutex
	out, slots int
	conns      []*rpc.Conn
}

// follow looks at every tick of a world, behind the hooks that it has by now: they fill the buffers.
func (p *peaks) follow(w *rpc.World) {
	w.OnConnect(func(c *rpc.Conn) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns = append(p.conns, c)
	})
	w.OnTick(func(time.Time) {
		for _, c := range w.Conns() {
			p.see(c.Stats())
		}
	})
}

func (p *peaks) see(s rpc.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ch := range s.Channels {
		p.out, p.slots = max(p.out, ch.Out), max(p.slots, ch.Slots)
	}
}

// read returns the largest number of entries outstanding on one channel, how many a channel has, how many bunches both
// ends sent again, and how many sealed packets.
func (p *peaks) read() (out, slots int, resent, sealed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		s := c.Stats()
		resent, sealed = resent+s.BunchesResent, sealed+s.Sealed.PacketsOut
	}
	return p.out, p.slots, resent, sealed
}
