package rpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/testkit"
)

// parcels is a machine that moves numbered parcels of bulk while its path tells
// fates, and takes the peer's.
type parcels struct {
	due     []uint32 // to send, again or at all
	given   uint32
	got     map[uint32]int // times
	corrupt int
	changed bool
	held    bool
	fates   bool
}

const parcelBytes = 1024

func newParcels() *parcels { return &parcels{got: make(map[uint32]int)} }

// give has so many more parcels sent.
func (p *parcels) give(count int) {
	for range count {
		p.due = append(p.due, p.given)
		p.given++
	}
	p.changed = true
}

func (p *parcels) AppendPacket(_ time.Time, buf []byte, most int) ([]byte, uint64, bool) {
	if len(p.due) == 0 || p.held || !p.fates || most < parcelBytes {
		return buf, 0, false
	}
	n := p.due[0]
	p.due = p.due[1:]
	return appendParcel(buf, n), uint64(n), true
}

func appendParcel(b []byte, n uint32) []byte {
	b = binary.BigEndian.AppendUint32(append(b, parcelByte), n)
	for i := 5; i < parcelBytes; i++ {
		b = append(b, byte(int(n)*7+i))
	}
	return b
}

const parcelByte = 9

func (p *parcels) Fate(_ time.Time, number uint64, arrived bool) {
	if !arrived {
		p.due, p.changed = append(p.due, uint32(number)), true
	}
}

func (p *parcels) Receive(_ time.Time, datagram []byte) error {
	n := binary.BigEndian.Uint32(datagram[1:])
	if string(datagram) != string(appendParcel(nil, n)) {
		p.corrupt++
	}
	p.got[n]++
	return nil
}

func (p *parcels) SetPath(_ time.Time, path recovery.Path) {
	p.changed = p.changed || p.fates != path.Fates
	p.fates = path.Fates
}
func (p *parcels) OtherFirstByte() byte           { return parcelByte }
func (p *parcels) Content() recovery.Content      { return recovery.Content{Bulk: true} }
func (p *parcels) Queued() int                    { return len(p.due) * parcelBytes }
func (p *parcels) Unsent(uint64)                  {}
func (p *parcels) Advance(time.Time) error        { return nil }
func (p *parcels) NextTimeout() (time.Time, bool) { return time.Time{}, false }
func (p *parcels) SetWindow(int)                  {}
func (p *parcels) Wake() bool                     { return false }
func (p *parcels) Drained() bool                  { return true }
func (p *parcels) FirstByte() byte                { return parcelByte }
func (p *parcels) InFlight() int                  { return 0 }
func (p *parcels) Lost() uint64                   { return 0 }
func (p *parcels) Waiting() (u, b bool)           { return false, len(p.due) > 0 }
func (p *parcels) Hold(_, bulk bool)              { p.held = bulk }
func (p *parcels) Arrived() time.Time             { return time.Time{} }
func (p *parcels) Changed() (changed bool)        { changed, p.changed = p.changed, false; return changed }

// newSealedWorld is a world whose connections have parcels.
func newSealedWorld(t testing.TB, config Config) *testWorld {
	w := newTestWorld(t, config)
	extend.Add(w.World, func(func(int) int) extend.Machine { return newParcels() })
	return w
}

// parcels returns those of a connection.
func (r *sealedCarrier) parcels() *parcels {
	return extend.Of(r.conn, parcelByte).(*parcels)
}

// sealedNet is two worlds over an emulated path that can drop sealed packets.
type sealedNet struct {
	*network
	near, far *sealedCarrier // the client's and the server's
	blocked   atomic.Bool
	up, down  atomic.Bool // sealed packets of the client do not arrive, or the server's
	dark      atomic.Bool // nothing does
}

// overSealed runs a test with two worlds that have joined; the server has
// sealed carriers, the client may.
func overSealed(t *testing.T, path netsim.Config, on bool, fn func(n *sealedNet)) {
	t.Helper()
	overSealedWith(t, path, Config{Sealed: true}, Config{Sealed: on}, fn)
}

