package sealed

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/internal/udp"
)

// port is a simulated socket with a reader in place of quic-go's.
type port struct {
	conn   *netsim.PacketConn
	socket *Socket
	quic   atomic.Uint64 // packets that were not ours
	reader sync.WaitGroup
}

func newPort(t *testing.T, conn *netsim.PacketConn) *port {
	p := &port{conn: conn, socket: NewSocket(conn, SocketConfig{})}
	p.reader.Go(func() {
		q, b := p.socket.QUIC(), make([]byte, FullPacket)
		for {
			if _, _, err := q.ReadFrom(b); err != nil {
				return
			}
			p.quic.Add(1)
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		p.reader.Wait()
	})
	return p
}

// bed is a carrier between two ports, in virtual time.
type bed struct {
	*testing.T
	near, far *port
	a, b      *Carrier
	up, down  *pieces
	to        atomic.Pointer[net.UDPAddr] // where a sends
	pings     atomic.Uint64
	states    chan State // of a
}

func newBed(t *testing.T, path netsim.Config, total int) *bed {
	path.Seed = testkit.Seed(t)
	x, y := netsim.Pipe(path, path)
	d := &bed{T: t, near: newPort(t, x), far: newPort(t, y), up: newPieces(1000, total, 0), down: newPieces(1000, 0, total), states: make(chan State, 100)}
	d.to.Store(y.LocalAddr().(*net.UDPAddr))
	d.a = d.carrier(d.near, true, d.up, func() net.Addr { return d.to.Load() })
	d.b = d.carrier(d.far, false, d.down, x.LocalAddr)
	return d
}

func (d *bed) carrier(p *port, isClient bool, source Source, to func() net.Addr) *Carrier {
	c := Config{
		SessionConfig: SessionConfig{Exporter: export("tls"), Instance: 1, Client: isClient, Source: source, RTT: 40 * ms},
		Addrs:         func() (net.Addr, net.Addr) { return to(), p.conn.LocalAddr() },
	}
	if isClient {
		c.Ping = func() { d.pings.Add(1) }
		c.Changed = func(s State) { d.states <- s }
	}
	carrier, err := NewCarrier(p.socket, c)
	require.NoError(d, err)
	d.Cleanup(func() {
		carrier.Close()
		<-carrier.Done()
	})
	return carrier
}

func (d *bed) start() *bed {
	d.a.Start()
	d.b.Start()
	return d
}

func TestCarrierDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 20 * ms, Rate: 20e6, Loss: 0.02}, 1000).start()
		begin := time.Now()
		deliver(t, d.a, d.up)
		took := time.Since(begin)
		t.Logf("%v; %+v; %+v", took, d.a.Stats(), d.b.Stats())
		require.Equal(t, Open, <-d.states)
		require.Zero(t, d.far.quic.Load(), "QUIC saw nothing of it")
		require.Equal(t, 3, d.a.SpareIDs())

		t.Log("# idle: no memory of packets, and then no goroutine and no packet until there is something to send")
		time.Sleep(2 * trimInterval)
		d.a.Lock()
		require.Zero(t, d.a.session.records.Cap())
		d.a.Unlock()
		before := d.a.Stats()
		time.Sleep(time.Minute)
		after := d.a.Stats()
		after.Rate, after.Window = before.Rate, before.Window // what is believed of the path fades with time
		require.Equal(t, before, after)
		require.False(t, d.a.worker.runs())
		require.False(t, d.a.run.burst != nil || d.a.run.batch != nil, "buffers that others could have")
		t.Log("# news of arrivals")

		t.Log("# work again")
		d.a.Lock()
		d.up.again = append(d.up.again, 5)
		d.up.acked[5] = false
		d.up.ackedN--
		d.a.Unlock()
		deliver(t, d.a, d.up)
		require.Equal(t, before.Goroutines+1, d.a.Stats().Goroutines)
	})
}

