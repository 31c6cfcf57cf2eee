package emulate

import (
	"net"

	"github.com/quivernet/quiver/internal/netsim"
)

// receiveBuffer is the buffer size of sockets, so that they don't lose what the path has carried.
const receiveBuffer = 4 << 20

// A pipe is netsim's emulated sockets.
type pipe struct {
	path      netsim.Config
	near, far *netsim.PacketConn
}

func newPipe(path netsim.Config) *pipe {
	p := &pipe{path: path}
	p.near, p.far = netsim.Pipe(path, path)
	_ = p.near.SetReadBuffer(receiveBuffer)
	_ = p.far.SetReadBuffer(receiveBuffer)
	return p
}

func (p *pipe) Server() net.PacketConn { return p.far }
func (p *pipe) Client() net.PacketConn { return p.near }
func (p *pipe) Address() net.Addr      { return p.far.LocalAddr() }

func (p *pipe) BDP() int { return bdp(p.path) }

func (p *pipe) Stats() (up, down netsim.Stats) {
	return p.near.To(p.far).Stats(), p.far.To(p.near).Stats()
}

func (p *pipe) Close() { _, _ = p.near.Close(), p.far.Close() }
