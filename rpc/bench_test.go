package rpc

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc/dos"
)

// silentCarrier takes everything and brings nothing.
type silentCarrier struct{ closed chan struct{} }

func (c silentCarrier) SendDatagram([]byte) error { return nil }
func (c silentCarrier) Path() Path                { return Path{Cwnd: 1 << 20, MaxDatagram: 1200} }
func (c silentCarrier) CloseWithError(uint64, string) error {
	close(c.closed)
	return nil
}

func (c silentCarrier) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, errors.New("closed")
	}
}

// joined returns a server's world with a connection that has joined though
// nobody is there, and an actor open for it.
func joined(t testing.TB) (*testWorld, *Actor) {
	w := newTestWorld(t, Config{MaxConnsPerAddress: -1, MaxConns: 6000, ReceiveLimit: 256 << 10, ReceiveBudget: 1<<31 - 1,
		HelloTimeout: time.Hour, HandshakeTimeout: time.Hour, IdleTimeout: time.Hour}) // no time of a busy machine's ends the connection
	c := attachSilent(t, w)
	w.Tick(time.Now())
	a, err := w.Spawn(hero, c)
	require.NoError(t, err)
	return w, a
}

// attachSilent adds a connection that has joined though nobody is there.
func attachSilent(t testing.TB, w *testWorld) *Conn {
	c, err := w.Attach(silentCarrier{make(chan struct{})})
	require.NoError(t, err)
	c.terms.maxBunch = 65536
	c.joinWorld()
	t.Cleanup(func() {
		c.abort(&CloseError{})
		<-c.Done()
		w.Tick(time.Now())
	})
	return c
}

func BenchmarkCall(b *testing.B) {
	w, a := joined(b)
	b.ReportAllocs()
	for i := range b.N {
		if i%64 == 0 {
			w.Flush(time.Now())
			w.Dispatch(time.Now())
		}
		_ = blink.Call(a, i)
	}
}

func BenchmarkEmptyTick(b *testing.B) {
	w, _ := joined(b)
	b.ReportAllocs()
	for range b.N {
		w.Tick(time.Now())
	}
}

// joinForBench joins two worlds over a pipe, and spawns a hero that the client owns.
func joinForBench(b *testing.B, server, client *testWorld) (end *Conn, a *Actor) {
	near, far := linktest.Pipe()
	_, err := server.Attach(plug{far})
	require.NoError(b, err)
	end, err = client.Connect(context.Background(), plug{near})
	require.NoError(b, err)
	for len(server.joined) == 0 {
		server.Tick(time.Now())
	}
	a, err = server.Spawn(hero, server.joined[0])
	require.NoError(b, err)
	return end, a
}

// BenchmarkCallAcross takes each call from Call to its handler in another world.
func BenchmarkCallAcross(b *testing.B) {
	server, client := newTestWorld(b, Config{}), newTestWorld(b, Config{})
	end, a := joinForBench(b, server, client)
	const perTick = 50
	payload := make(Raw, 50)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		for range min(perTick, b.N-sent) {
			_ = bulk.Call(a, payload)
			sent++
		}
		server.Flush(time.Now())
		for client.received < sent*len(payload) {
			client.Tick(time.Now())
		}
		server.Dispatch(time.Now())
	}
	b.StopTimer()
	end.Close(0, "")
	<-end.Done()
	for len(server.left) == 0 {
		server.Tick(time.Now())
	}
}

// BenchmarkDispatchOfAServer runs 500 calls of a client, without Config.DoS and with it.
func BenchmarkDispatchOfAServer(b *testing.B) {
	harmless := dos.Default() // so that it counts, and does nothing
	for i := range harmless.States {
		harmless.States[i].Frame, harmless.States[i].Period, harmless.States[i].Repeat = dos.Load{}, dos.Load{}, dos.Load{}
	}
	harmless.States[1].Frame.Calls = math.MaxInt
	b.Run("off", func(b *testing.B) { benchmarkServer(b, nil) })
	b.Run("on", func(b *testing.B) { benchmarkServer(b, harmless) })
}

func benchmarkServer(b *testing.B, profile *dos.Profile) {
	const calls = 500
	server, client := newTestWorld(b, Config{DoS: profile, DispatchTime: time.Minute}), newTestWorld(b, Config{})
	end, a := joinForBench(b, server, client)
	for len(end.channels.byNumber) == 0 {
		server.Tick(time.Now())
		client.Tick(time.Now())
	}
	mirror := end.channels.byNumber[a.openings[0].channel]
	conn := server.joined[0]
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		server.heard = server.heard[:0]
		for range calls {
			_ = title.Call(mirror, callsign{Name: "somebody"})
		}
		for ready := 0; ready < calls; {
			conn.link.Lock()
			ready = conn.machine.Ready()
			conn.link.Unlock()
			client.Tick(time.Now())
			time.Sleep(10 * time.Microsecond)
		}
		b.StartTimer()
		server.Dispatch(time.Now())
		b.StopTimer()
		server.Flush(time.Now())
	}
	end.Close(0, "")
	<-end.Done()
	for len(server.left) == 0 {
		server.Tick(time.Now())
	}
}

// BenchmarkDispatch runs 500 calls that have arrived, all in one Dispatch.
func BenchmarkDispatch(b *testing.B) {
	const calls = 500
	server, client := newTestWorld(b, Config{}), newTestWorld(b, Config{DispatchTime: time.Minute})
	end, a := joinForBench(b, server, client)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		for range calls {
			_ = bulk.Call(a, make(Raw, 50))
		}
		for ready := 0; ready < calls; {
			end.link.Lock()
			ready = end.machine.Ready()
			end.link.Unlock()
			server.Tick(time.Now())
			time.Sleep(10 * time.Microsecond)
		}
		b.StartTimer()
		client.Dispatch(time.Now())
		b.StopTimer()
		client.Flush(time.Now())
	}
	end.Close(0, "")
	<-end.Done()
	for len(server.left) == 0 {
		server.Tick(time.Now())
	}
}

var _ Carrier = silentCarrier{}

// BenchmarkWake is a step of Run for one connection that has something, beside
// others that have nothing.
func BenchmarkWake(b *testing.B) {
	for _, others := range []int{0, 100, 1000, 5000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			w, _ := joined(b)
			for range others {
				attachSilent(b, w)
			}
			w.Tick(time.Now())
			one := w.joined[0]
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				one.onWake()
				w.frame.allConns = false
				w.dispatch(clock.Beat{Real: time.Now()}, activeConns)
				w.flush(time.Now())
			}
		})
	}
}
