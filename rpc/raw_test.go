package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/raw"
	"github.com/quivernet/quiver/internal/testkit"
)

// parcels is a source that moves numbered parcels and takes the peer's. It lives under the carrier's lock.
type parcels struct {
	due     []uint32 // to send, again or at all
	acked   map[uint32]bool
	got     map[uint32]int // times
	corrupt int
}

const parcelBytes = 1024

func newParcels() *parcels {
	return &parcels{acked: make(map[uint32]bool), got: make(map[uint32]int)}
}

// give has so many more parcels sent.
func (p *parcels) give(count int) {
	for range count {
		p.due = append(p.due, uint32(len(p.due)+len(p.acked)))
	}
}

func (p *parcels) AppendPayload(_ time.Time, buf []byte, most int) ([]byte, uint64, bool) {
	for len(p.due) > 0 && p.acked[p.due[0]] {
		p.due = p.due[1:]
	}
	if len(p.due) == 0 || most < parcelBytes {
		return buf, 0, false
	}
	n := p.due[0]
	p.due = p.due[1:]
	return appendParcel(buf, n), uint64(n), true
}

func appendParcel(b []byte, n uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, n)
	for i := 4; i < parcelBytes; i++ {
		b = append(b, byte(int(n)*7+i))
	}
	return b
}

func (p *parcels) Acked(_ time.Time, token uint64) { p.acked[uint32(token)] = true }

func (p *parcels) Lost(_ time.Time, token uint64) {
	if !p.acked[uint32(token)] {
		p.due = append(p.due, uint32(token))
	}
}

func (p *parcels) Receive(_ time.Time, payload []byte) {
	n := binary.BigEndian.Uint32(payload)
	if string(payload) != string(appendParcel(nil, n)) {
		p.corrupt++
	}
	p.got[n]++
}

func (p *parcels) Waiting() int { return 0 }

func (p *parcels) Advance(time.Time) {}

func (p *parcels) NextTimeout() (time.Time, bool) { return time.Time{}, false }

// newRawWorld is a world whose connections have parcels.
func newRawWorld(t testing.TB, config Config) (*testWorld, *parcels) {
	w, p := newTestWorld(t, config), newParcels()
	w.OnRaw(func(*Conn) RawSource { return p })
	return w, p
}

// rawNet is two worlds over an emulated path that can drop sealed packets.
type rawNet struct {
	*network
	near, far   *RawCarrier // the client's and the server's
	nearP, farP *parcels
	blocked     atomic.Bool
}

// overRaw runs a test with two worlds that have joined; the server has raw carriers, the client may.
func overRaw(t *testing.T, path netsim.Config, on bool, fn func(n *rawNet)) {
	t.Helper()
	overRawWith(t, path, Config{RawCarrier: true}, Config{RawCarrier: on}, fn)
}

