package stream

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// nat is between a client and a server, and gives the client another address on request.
type nat struct {
	inner  *netsim.PacketConn
	outer  []*netsim.PacketConn
	now    atomic.Int32 // which outer address it has
	client net.Addr
	server net.Addr
	work   sync.WaitGroup
}

// newNAT returns a NAT with two addresses, and the sockets of the client and of
// the server, with a path outside of it.
func newNAT(path netsim.Config) (n *nat, client, server *netsim.PacketConn) {
	return newNATOf(path, 2)
}

// newNATOf is newNAT with any number of addresses.
func newNATOf(path netsim.Config, addresses int) (n *nat, client, server *netsim.PacketConn) {
	n = &nat{}
	for range addresses {
		n.outer = append(n.outer, netsim.NewPacketConn())
	}
	client, n.inner = netsim.Pipe(netsim.Config{}, netsim.Config{})
	server = netsim.NewPacketConn()
	for _, o := range n.outer {
		netsim.Connect(o, server, path, path)
	}
	n.client, n.server = client.LocalAddr(), server.LocalAddr()
	n.work.Go(func() {
		n.forward(n.inner, func(p []byte) { _, _ = n.outer[n.now.Load()].WriteTo(p, n.server) })
	})
	for i, o := range n.outer {
		n.work.Go(func() {
			n.forward(o, func(p []byte) {
				if int32(i) == n.now.Load() {
					_, _ = n.inner.WriteTo(p, n.client)
				}
			})
		})
	}
	return n, client, server
}

func (n *nat) forward(from *netsim.PacketConn, to func(p []byte)) {
	p := make([]byte, 2048)
	for {
		size, _, err := from.ReadFrom(p)
		if err != nil {
			return
		}
		to(p[:size])
	}
}

func (n *nat) close() {
	for _, c := range append(n.outer, n.inner) {
		_ = c.Close()
	}
	n.work.Wait()
}

// TestAddressChangesInADownload: the client, which only takes, is dark for a probe timeout,
// until QUIC has asked and answered, and for the first packets of the new path; nothing is lost.
func TestAddressChangesInADownload(t *testing.T) {
	for name, via := range map[string]Backend{"slices": Slices{}, "window": Window{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, near, far := newNAT(netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)})
				l, leave := joinQUIC(t, near, behind{far, n.inner.LocalAddr()}, rpc.Config{Sealed: true}, func(server, client *rpc.World) {})
				size := 4 << 20
				sent, got := content(size), collect(l.client)
				_, err := save.Start(l.toClient, bytes.NewReader(sent), int64(size), Via(via))
				require.NoError(t, err)
				time.Sleep(150 * time.Millisecond)
				n.now.Store(1)
				dark := n.darkness(l.toServer.Conn())
				t.Logf("dark for %v", dark)
				require.Less(t, dark, 500*time.Millisecond, "a probe timeout, two round trips and a tick are 190 to 300 ms")
				require.True(t, bytes.Equal(sent, (<-got).data))
				require.EqualValues(t, 1, l.toClient.Conn().Stats().Sealed.Carriers)
				require.EqualValues(t, 1, l.toServer.Conn().Stats().Sealed.Carriers)
				leave()
				time.Sleep(time.Minute)
				n.close()
				_, _ = near.Close(), far.Close()
			})
		})
	}
}

// darkness returns the longest time in two seconds in which a connection received nothing sealed.
func (n *nat) darkness(c *rpc.Conn) (most time.Duration) {
	last, in := time.Now(), c.Stats().Sealed.PacketsIn
	for range 1000 {
		time.Sleep(2 * time.Millisecond)
		if now := c.Stats().Sealed.PacketsIn; now != in {
			most, last, in = max(most, time.Since(last)), time.Now(), now
		}
	}
	return most
}

// behind is a server's socket, with the address by which it knows a client behind a NAT.
type behind struct {
	*netsim.PacketConn
	known net.Addr
}

func (b behind) LocalAddr() net.Addr { return b.known }

// flap gives the client another address again and again.
func (n *nat) flap(each, while time.Duration) {
	for begin := time.Now(); time.Since(begin) < while; time.Sleep(each) {
		n.now.Store((n.now.Load() + 1) % int32(len(n.outer)))
	}
}

// TestFlappingAddresses: a client whose address changes up to a hundred times a second has its
// transfer end well. QUIC has connection ids for two changes, and asked for more where the client
// was no longer: every other one that stayed in the wrong place was dead until IdleTimeout.
func TestFlappingAddresses(t *testing.T) {
	type row struct {
		each      time.Duration
		addresses int
	}
	rows := []row{{100 * time.Millisecond, 40}, {10 * time.Millisecond, 2}, {100 * time.Millisecond, 2}}
	if testing.Short() {
		rows = rows[:1]
	}
	for _, row := range rows {
		for _, sealed := range []bool{true, false} {
			for _, up := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) { testFlappingAddresses(t, row.each, row.addresses, sealed, up) })
			}
		}
	}
}

