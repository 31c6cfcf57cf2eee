package rpc

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
)

// slowSocket is a socket whose sealed packets wait while gate is set, as in a queue of turns.
type slowSocket struct {
	*netsim.PacketConn
	gate chan struct{}
}

func (s *slowSocket) WriteTo(p []byte, to net.Addr) (int, error) {
	if p[0] == 0x04 {
		<-s.gate
	}
	return s.PacketConn.WriteTo(p, to)
}

// reopener is a server and a client that opens and closes sealed carriers as it likes.
type reopener struct {
	*network
	gate chan struct{} // the server's sealed packets pass while it is closed
	near *Conn
	far  *sealedCarrier
}

// join connects a client to a server at near and far, under these TLS configs,
// until OnConnect of both has run.
func (r *reopener) join(near, far net.PacketConn, serverTLS, clientTLS *tls.Config) *Listener {
	listener, err := ListenPacket(far, serverTLS, r.server.World)
	require.NoError(r.t, err)
	r.near, err = DialPacket(r.t.Context(), near, far.LocalAddr(), clientTLS, r.clients[0].World)
	require.NoError(r.t, err)
	r.ends = []*Conn{r.near}
	r.tick(12)
	r.await()
	r.far = r.conns[0].sealed
	return listener
}

// end closes all that join has made, and its sockets.
func (r *reopener) end(listener *Listener, sockets ...net.PacketConn) {
	require.NoError(r.t, listener.Close())
	require.NoError(r.t, r.near.Wait(r.t.Context()))
	r.tick(1)
	for _, s := range sockets {
		require.NoError(r.t, s.Close())
	}
}

// overSlowSocket runs a test over a path whose server's socket may hold its carriers up.
func overSlowSocket(t *testing.T, fn func(r *reopener)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reopener{network: &network{t: t}, gate: make(chan struct{})}
		r.server = newSealedWorld(t, Config{Sealed: true})
		r.clients = []*testWorld{newSealedWorld(t, Config{Sealed: true})}
		a, b := netsim.Pipe(clean, clean)
		serverTLS, clientTLS := credentials(t)
		listener := r.join(a, &slowSocket{PacketConn: b, gate: r.gate}, serverTLS, clientTLS)
		fn(r)
		r.end(listener, a, b)
	})
}

// say sends messages of the client about its carriers, in one packet.
func (r *reopener) say(messages ...[]byte) {
	r.near.link.Lock()
	defer r.near.link.Unlock()
	for _, m := range messages {
		require.NoError(r.t, r.near.machine.Send(0, bunch.Reliable, m))
	}
}

func shutCarrier(instance uint32) []byte {
	return control.AppendSealed(nil, control.IDSealedShut, instance)
}
func openCarrier(instance uint32) []byte {
	return control.AppendSealed(nil, control.IDSealedOpen, instance)
}
func askCarrier(instance uint32) []byte {
	return control.AppendSealed(nil, control.IDSealedAsk, instance)
}

// longestTick ticks the server so many times, and returns how long the longest tick took.
func (r *reopener) longestTick(count int) (longest time.Duration) {
	for range count {
		time.Sleep(time.Second / 30)
		begin := time.Now()
		r.server.Tick(begin)
		longest = max(longest, time.Since(begin))
	}
	return longest
}

// TestNoTickWaitsForAnOldCarrier: before, a client that opened a carrier right
// after the end of the one before made the world's goroutine wait until the old
// one had had its turn, and its socket had taken its packets.
func TestNoTickWaitsForAnOldCarrier(t *testing.T) {
	overSlowSocket(t, func(r *reopener) {
		time.AfterFunc(5*time.Second, func() { close(r.gate) })
		r.say(shutCarrier(1), openCarrier(2))
		require.Zero(t, r.longestTick(60), "the old carrier waits for its socket")
		require.EqualValues(t, 1, r.far.carriers.stats().Carriers)
		require.Zero(t, r.longestTick(200))
		require.EqualValues(t, 2, r.far.carriers.stats().Carriers, "the next one has begun behind it")
		require.NotEqual(t, sealed.Closed, r.far.State())
		require.NoError(t, r.near.Err())
	})
}