func overRawWith(t *testing.T, path netsim.Config, far, near Config, fn func(n *rawNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &rawNet{network: &network{t: t}}
		var client *testWorld
		n.server, n.farP = newRawWorld(t, far)
		client, n.nearP = newRawWorld(t, near)
		n.clients = []*testWorld{client}
		path.Lose = func(_ uint64, p []byte) bool { return n.blocked.Load() && p[0] >= 0x04 && p[0] <= 0x0f }
		a, b := netsim.Pipe(path, path)
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(b, serverTLS, n.server.World)
		require.NoError(t, err)
		end, err := DialPacket(t.Context(), a, b.LocalAddr(), clientTLS, client.World)
		require.NoError(t, err)
		n.ends = []*Conn{end}
		n.tick(12)
		n.await()
		n.near, n.far = end.Raw(), n.conns[0].Raw()

		fn(n)

		require.NoError(t, listener.Close())
		require.NoError(t, end.Wait(context.Background()))
		n.tick(1)
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

// send gives one side parcels and its carrier the word.
func send(r *RawCarrier, p *parcels, count int) {
	r.lock()
	p.give(count)
	r.unlock()
}

// reach ticks until a state is reached.
func (n *rawNet) reach(r *RawCarrier, want RawState) {
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
func hasAll(r *RawCarrier, p *parcels, count int) bool {
	r.lock()
	defer r.unlock()
	return len(p.got) == count && p.corrupt == 0
}

func (n *rawNet) arrive(r *RawCarrier, p *parcels, count int) {
	n.t.Helper()
	for range 60 * 30 {
		if hasAll(r, p, count) {
			return
		}
		n.tick(1)
	}
	require.Fail(n.t, "not all arrived")
}

// clean is a path on which nothing is lost but what a test drops.
var clean = netsim.Config{Delay: 25 * time.Millisecond, Rate: 20e6}

func TestRawMovesBothWays(t *testing.T) {
	path := clean
	path.Loss, path.Seed = 0.02, testkit.Seed(t)
	overRaw(t, path, true, func(n *rawNet) {
		n.reach(n.near, raw.Open)
		n.reach(n.far, raw.Open)
		send(n.near, n.nearP, 1024)
		send(n.far, n.farP, 1024)
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		n.arrive(n.far, n.farP, 1024)
		n.arrive(n.near, n.nearP, 1024)
		n.tick(5)
		require.Contains(t, n.clients[0].take(), "hit")
		stats := n.near.Stats()
		t.Logf("%+v", stats)
		require.Equal(t, uint32(1), stats.Carriers)
		require.GreaterOrEqual(t, stats.PayloadBytesOut, uint64(1<<20))
		require.GreaterOrEqual(t, stats.PayloadBytesIn, uint64(1<<20))
		require.Greater(t, stats.BytesOut, stats.PayloadBytesOut)
		require.NotZero(t, stats.PacketsLost)
		require.Zero(t, stats.Discarded)
	})
}

func TestRawNeedsBothEnds(t *testing.T) {
	overRaw(t, clean, false, func(n *rawNet) {
		require.Nil(t, n.near)
		require.Nil(t, n.far)
		a := n.spawn(0)
		require.NoError(t, hit.Call(a, 1))
		n.tick(20)
		require.Contains(t, n.clients[0].heard, "hit")
	})
	inNet(t, 1, Config{RawCarrier: true}, func(n *network) {
		require.Nil(t, n.conns[0].Raw(), "a carrier that is not QUIC's has no socket to share")
	})
}

// A side may leave the carrier out for one connection.
func TestRawWithoutSource(t *testing.T) {
	for name, bare := range map[string]func(server, client *testWorld) *testWorld{
		"server": func(server, _ *testWorld) *testWorld { return server },
		"client": func(_, client *testWorld) *testWorld { return client },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := newRawWorld(t, Config{RawCarrier: true})
				client, _ := newRawWorld(t, Config{RawCarrier: true})
				bare(server, client).OnRaw(func(*Conn) RawSource { return nil })
				a, b := netsim.Pipe(clean, clean)
				serverTLS, clientTLS := credentials(t)
				listener, err := ListenPacket(b, serverTLS, server.World)
				require.NoError(t, err)
				end, err := DialPacket(t.Context(), a, b.LocalAddr(), clientTLS, client.World)
				require.NoError(t, err)
				n := &network{t: t, server: server, clients: []*testWorld{client}, ends: []*Conn{end}}
				n.tick(12)
				end.Raw().Want(true)
				server.joined[0].Raw().Want(true)
				n.tick(30 * 60)
				require.NoError(t, end.Err())
				require.NotEqual(t, raw.Open, end.Raw().State())
				require.NotEqual(t, raw.Open, server.joined[0].Raw().State())
				require.NoError(t, listener.Close())
				<-end.Done()
				n.tick(40)
				require.NoError(t, errors.Join(a.Close(), b.Close()))
			})
		})
	}
}

// An open carrier without work has no goroutine.
func TestIdleRawCarrier(t *testing.T) {
	overRaw(t, netsim.Config{Delay: 10 * time.Millisecond}, true, func(n *rawNet) {
		n.reach(n.near, raw.Open)
		n.tick(90)
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		require.Contains(t, string(stacks), "TestIdleRawCarrier")
		require.NotContains(t, string(stacks), "raw.(*Carrier).loop")
		n.near.close()
		n.far.close()
		n.near.wait()
		n.far.wait()
		n.tick(1)
		require.Equal(t, raw.Closed, n.near.State())
	})
}

func TestBlockedRawCarrier(t *testing.T) {
	for name, wants := range map[string]func(n *rawNet) *RawCarrier{
		"the client wants":  func(n *rawNet) *RawCarrier { return n.near },
		"the server wants":  func(n *rawNet) *RawCarrier { return n.far },
		"nobody wants more": func(n *rawNet) *RawCarrier { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			overRaw(t, clean, true, func(n *rawNet) {
				n.reach(n.near, raw.Open)
				n.reach(n.far, raw.Open)
				want := wants(n)
				if want != nil {
					want.Want(true)
				}
				send(n.near, n.nearP, 1024)
				n.tick(3)
				n.blocked.Store(true)
				n.reach(n.near, raw.Silent)

				t.Log("# play goes on, and the carrier gives up")
				a := n.spawn(0)
				require.NoError(t, hit.Call(a, 1))
				n.tick(10)
				require.Contains(t, n.clients[0].take(), "hit")
				n.reach(n.near, raw.Closed)
				n.reach(n.far, raw.Closed)
				closed := time.Now()

				t.Log("# the path carries again")
				n.blocked.Store(false)
				if want == nil {
					n.tick(30 * 15)
					require.Equal(t, raw.Closed, n.near.State(), "nobody wants another one")
					n.far.Want(true)
				}
				n.arrive(n.far, n.farP, 1024)
				require.GreaterOrEqual(t, time.Since(closed), rawRetryTime-time.Second)
				require.Equal(t, uint32(2), n.near.Stats().Carriers)
				require.NoError(t, n.ends[0].Err())
			})
		})
	}
}