func overSealedWith(t *testing.T, path netsim.Config, far, near Config, fn func(n *sealedNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &sealedNet{network: &network{t: t}}
		var client *testWorld
		n.server, client = newSealedWorld(t, far), newSealedWorld(t, near)
		n.clients = []*testWorld{client}
		lose := func(way *atomic.Bool) netsim.Config {
			to := path
			to.Lose = func(k uint64, p []byte) bool {
				return path.Lose != nil && path.Lose(k, p) || n.dark.Load() || (n.blocked.Load() || way.Load()) && isSealed(p)
			}
			return to
		}
		a, b := netsim.Pipe(lose(&n.up), lose(&n.down))
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(b, serverTLS, n.server.World)
		require.NoError(t, err)
		end, err := DialPacket(t.Context(), a, b.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		n.ends = []*Conn{end}
		n.tick(12)
		n.await()
		n.near, n.far = end.sealed, n.conns[0].sealed

		fn(n)

		require.NoError(t, listener.Close())
		require.NoError(t, end.Wait(context.Background()))
		n.tick(1)
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

// send gives one side parcels.
func send(r *sealedCarrier, count int) {
	extend.Drive(r.conn, func() { r.parcels().give(count) })
}

// State returns how the newest carrier stands.
func (r *sealedCarrier) State() sealed.State {
	if carrier := r.carriers.current(); carrier != nil {
		return carrier.State()
	}
	return sealed.Opening
}

// reach ticks until a state is reached.
func (n *sealedNet) reach(r *sealedCarrier, want sealed.State) {
	n.t.Helper()
	for range 60 * 30 {
		if r.State() == want {
			return
		}
		n.tick(1)
	}
	require.Equal(n.t, want.String(), r.State().String())
}

// hasAll reports whether all parcels have arrived unharmed.
func hasAll(r *sealedCarrier, count int) (all bool) {
	extend.Drive(r.conn, func() { all = len(r.parcels().got) == count && r.parcels().corrupt == 0 })
	return all
}

func (n *sealedNet) arrive(r *sealedCarrier, count int) {
	n.t.Helper()
	for range 60 * 30 {
		if hasAll(r, count) {
			return
		}
		n.tick(1)
	}
	require.Fail(n.t, "not all arrived")
}

// clean is a path on which nothing is lost but what a test drops.
var clean = netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6}

func TestSealedMovesBothWays(t *testing.T) {
	path := clean
	path.Loss, path.Seed = 0.02, testkit.Seed(t)
	overSealed(t, path, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		send(n.near, 1024)
		send(n.far, 1024)
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		n.arrive(n.far, 1024)
		n.arrive(n.near, 1024)
		n.tick(5)
		require.Contains(t, n.clients[0].take(), "hit")
		stats := n.near.carriers.stats()
		t.Logf("%+v", stats)
		require.Equal(t, uint32(1), stats.Carriers)
		require.GreaterOrEqual(t, stats.BytesOut, uint64(1<<20))
		require.GreaterOrEqual(t, stats.BytesIn, uint64(1<<20))
		require.True(t, n.ends[0].Sealed())
		require.Equal(t, "open", n.ends[0].Stats().Sealed.State)
		require.NotZero(t, stats.PacketsLost)
		require.Zero(t, stats.Discarded)
		require.Greater(t, stats.MaxPacket, sealed.SafePacket, "QUIC has found a larger one")
		require.LessOrEqual(t, stats.MaxPacket, sealed.FullPacket)
	})
}

// TestPathsOfIPv6sLeastMTU: tunnels often carry no more than 1,280 B, of which 1,232 are left for
// UDP. Before, a first packet of quic-go's own size never arrived, and no handshake completed.
func TestPathsOfIPv6sLeastMTU(t *testing.T) {
	path := clean
	path.MTU = 1232
	for _, on := range []bool{false, true} {
		overSealed(t, path, on, func(n *sealedNet) {
			n.tick(30)
			require.Equal(t, on, n.ends[0].Sealed())
			if on {
				send(n.near, 1024)
				n.arrive(n.far, 1024)
			}
			require.NoError(t, hit.Call(n.spawn(0), 1))
			n.tick(20)
			require.Contains(t, n.clients[0].heard, "hit")
		})
	}
}

// TestSealedAtOneEnd: both logs say once which end has Sealed and which has
// not. The client's records contain its own address, too.
func TestSealedAtOneEnd(t *testing.T) {
	for _, row := range []struct {
		server, client bool
		says           string
	}{
		{true, false, "QUIC carries everything: rpc.Config.Sealed is set on the server but not on the client: set it on both"},
		{false, true, "QUIC carries everything: rpc.Config.Sealed is set on the client but not on the server: set it on both"},
		{false, false, ""},
		{true, true, ""},
	} {
		var logs [2]strings.Builder
		config := func(i int, on bool) Config {
			return Config{Sealed: on, Logger: slog.New(slog.NewTextHandler(&logs[i], nil))}
		}
		overSealedWith(t, clean, config(0, row.server), config(1, row.client), func(n *sealedNet) {
			synctest.Wait()
			_, local := n.ends[0].carrier.(*quicconn.Carrier).Addrs()
			require.NotContains(t, logs[0].String(), "conn.local")
			require.Contains(t, logs[1].String(), `msg=connected conn.id=1 conn.addr=`+n.ends[0].RemoteAddr().String()+" conn.local="+local.String())
			for i := range logs {
				if row.says == "" {
					require.NotContains(t, logs[i].String(), "QUIC carries everything")
					continue
				}
				require.Equal(t, 1, strings.Count(logs[i].String(), row.says), "%s", &logs[i])
			}
		})
	}
}

func TestSealedNeedsBothEnds(t *testing.T) {
	overSealed(t, clean, false, func(n *sealedNet) {
		require.Nil(t, n.near)
		require.False(t, n.far.agreed())
		require.Equal(t, "off", n.conns[0].Stats().Sealed.State)
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		n.tick(20)
		require.Contains(t, n.clients[0].heard, "hit")
	})
	t.Log("# nor does a client's have one")
	overSealedWith(t, clean, Config{}, Config{Sealed: true}, func(n *sealedNet) {
		require.Nil(t, n.far)
		require.False(t, n.near.agreed())
		a := n.spawn(0)
		n.tick(30 * 60)
		require.NoError(t, hit.Call(a, 1))
		n.tick(20)
		require.Contains(t, n.clients[0].heard, "hit")
		require.NoError(t, n.ends[0].Err())
		require.Equal(t, "off", n.ends[0].Stats().Sealed.State)
		require.Zero(t, n.near.carriers.stats().Carriers)
	})
	inNet(t, 1, Config{Sealed: true}, func(n *network) {
		require.Nil(t, n.conns[0].sealed, "a carrier that is not QUIC's has no socket to share")
	})
}

// TestNoSealedCarrier: with a TLS config that has no keys for a sealed carrier
// QUIC carries everything, and Stats says why.
func TestNoSealedCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, Config{Sealed: true}), clients: []*testWorld{newTestWorld(t, Config{Sealed: true})}}
		a, b := netsim.Pipe(clean, clean)
		serverTLS, clientTLS := credentials(t)
		clientTLS.Renegotiation = tls.RenegotiateOnceAsClient // which has no exporter
		listener, err := ListenPacket(b, serverTLS, n.server.World)
		require.NoError(t, err)
		end, err := DialPacket(t.Context(), a, b.LocalAddr(), clientTLS, n.clients[0].World)
		require.NoError(t, err)
		n.tick(15 * 30)
		stats := end.Stats().Sealed
		require.Equal(t, "closed", stats.State)
		require.ErrorContains(t, stats.Err, "renegotiation")
		require.NoError(t, end.Err())
		require.Equal(t, "closed", n.server.joined[0].Stats().Sealed.State, "nothing came there")
		require.NoError(t, listener.Close())
		n.close()
		require.NoError(t, end.Wait(t.Context()))
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