// TestCarrierThatIsNotStarted hears the other end's packets and rests: it has
// nothing to ping for. One that span would never return.
func TestCarrierThatIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 20 * ms}, 0)
		d.b.Start()
		pass(1300 * ms)
		require.NotZero(t, d.a.Stats().Received)
		require.Zero(t, d.pings.Load())
		require.False(t, d.a.worker.runs())
	})
}

func TestCarrierFallsSilentAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 20 * ms, Rate: 20e6}, 2000).start()
		require.Equal(t, Open, <-d.states)
		time.Sleep(100 * ms)
		d.near.conn.To(d.far.conn).Dark(3 * time.Second)
		pings := d.pings.Load()
		require.Equal(t, Silent, <-d.states)
		require.Greater(t, d.pings.Load(), pings, "QUIC is asked to look where the peer is")
		require.Equal(t, Open, <-d.states)
		deliver(t, d.a, d.up)
	})
}

func TestCarrierGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 20 * ms, Lose: func(uint64, []byte) bool { return true }}, 5)
		begin := time.Now()
		d.a.Start()
		require.Equal(t, Silent, <-d.states)
		require.Equal(t, silentTime, time.Since(begin))
		require.Equal(t, Closed, <-d.states)
		<-d.a.Done()
		require.InDelta(t, stopTime.Seconds(), time.Since(begin).Seconds(), 0.1)
		require.ErrorContains(t, d.a.Err(), "no ack for 10s")
		require.Empty(t, d.near.socket.inboxes, "its ids are gone")
		d.a.Start() // does nothing
		d.a.Issue()
		require.Empty(t, d.near.socket.inboxes)
	})
}

// A carrier goes where QUIC goes, under a fresh id when its own address has
// changed, and nowhere else.
func TestCarrierFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 5 * ms, Rate: 20e6}, 3000)
		third := netsim.NewPacketConn()
		netsim.Connect(d.near.conn, third, netsim.Config{Delay: 5 * ms}, netsim.Config{Delay: 5 * ms})
		moved := newPort(t, third)
		moved.socket.inboxes = d.far.socket.inboxes // the peer has another address now
		d.start()
		time.Sleep(300 * ms)
		synctest.Wait()
		d.a.run.pinger.sameSize = searchPings // QUIC's search for the path MTU is over
		require.Zero(t, d.near.conn.To(third).Stats().Packets)
		before := d.near.conn.To(d.far.conn).Stats().Packets
		d.to.Store(third.LocalAddr().(*net.UDPAddr))
		time.Sleep(50 * ms)
		require.NotZero(t, d.near.conn.To(third).Stats().Packets)
		require.LessOrEqual(t, d.near.conn.To(d.far.conn).Stats().Packets, before+udp.MaxSegments)
		synctest.Wait()
		require.Less(t, d.a.run.pinger.sameSize, searchPings, "it searches on the new path")
		deliver(t, d.a, d.up)
		require.Equal(t, third.LocalAddr(), d.to.Load())
	})
}

// TestCarrierRotatesWithItsAddress, and with its peer's: packets to two
// addresses must not name the same id either.
func TestCarrierRotatesWithItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 5 * ms}, 1000)
		var local atomic.Pointer[net.UDPAddr]
		local.Store(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9})
		d.a.config.Addrs = func() (net.Addr, net.Addr) { return d.to.Load(), local.Load() }
		turn := func() {
			time.Sleep(followPlay)
			d.a.Lock()
			d.a.Unlock()
		}
		d.start()
		time.Sleep(100 * ms)
		require.Equal(t, firstIDs-1, d.a.SpareIDs())
		local.Store(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 9})
		turn()
		time.Sleep(ms)
		require.Equal(t, firstIDs-2, d.a.SpareIDs())
		to := *d.to.Load()
		to.Port++
		back := d.to.Swap(&to)
		turn()
		time.Sleep(ms)
		require.Equal(t, firstIDs-3, d.a.SpareIDs())
		d.to.Store(back)
		deliver(t, d.a, d.up)

		for range 2 * maxIDs {
			d.a.AddIDs(d.b.Issue())
		}
		require.Len(t, d.b.issued, maxIDs)
		require.Len(t, d.far.socket.inboxes, maxIDs)
	})
}

func TestCarrierEndsWithItsSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 5 * ms, Rate: 1e6}, 10000).start()
		time.Sleep(100 * ms)
		require.NoError(t, d.near.conn.Close())
		<-d.a.Done()
		var why *Error
		require.ErrorAs(t, d.a.Err(), &why)
		require.Equal(t, "socket closed", why.Reason)
		require.ErrorIs(t, why, net.ErrClosed)
		require.Empty(t, d.up.faults)
	})
}

// Forgeries and replays of an attacker on the path harm nothing.
func TestCarrierUnderAttack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 5 * ms, Rate: 20e6, Duplicate: 0.3}, 2000)
		attacker := netsim.NewPacketConn()
		netsim.Connect(attacker, d.far.conn, netsim.Config{}, netsim.Config{})
		port := newPort(t, attacker)
		d.start()
		ids := d.b.issued
		for i := range 1000 {
			p := appendHeader(nil, ids[i%len(ids)], uint64(i))
			p = append(p, make([]byte, i)...)
			_, err := port.conn.WriteTo(p, d.far.conn.LocalAddr())
			require.NoError(t, err)
			time.Sleep(ms)
		}
		deliver(t, d.a, d.up)
		st := d.b.Stats()
		t.Logf("%+v", st)
		require.InDelta(t, 1000-maxFromOthers, st.FromOthers, maxFromOthers)
		require.NotZero(t, st.Drops[dropSize])
		require.NotZero(t, st.Drops[dropForged]+st.Drops[dropKey]+st.Drops[dropOld], "their numbers are any, unmasked")
		require.NotZero(t, st.Drops[dropReplay])
		require.Equal(t, Open, d.b.State())
	})
}

// A server that listens on all addresses of both families answers from the one it was asked at.
func TestWildcardSocket(t *testing.T) {
	conn, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	far := newHost(t, conn, SocketConfig{})
	near := newLoopback(t, SocketConfig{})
	far.conn = toLoopback{conn}
	exchange(t, near, far, 0, 200)
}

// toLoopback names the address that reaches a wildcard socket.
type toLoopback struct{ *net.UDPConn }

func (c toLoopback) LocalAddr() net.Addr {
	return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.UDPConn.LocalAddr().(*net.UDPAddr).Port}
}

func TestCarrierBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{}, 0).start()
		time.Sleep(time.Second)
		require.False(t, d.a.writeFailed(udp.ErrBlocked))
		require.EqualValues(t, 1, d.a.Stats().Blocked)
		require.True(t, d.a.writeFailed(net.UnknownNetworkError("x")))
		require.EqualValues(t, 1, d.a.Stats().WriteErrors)
	})
}

// TestHushIsAskedAbout: an end that only hears asks QUIC to look where the peer
// is, once, when that has gone quiet all of a sudden: its own address may have
// changed, and it has nothing in flight that would say so.
func TestHushIsAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBed(t, netsim.Config{Delay: 20 * ms}, 10).start()
		deliver(t, d.a, d.up)
		time.Sleep(2 * time.Second)
		speak := func() {
			d.b.Lock()
			d.b.session.liveness.probesDue = 1
			d.b.Unlock()
			time.Sleep(21 * ms)
		}
		for range 64 { // the first brings the ping of each second that has traffic
			speak()
		}
		before := d.pings.Load()
		d.a.Lock()
		pto := d.a.session.pto()
		d.a.Unlock()
		time.Sleep(pto + 80*ms) // a report may have asked for one more ack
		require.Equal(t, before+1, d.pings.Load())
		time.Sleep(500 * ms)
		require.Equal(t, before+1, d.pings.Load(), "once")
	})
}

// runs reports whether a goroutine works for the carrier.
func (w *worker) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working
}