func testFlappingAddresses(t *testing.T, each time.Duration, addresses int, sealed, up bool) {
	time.Sleep(40 * 365 * 24 * time.Hour) // quic-go takes packets for younger than they are before the process began
	n, near, far := newNATOf(netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)}, addresses)
	l, leave := joinQUIC(t, near, behind{far, n.inner.LocalAddr()}, rpc.Config{Sealed: sealed}, func(server, client *rpc.World) {})
	from, to := l.toClient, l.client
	if up {
		from, to = l.toServer, l.server
	}
	sent, got := content(4<<20), collect(to)
	_, err := save.Start(from, bytes.NewReader(sent), int64(len(sent)))
	require.NoError(t, err)
	time.Sleep(150 * time.Millisecond)
	n.flap(each, 3*time.Second)
	time.Sleep(time.Minute)
	here, there := l.toServer.Conn(), l.toClient.Conn()
	whole := bytes.Equal(sent, (<-got).data)
	t.Logf("each %v of %d addresses, sealed %v, up %v: whole %v, %v, %v", each, addresses, sealed, up, whole, here.Err(), there.Err())
	require.True(t, whole)
	require.NoError(t, here.Err())
	require.NoError(t, there.Err())
	if sealed && addresses == 2 { // QUIC follows three addresses at once, for five seconds each, and a carrier gives up after ten
		require.EqualValues(t, 1, there.Stats().Sealed.Carriers)
	}
	leave()
	time.Sleep(time.Minute)
	n.close()
	_, _ = near.Close(), far.Close()
}

// TestMovesInADownload: a client that only downloads, and whose address changes
// a few times a second, back and forth or to new ones, gets everything. The
// server once missed the answers to its PATH_CHALLENGEs: after the first ten it
// dropped packets from addresses that were not validated yet.
func TestMovesInADownload(t *testing.T) {
	times, numbers := []time.Duration{300 * time.Millisecond, 500 * time.Millisecond}, []int{20, 2}
	if testing.Short() {
		times, numbers = times[:1], numbers[:1]
	}
	for _, each := range times {
		for _, addresses := range numbers {
			for _, sealed := range []bool{true, false} {
				overBackends(t, func(t *testing.T, via Backend) {
					synctest.Test(t, func(t *testing.T) { testMovesInADownload(t, each, addresses, sealed, via) })
				})
			}
		}
	}
}

func testMovesInADownload(t *testing.T, each time.Duration, addresses int, sealed bool, via Backend) {
	time.Sleep(40 * 365 * 24 * time.Hour) // as in TestFlappingAddresses
	n, near, far := newNATOf(netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)}, addresses)
	l, leave := joinQUIC(t, near, behind{far, n.inner.LocalAddr()}, rpc.Config{Sealed: sealed}, func(server, client *rpc.World) {})
	sent, got := content(8<<20), collect(l.client)
	_, err := save.Start(l.toClient, bytes.NewReader(sent), int64(len(sent)), Via(via))
	require.NoError(t, err)
	time.Sleep(150 * time.Millisecond)
	begin := time.Now()
	n.flap(each, 3*time.Second)
	in := <-got
	t.Logf("each %v of %d addresses, sealed %v: all after %v", each, addresses, sealed, time.Since(begin))
	require.NoError(t, in.err)
	require.True(t, bytes.Equal(sent, in.data))
	leave()
	time.Sleep(time.Minute)
	n.close()
	_, _ = near.Close(), far.Close()
}

// TestAddressChangesWhileACarrierOpens: the first packets of a sealed carrier are sent
// to an address that is no longer the client's, and the client's packets have one that
// QUIC does not know yet. The carrier opens all the same, and none is given up.
func TestAddressChangesWhileACarrierOpens(t *testing.T) {
	for _, after := range []time.Duration{0, 3, 10, 26, 40, 52, 80} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(40 * 365 * 24 * time.Hour) // as in TestFlappingAddresses
			n, near, far := newNAT(netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6, Seed: testkit.Seed(t)})
			l, leave := joinQUIC(t, near, behind{far, n.inner.LocalAddr()}, rpc.Config{Sealed: true}, func(server, client *rpc.World) {})
			time.Sleep(after * time.Millisecond)
			n.now.Store(1)
			begin, took := time.Now(), time.Duration(0)
			here, there := l.toServer.Conn(), l.toClient.Conn()
			for took = 0; took < 10*time.Second && !(here.Sealed() && there.Sealed()); took = time.Since(begin) {
				time.Sleep(time.Millisecond)
			}
			size := 1 << 20
			sent, got := content(size), collect(l.client)
			_, err := save.Start(l.toClient, bytes.NewReader(sent), int64(size))
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, (<-got).data))
			t.Logf("changed %d ms after the join: open after %v, there %d ms", after, took, time.Since(begin).Milliseconds())
			require.Less(t, took, 3*time.Second)
			require.EqualValues(t, 1, here.Stats().Sealed.Carriers)
			require.EqualValues(t, 1, there.Stats().Sealed.Carriers)
			leave()
			time.Sleep(time.Minute)
			n.close()
			_, _ = near.Close(), far.Close()
		})
	}
}
