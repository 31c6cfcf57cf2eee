// Package emulate provides the network between the two ends of a peer. It consists of netsim's
// links, in virtual time or behind a relay with real sockets, or of the bare loopback. All emulated
// paths have a tail-drop queue of max(1 BDP, 64 KiB), and count 28 bytes of headers for each
// datagram.
package emulate

import (
	"fmt"
	"net"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// A Net connects one client to one server.
type Net interface {
	// Server and Client return the sockets of the two ends, and Address returns where the client
	// reaches the server.
	Server() net.PacketConn
	Client() net.PacketConn
	Address() net.Addr
	// Stats counts what was sent from the client to the server, and back. It counts nothing on the
	// bare loopback.
	Stats() (up, down netsim.Stats)
	// BDP returns the path's bandwidth-delay product in bytes, for peers whose windows must be
	// configured, or 0 if the path has no rate.
	BDP() int
	// Close closes the sockets.
	Close()
}

// Fronted is a Net for peers that open their sockets themselves.
type Fronted interface {
	// Front returns the address at which a client reaches a server that listens on a port of the
	// loopback.
	Front(port int) (*net.UDPAddr, error)
}

// New returns the net of a job. With Virtual it must be called within the bubble.
func New(j job.Job) (Net, error) {
	path := Path(j)
	switch j.Clock {
	case job.Virtual:
		return newPipe(path), nil
	case job.Relay:
		return newRelay(path)
	case job.Loopback:
		return newLoopback()
	}
	return nil, fmt.Errorf("emulate: unknown clock %q", j.Clock)
}

// Path returns a job's path, the same in both directions.
func Path(j job.Job) netsim.Config {
	return netsim.Config{Delay: j.RTT / 2, Rate: j.Rate, Loss: j.Loss, Seed: j.Seed}
}

func bdp(path netsim.Config) int { return int(float64(path.Rate) / 8 * 2 * path.Delay.Seconds()) }
