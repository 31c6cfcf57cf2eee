//go:build !linux

package emulate

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/netsim"
)

// CanTunnel reports whether NewTunnel is likely to succeed: never on this system.
func CanTunnel() bool { return false }

type namespace struct {
	socket  *net.UDPConn
	arrived [256]atomic.Uint64
}

func newNamespace(net.IP) (*namespace, error) {
	return nil, errors.New("emulate: a tunnel needs Linux")
}

func (n *namespace) within(func()) {}

func (n *namespace) carry(*netsim.PacketConn, net.Addr) {}

func (n *namespace) close() {}