// An open carrier without work has no goroutine.
func TestIdleSealedCarrier(t *testing.T) {
	overSealed(t, netsim.Config{Delay: 10 * time.Millisecond}, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.tick(90)
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		require.Contains(t, string(stacks), "TestIdleSealedCarrier")
		require.NotContains(t, string(stacks), "sealed.(*Carrier).loop")
		t.Log("# ticks with nothing to send wake it not: 1,000 idle players were 30,000 goroutines a second")
		before := n.near.carriers.current().Stats().Goroutines
		n.tick(600)
		require.Less(t, n.near.carriers.current().Stats().Goroutines, before+60, "more than some for the times that are exchanged")
		n.ends[0].Stats() // what the last tick left behind may want a look
		synctest.Wait()
		before = n.near.carriers.current().Stats().Goroutines
		require.NotZero(t, n.ends[0].Stats().Sealed.Window)
		synctest.Wait()
		require.Equal(t, before, n.near.carriers.current().Stats().Goroutines, "Stats wakes nobody")
		n.near.carriers.close()
		n.far.carriers.close()
		n.near.carriers.wait()
		n.far.carriers.wait()
		n.tick(1)
		require.Equal(t, sealed.Closed, n.near.State())
		require.False(t, n.ends[0].Sealed())
	})
}

