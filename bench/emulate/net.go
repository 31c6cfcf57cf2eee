// Package emulate is the network between the two ends of a peer: netsim's links in
// virtual time or behind a relay of real sockets, or the bare loopback. All emulated
// paths have a tail-drop queue of max(1 BDP, 64 KiB) and charge 28 bytes a datagram.
package emulate

import (
	"fmt"
	"net"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// A Net connects one client to one server.
type Net interface {
	// Server returns the server's socket, Client the client's, and Address
	// where the client reaches the server.
	Server() net.PacketConn
	Client() net.PacketConn
	Address() net.Addr
	// Stats returns counts of what was sent from the client to the server, and
	// back. Nothing is counted on the bare loopback.
	Stats() (up, down netsim.Stats)
	// BDP returns the path's bandwidth-delay product in bytes, for peers whose
	// windows are set by hand; 0 without a rate.
	BDP() int
	// Close closes the sockets.
	Close()
}

// Fronted is a Net for peers that open their sockets themselves.
type Fronted interface {
	// Front returns where a client reaches the server that listens on this port of the loopback.
	Front(port int) (*net.UDPAddr, error)
}

// New returns the net of a job. With Virtual it must be called within the bubble.
func New(j job.Job) (Net, error) {
	switch path := Path(j); j.Clock {
	case job.Virtual:
		return newPipe(path), nil
	case job.Relay:
		return newRelay(path)
	case job.Loopback:
		return newLoopback()
	}
	return nil, fmt.Errorf("emulate: no clock %q", j.Clock)
}

// Path returns a job's path, the same in both directions.
func Path(j job.Job) netsim.Config {
	return netsim.Config{Delay: j.RTT / 2, Rate: j.Rate, Loss: j.Loss, Seed: j.Seed}
}

func bdp(path netsim.Config) int { return int(float64(path.Rate) / 8 * 2 * path.Delay.Seconds()) }
