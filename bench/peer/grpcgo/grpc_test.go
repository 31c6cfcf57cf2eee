package grpcgo

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/quivernet/quiver/bench/peer/tcp"
)

// slowBack is a loopback whose client gets nothing while the gate is locked.
type slowBack struct {
	tcp.Loopback
	gate sync.RWMutex
}

func (s *slowBack) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := s.Loopback.Dial(ctx, address)
	return slowConn{c, s}, err
}

type slowConn struct {
	net.Conn
	back *slowBack
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.back.gate.RLock()
	defer c.back.gate.RUnlock()
	return n, err
}

// TestMoveIsTheBlobAlone: like all others' its time has no handshake in it, nor
// the way of an answer.
func TestMoveIsTheBlobAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	back := &slowBack{}
	p, err := open(ctx, back)
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, connectivity.Ready, p.conn.GetState())
	blob := []byte("what fits in the first windows")
	require.NoError(t, p.Move(ctx, blob))
	require.NoError(t, p.Call(ctx, blob)) // the answers to both are there

	back.gate.Lock()
	defer back.gate.Unlock()
	require.NoError(t, p.Move(ctx, blob))
}
