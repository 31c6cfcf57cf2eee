package rpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// tube is one end of a carrier that somebody else might have written: it relies
// only on what package rpc documents about carriers.
type tube struct {
	to, from chan []byte
	max      int // bytes of a datagram
	end      *tubeEnd
	side     net.Addr
}

// tubeEnd is the close of both ends of a tube.
type tubeEnd struct {
	once   sync.Once
	done   chan struct{}
	code   uint64
	reason string
	by     *tube
}

func newTube(max int) (a, b *tube) {
	there, back, end := make(chan []byte, 64), make(chan []byte, 64), &tubeEnd{done: make(chan struct{})}
	return &tube{to: there, from: back, max: max, end: end}, &tube{to: back, from: there, max: max, end: end, side: &net.UnixAddr{Name: "tube"}}
}

func (t *tube) SendDatagram(p []byte) error {
	if len(p) > t.max {
		return &rpc.TooLargeError{Max: t.max}
	}
	select {
	case t.to <- append([]byte(nil), p...):
		return nil
	case <-t.end.done:
		return t.closed()
	}
}

func (t *tube) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select {
	case p := <-t.from:
		return p, nil
	case <-t.end.done:
		return nil, t.closed()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *tube) Path() rpc.Path { return rpc.Path{Cwnd: 1 << 20, MaxDatagram: 1400} }

func (t *tube) CloseWithError(code uint64, reason string) error {
	t.end.once.Do(func() {
		t.end.code, t.end.reason, t.end.by = code, reason, t
		close(t.end.done)
	})
	return nil
}

// closed tells what the peer said when it closed.
func (t *tube) closed() error {
	if t.end.by == t {
		return errors.New("tube: closed")
	}
	return &rpc.CloseError{Code: rpc.Code(t.end.code), Reason: t.end.reason, Remote: true}
}

func (t *tube) RemoteAddr() net.Addr { return t.side }

var (
	parcelClass = rpc.NewClass("Parcel")
	deliver     = rpc.Client[rpc.Raw](parcelClass, "Deliver", rpc.Reliable)
)

func TestForeignCarrier(t *testing.T) {
	for _, closer := range []string{"server", "client", "nobody: it breaks"} {
		synctest.Test(t, func(t *testing.T) {
			server, err := rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{parcelClass}})
			require.NoError(t, err)
			client, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			received := 0
			mine := rpc.Bind(client, parcelClass, func(*rpc.Actor) struct{} { return struct{}{} })
			rpc.On(mine, deliver, func(_ struct{}, _ *rpc.Call, b rpc.Raw) { received += len(b) })
			near, far := newTube(1200)
			accepted, err := server.Attach(far)
			require.NoError(t, err)
			dialed, err := client.Connect(context.Background(), near)
			require.NoError(t, err)
			require.Equal(t, "tube", accepted.RemoteAddr().String())
			tick := func() {
				server.Tick(time.Now())
				client.Tick(time.Now())
				time.Sleep(10 * time.Millisecond)
			}
			tick()
			a, err := server.Spawn(parcelClass, accepted)
			require.NoError(t, err)
			require.NoError(t, deliver.Call(a, make(rpc.Raw, 50_000)))
			for range 100 {
				tick()
			}
			require.NoError(t, accepted.Err())
			require.Equal(t, 50_000, received, "in datagrams that the tube takes; %+v", accepted.Stats())
			require.Equal(t, 1200, accepted.Stats().MaxDatagram)

			ends := []*rpc.Conn{accepted, dialed}
			switch closer {
			case "server":
				accepted.Close(2000, "enough")
			case "client":
				dialed.Close(2000, "enough")
				ends[0], ends[1] = dialed, accepted
			default:
				near.end.once.Do(func() { close(near.end.done) })
			}
			for i, c := range ends {
				require.NoError(t, c.Wait(context.Background()))
				var closed *rpc.CloseError
				require.ErrorAs(t, c.Err(), &closed)
				if closer != "server" && closer != "client" {
					require.True(t, closed.Remote)
					continue
				}
				require.Equal(t, rpc.Code(2000), closed.Code)
				require.Equal(t, "enough", closed.Reason)
				require.Equal(t, i == 1, closed.Remote)
			}
			tick()
		})
	}
}