// TestBlockedSealedPackets: QUIC carries while sealed packets do not arrive,
// and they take over again.
func TestBlockedSealedPackets(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		send(n.near, 1024)
		n.tick(3)
		n.blocked.Store(true)
		n.reach(n.near, sealed.Silent)
		n.tick(1)
		require.False(t, n.ends[0].Sealed())

		t.Log("# play goes on, and the carrier gives up")
		a := n.spawn(0)
		for range 30 {
			require.NoError(t, hit.Call(a, 1))
			n.tick(10)
			require.Contains(t, n.clients[0].take(), "hit")
		}
		n.reach(n.near, sealed.Closed)
		n.reach(n.far, sealed.Closed)
		closed := time.Now()

		t.Log("# the path carries again")
		n.blocked.Store(false)
		n.arrive(n.far, 1024)
		require.GreaterOrEqual(t, time.Since(closed), 9*time.Second, "the client waits for 10 s")
		require.Equal(t, uint32(2), n.near.carriers.stats().Carriers)
		require.True(t, n.ends[0].Sealed())
		require.NoError(t, n.ends[0].Err())
	})
}

// TestSealedPacketsThatNeverArrive: they are tried at growing intervals.
func TestSealedPacketsThatNeverArrive(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		n.blocked.Store(true)
		n.near.carriers.current().Close() // the first one may have come through while the worlds joined
		n.reach(n.near, sealed.Closed)
		n.tick(30 * 60)
		carriers := n.near.carriers.stats().Carriers
		require.LessOrEqual(t, carriers, uint32(4), "pauses of 10, 20 and 40 s, and 10 s for each")
		require.GreaterOrEqual(t, carriers, uint32(3))
		require.NoError(t, n.ends[0].Err())
		n.blocked.Store(false)
		n.tick(30 * 90)
		require.True(t, n.ends[0].Sealed())
		require.NoError(t, n.ends[0].Err())
	})
}

func TestSealedSpares(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		carrier := n.near.carriers.current()
		for range 2 {
			carrier.Lock()
			require.True(t, carrier.Session().Rotate())
			carrier.Unlock()
		}
		require.Equal(t, 1, carrier.SpareIDs())
		send(n.near, 4096)
		n.arrive(n.far, 4096)
		n.tick(10)
		require.GreaterOrEqual(t, carrier.SpareIDs(), 2, "more were asked for")
	})
}

func TestSealedViolations(t *testing.T) {
	id := sealed.NewID()
	for name, row := range map[string]struct {
		fromServer bool
		message    []byte
	}{
		"a carrier that is no turn": {false, control.AppendSealed(nil, control.IDSealedOpen, 3)},
		"a carrier beside another":  {false, control.AppendSealed(nil, control.IDSealedOpen, 2)},
		"ids that nobody asked for": {false, control.AppendSealed(nil, control.IDSealedIDs, 1, id)},
		"the end of what never was": {false, control.AppendSealed(nil, control.IDSealedShut, 2)},
		"spares of what never was":  {true, control.AppendSealed(nil, control.IDSealedAsk, 2)},
		"a server's carrier":        {true, control.AppendSealed(nil, control.IDSealedOpen, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			overSealed(t, clean, true, func(n *sealedNet) {
				n.reach(n.near, sealed.Open)
				from, to := n.ends[0], n.conns[0]
				if row.fromServer {
					from, to = to, from
				}
				from.link.Lock()
				require.NoError(t, from.machine.Send(0, bunch.Reliable, row.message))
				from.link.Unlock()
				n.tick(10)
				var closed *CloseError
				require.ErrorAs(t, to.Err(), &closed)
				require.Equal(t, ControlChannelMessageFail, closed.Code, closed.Reason)
			})
		})
	}
	overSealed(t, clean, true, func(n *sealedNet) {
		n.near.closeOnViolation(&sealed.Error{})
		n.tick(5)
		require.NoError(t, n.ends[0].Err())
		n.near.closeOnViolation(&sealed.Error{Violation: true, Reason: "an ack for what was not sent"})
		n.tick(5)
		var closed *CloseError
		require.ErrorAs(t, n.conns[0].Err(), &closed)
		require.Equal(t, SealedViolation, closed.Code)
		require.True(t, closed.Remote)
	})
}

// TestCloseDrainsOverSealedPackets: reliable messages that are in flight when a
// connection closes are resent as before, where QUIC would take longer than Close waits.
func TestCloseDrainsOverSealedPackets(t *testing.T) {
	path := netsim.Config{Delay: 50 * time.Millisecond, Rate: 20e6, Loss: 0.05, Seed: testkit.Seed(t)}
	overSealed(t, path, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		n.tick(30)
		a := n.spawn(0)
		n.tick(30)
		n.clients[0].take()
		for range 120 {
			require.NoError(t, bulk.Call(a, make(Raw, 1000)))
		}
		n.tick(1)
		n.conns[0].Close(2000, "enough")
		n.tick(60)
		require.Equal(t, 120*1000, n.clients[0].received)
		require.NoError(t, n.conns[0].closeError().cause)
	})
}

