// Package badnet puts the network that emulation.Settings describes between the sockets of a world
// and the real network.
package badnet

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc/emulation"
)

// orderTime is how long PktOrder delays a packet. It is a tick at 30 Hz, because the setting of
// that name in Unreal Engine sends the packet together with one of the next packets.
const orderTime = 33 * time.Millisecond

// Links returns the links of an emulation: out for packets sent and in for packets received. The
// error names the first invalid setting. Valid settings make valid links.
func Links(e emulation.Settings) (out, in netsim.Config, err error) {
	if err := e.Validate(); err != nil {
		return out, in, err
	}
	minLag := max(0, e.PktLag-e.PktLagVariance)
	out = netsim.Config{
		Delay: minLag, Jitter: e.PktLag + e.PktLagVariance - minLag,
		LossMin: e.PktLossMinSize, LossMax: e.PktLossMaxSize, Alternate: e.PktJitter,
		Rate: e.Rate, Queue: e.Queue, Seed: e.Seed,
	}
	if e.PktLag == 0 {
		out.Delay = e.PktLagMin
		out.Jitter = max(0, e.PktLagMax-e.PktLagMin)
	}
	if e.PktOrder {
		out.Reorder = 0.5
		out.ReorderDelay = orderTime
	} else if e.PktLag == 0 {
		out.Duplicate = e.PktDup / 100
	}
	if loss := e.PktLoss / 100; e.LossBurst > 1 && loss > 0 && loss < 1 {
		out.Burst = netsim.Bursts(loss, e.LossBurst)
	} else {
		out.Loss = loss
	}
	in = netsim.Config{
		Loss:   e.PktIncomingLoss / 100,
		Delay:  e.PktIncomingLagMin,
		Jitter: max(0, e.PktIncomingLagMax-e.PktIncomingLagMin),
		Seed:   e.Seed,
	}
	if e.IncomingRate > 0 {
		in.Rate = e.IncomingRate
		in.Queue = e.Queue
	}
	return out, in, nil
}

// Sockets holds the sockets of one world, which all have the same emulation. Its methods may be
// called concurrently.
type Sockets struct {
	mu      sync.Mutex // guards the fields below
	out, in netsim.Config
	open    []*netsim.Emulated
}

// NewSockets returns Sockets without a socket.
func NewSockets(out, in netsim.Config) *Sockets { return &Sockets{out: out, in: in} }

// Set changes the emulation of all sockets, including those that Add returns later.
func (s *Sockets) Set(out, in netsim.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
	s.in = in
	for _, socket := range s.open {
		socket.Set(out, in)
	}
}

// Add puts the emulation in front of a socket. The caller must call free when it no longer needs
// the socket.
func (s *Sockets) Add(socket net.PacketConn) (emulated net.PacketConn, free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := netsim.Emulate(socket, s.out, s.in)
	s.open = append(s.open, e)
	return e.Conn(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = slices.DeleteFunc(s.open, func(other *netsim.Emulated) bool { return other == e })
	}
}

// Len returns the number of sockets in use, which is 0 once all connections and listeners of the
// world have ended.
func (s *Sockets) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