// TestCarriersThatWaitForAnotherAreOne: if a client opens and closes many carriers while
// an old one ends, only the last begins, and its spare ids are sent once it has some.
func TestCarriersThatWaitForAnotherAreOne(t *testing.T) {
	overSlowSocket(t, func(r *reopener) {
		time.AfterFunc(5*time.Second, func() { close(r.gate) })
		r.say(shutCarrier(1), openCarrier(2), askCarrier(2), shutCarrier(2), openCarrier(3), askCarrier(3), shutCarrier(3), openCarrier(4), askCarrier(4))
		require.Zero(t, r.longestTick(60))
		require.EqualValues(t, 1, r.far.carriers.stats().Carriers)
		require.Zero(t, r.longestTick(200))
		require.EqualValues(t, 2, r.far.carriers.stats().Carriers)
		r.tick(10)
		require.ErrorContains(t, r.near.Err(), "SealedIDs names carrier 4; the newest is 1")
	})
}

// TestClosedWhileACarrierWaits: a connection that ends while its next carrier
// waits for the old one ends all the same.
func TestClosedWhileACarrierWaits(t *testing.T) {
	overSlowSocket(t, func(r *reopener) {
		r.say(shutCarrier(1), openCarrier(2))
		require.Zero(t, r.longestTick(30))
		r.conns[0].Close(2000, "enough")
		r.tick(60)
		require.Error(t, r.near.Err())
		close(r.gate)
		r.tick(60)
		require.Len(t, r.server.left, 1)
		require.EqualValues(t, 1, r.far.carriers.stats().Carriers)
	})
}

// TestCrowdOpensCarriersInTurns: if very many clients open carriers at once,
// these begin in several ticks, because each takes a part of a tick.
func TestCrowdOpensCarriersInTurns(t *testing.T) {
	const crowd = maxSealedStarts + 5
	server := newSealedWorld(t, Config{Sealed: true})
	serverTLS, clientTLS := credentials(t)
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	for range crowd {
		_, err := Dial(t.Context(), listener.Addr().String(), clientTLS, newSealedWorld(t, Config{Sealed: true}).World)
		require.NoError(t, err)
	}
	for len(server.joined) < crowd {
		server.Tick(time.Now())
	}
	for _, c := range server.joined {
		c.sealed.carriers.current().Close()
		c.sealed.carriers.wait()
		require.Nil(t, c.sealed.control(control.Sealed{Kind: control.IDSealedShut, Instance: 1}))
		require.Nil(t, c.sealed.control(control.Sealed{Kind: control.IDSealedOpen, Instance: 2}))
	}
	begun := 0
	for begun < crowd {
		before := begun
		server.Tick(time.Now())
		begun = 0
		for _, c := range server.joined {
			begun += int(c.sealed.carriers.stats().Carriers) - 1
		}
		require.Greater(t, begun, before)
		require.LessOrEqual(t, begun-before, maxSealedStarts)
	}
	require.NoError(t, listener.Close())
}

// TestServerThatCanMakeNoCarrier: a client's messages about carriers that the
// server could not make are answered, and cause no harm.
func TestServerThatCanMakeNoCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reopener{network: &network{t: t}}
		r.server = newTestWorld(t, Config{Sealed: true})
		r.clients = []*testWorld{newTestWorld(t, Config{Sealed: true})}
		a, b := netsim.Pipe(clean, clean)
		serverTLS, clientTLS := credentials(t)
		serverTLS.Renegotiation = tls.RenegotiateOnceAsClient // which has no exporter
		listener := r.join(a, b, serverTLS, clientTLS)
		require.Nil(t, r.far.carriers.current())
		r.say(openCarrier(2), askCarrier(2), shutCarrier(2), openCarrier(3), askCarrier(3))
		r.tick(3)
		require.EqualValues(t, 3, r.far.instances.Newest())
		require.False(t, r.far.instances.Live())
		r.tick(3)
		require.ErrorContains(t, r.near.Err(), "SealedShut names carrier 3; the newest is 1", "the real client has opened none of these")
		r.end(listener, a, b)
	})
}