// TestFullBufferClosesOverSealedPackets: a call that fills the reliable buffer
// of a peer that acknowledges nothing returns an error, and the world
// continues. Before, the close took the link's lock, which the call held.
func TestFullBufferClosesOverSealedPackets(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		n.reach(n.far, sealed.Open)
		n.tick(30)
		a := n.spawn(0)
		n.tick(30)
		var err error
		for range 300 {
			if err = bulk.Call(a, make(Raw, 1000)); err != nil {
				break
			}
		}
		require.ErrorContains(t, err, "ReliableBuffer")
		n.tick(5)
		require.Equal(t, ReliableBufferOverflow, n.conns[0].closeError().Code)
	})
}

func TestSealedOnLoopback(t *testing.T) {
	server, client := newSealedWorld(t, Config{Sealed: true}), newSealedWorld(t, Config{Sealed: true})
	serverTLS, clientTLS := credentials(t)
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	end, err := Dial(t.Context(), listener.Addr().String(), clientTLS, client.World)
	require.NoError(t, err)
	step := func() {
		require.NoError(t, end.Err())
		server.Tick(time.Now())
		client.Tick(time.Now())
		time.Sleep(time.Millisecond)
	}
	for len(server.joined) == 0 || !end.Sealed() || !server.joined[0].Sealed() {
		step()
	}
	near, far := end.sealed, server.joined[0].sealed
	send(near, 1024)
	send(far, 1024)
	for !hasAll(far, 1024) || !hasAll(near, 1024) {
		step()
	}
	t.Logf("%s: %+v", tls.CipherSuiteName(near.quic.CipherSuite()), near.carriers.stats())
	require.NoError(t, listener.Close())
	<-end.Done()
	require.Equal(t, sealed.Closed, near.State())
	require.Equal(t, sealed.Closed, far.State())
}

// TestSealedWithoutAES: if a processor has no instructions for AES, TLS chooses
// ChaCha20, and so do sealed packets.
func TestSealedWithoutAES(t *testing.T) {
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSealedOnLoopback$", "-test.v")
	again.Env = append(os.Environ(), "GODEBUG=cpu.aes=off")
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "TLS_CHACHA20_POLY1305_SHA256: ")
}

// TestSealedDialsAsSoonOnSlowPaths: the train that measures a path is sent after the handshake.
// Before, it delayed the handshake for seconds, and at 32 kbit/s a client's Hello was too late. Two
// handshakes of the same kind differ by some 200 bytes, because QUIC draws the lengths of its first
// packets and of the signatures; a train is ten packets and more. So the bound is one full packet.
func TestSealedDialsAsSoonOnSlowPaths(t *testing.T) {
	for _, rate := range []int64{32e3, 128e3, 1e6, 10e6} {
		for _, down := range []int64{rate, 10e6} {
			quic, sealed := dialTime(t, rate, down, false), dialTime(t, rate, down, true)
			packet := time.Duration(1280 * 8 * int64(time.Second) / min(rate, down))
			require.Less(t, sealed, quic+packet, "%d bit/s up, %d down", rate, down)
		}
	}
}

// dialTime returns how long Dial takes.
func dialTime(t *testing.T, up, down int64, on bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 50 * time.Millisecond
		a, b := netsim.Pipe(netsim.Config{Delay: delay, Rate: up}, netsim.Config{Delay: delay, Rate: down})
		server, client := newTestWorld(t, Config{Sealed: on}), newTestWorld(t, Config{Sealed: on})
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(b, serverTLS, server.World)
		require.NoError(t, err)
		begin := time.Now()
		end, err := DialPacket(t.Context(), a, b.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		took = time.Since(begin)
		end.Close(0, "")
		require.NoError(t, listener.Close())
		require.NoError(t, end.Wait(context.Background()))
		time.Sleep(time.Minute)
		server.Tick(time.Now())
		client.Tick(time.Now())
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
	return took
}

// TestSmallBuffersAreTold: a socket whose buffers the kernel does not make as
// large as sealed packets need still works, and the log says so.
func TestSmallBuffersAreTold(t *testing.T) {
	var log strings.Builder
	w := newTestWorld(t, Config{Sealed: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	require.NoError(t, socket.Close()) // from now on it gets none
	shared := w.shareSocket(socket, nil)
	defer shared.release()
	require.NotNil(t, shared.sealed)
	require.Contains(t, log.String(), `level=WARN msg="socket buffers are small for sealed packets" addr=127.0.0.1:`)
}
