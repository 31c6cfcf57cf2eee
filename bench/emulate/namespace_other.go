//go:build !linux

package emulate

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/netsim"
)

// CanTunnel returns false, because tunnels need Linux.
func CanTunnel() bool { return false }

type namespace struct {
	socket  *net.UDPConn
	arrived [256]atomic.Uint64
}

func newNamespace(net.IP) (*namespace, error) {
	return nil, errors.New("emulate: tunnels need Linux")
}

func (n *namespace) within(func()) {}

func (n *namespace) carry(*netsim.PacketConn, net.Addr) {}

func (n *namespace) close() {}