func TestRawCarrierThatNeverOpens(t *testing.T) {
	overRaw(t, clean, true, func(n *rawNet) {
		n.blocked.Store(true)
		n.near.current().Close() // the first one may have come through while the worlds joined
		n.near.Want(true)
		n.reach(n.near, raw.Closed)
		send(n.near, n.nearP, 10)
		n.tick(30 * 25)
		require.Equal(t, uint32(2), n.near.Stats().Carriers)
		n.reach(n.near, raw.Closed)
		require.NoError(t, n.ends[0].Err())
		n.blocked.Store(false)
		n.arrive(n.far, n.farP, 10)
		require.Equal(t, uint32(3), n.far.Stats().Carriers)
	})
}

func TestRawSpares(t *testing.T) {
	overRaw(t, clean, true, func(n *rawNet) {
		n.reach(n.near, raw.Open)
		carrier := n.near.current()
		for range 2 {
			carrier.Lock()
			require.True(t, carrier.Session().Rotate())
			carrier.Unlock()
		}
		require.Equal(t, 1, carrier.Spares())
		send(n.near, n.nearP, 4096)
		n.arrive(n.far, n.farP, 4096)
		n.tick(10)
		require.GreaterOrEqual(t, carrier.Spares(), fewSpares, "more were asked for")
	})
}

func TestRawViolations(t *testing.T) {
	id := raw.NewID()
	for name, row := range map[string]struct {
		fromServer bool
		message    []byte
	}{
		"a carrier that is no turn":   {false, appendRaw(nil, idRawOpen, 3, id)},
		"a carrier beside another":    {false, appendRaw(nil, idRawOpen, 2, id)},
		"a client wants":              {false, appendRaw(nil, idRawWant, 1)},
		"ids that nobody asked for":   {false, appendRaw(nil, idRawIDs, 1, id)},
		"the end of what never was":   {false, appendRaw(nil, idRawShut, 2)},
		"spares of what never was":    {true, appendRaw(nil, idRawAsk, 2)},
		"an answer twice":             {true, appendRaw(nil, idRawOpen, 1, id)},
		"another while one is usable": {true, appendRaw(nil, idRawWant, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			overRaw(t, clean, true, func(n *rawNet) {
				n.reach(n.near, raw.Open)
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
	overRaw(t, clean, true, func(n *rawNet) {
		n.near.judge(&raw.Error{Kind: raw.Unheard})
		n.tick(5)
		require.NoError(t, n.ends[0].Err())
		n.near.judge(&raw.Error{Kind: raw.Violation, Reason: "an ack for what was not sent"})
		n.tick(5)
		var closed *CloseError
		require.ErrorAs(t, n.conns[0].Err(), &closed)
		require.Equal(t, RawViolation, closed.Code)
		require.True(t, closed.Remote)
	})
}

func TestRawOnLoopback(t *testing.T) {
	server, farP := newRawWorld(t, Config{RawCarrier: true})
	client, nearP := newRawWorld(t, Config{RawCarrier: true})
	serverTLS, clientTLS := credentials(t)
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	end, err := Dial(t.Context(), listener.Addr().String(), clientTLS, client.World)
	require.NoError(t, err)
	step := func() {
		server.Tick(time.Now())
		client.Tick(time.Now())
		time.Sleep(time.Millisecond)
	}
	for end.Raw().State() != raw.Open {
		step()
	}
	near, far := end.Raw(), server.joined[0].Raw()
	send(near, nearP, 1024)
	send(far, farP, 1024)
	for !hasAll(far, farP, 1024) || !hasAll(near, nearP, 1024) {
		require.NoError(t, end.Err())
		step()
	}
	t.Logf("%+v", near.Stats())
	require.NoError(t, listener.Close())
	<-end.Done()
	require.Equal(t, raw.Closed, near.State())
	require.Equal(t, raw.Closed, far.State())
}
