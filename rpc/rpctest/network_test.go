package rpctest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// A game of one class: a client shoots, the server tells the owner and everybody else.
var (
	duelist = rpc.NewClass("Duelist")
	shoot   = rpc.Server[int](duelist, "Shoot", rpc.Reliable)
	hit     = rpc.Client[int](duelist, "Hit", rpc.Reliable)
	bang    = rpc.Multicast[int](duelist, "Bang", rpc.Unreliable)
)

type duel struct {
	actor *rpc.Actor
	net   *rpctest.Network
	log   *[]string
}

func (d *duel) note(what string, n int) {
	*d.log = append(*d.log, fmt.Sprint(d.net.Elapsed(), what, n))
}

func (d *duel) shoot(_ *rpc.Call, n int) {
	d.note(" shot ", n)
	_ = hit.Call(d.actor, n)
	_ = bang.Call(d.actor, n)
}
func (d *duel) hit(_ *rpc.Call, n int)  { d.note(" hit ", n) }
func (d *duel) bang(_ *rpc.Call, n int) { d.note(" bang ", n) }

// newWorld returns a world of the game, which notes what happens, and its actors.
func newWorld(t testing.TB, net *rpctest.Network, config rpc.Config, log *[]string) (*rpc.World, *[]*duel) {
	t.Helper()
	w, err := rpc.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	duels := new([]*duel)
	binding := rpc.Bind(w, duelist, func(a *rpc.Actor) *duel {
		*duels = append(*duels, &duel{a, net, log})
		return (*duels)[len(*duels)-1]
	})
	rpc.On(binding, shoot, (*duel).shoot)
	rpc.On(binding, hit, (*duel).hit)
	rpc.On(binding, bang, (*duel).bang)
	return w, duels
}

// play lets three clients shoot for a while, and returns what happened where.
func play(t *testing.T, net *rpctest.Network) (log []string) {
	server, _ := newWorld(t, net, rpc.Config{OnConnect: func(w *rpc.World, c *rpc.Conn) {
		if _, err := w.Spawn(duelist, c, rpc.AlwaysRelevant()); err != nil {
			t.Error(err)
		}
	}}, &log)
	net.Server(server)
	for i := range 3 {
		w, duels := newWorld(t, net, rpc.Config{}, &log)
		conn := net.Client(w)
		if conn.RemoteAddr() != nil {
			t.Error("a client's connection has an address")
		}
		mine := func() *duel {
			at := slices.IndexFunc(*duels, func(d *duel) bool { return d.actor.Owned() })
			if at < 0 {
				return nil
			}
			return (*duels)[at]
		}
		if !net.Until(10*time.Second, func() bool { return mine() != nil }) {
			t.Fatal("the player did not come")
		}
		for n := range 50 {
			if err := shoot.Call(mine().actor, 100*i+n); err != nil {
				t.Error(err)
			}
			net.Advance(50 * time.Millisecond)
		}
	}
	net.Advance(10 * time.Second)
	return log
}

// TestTheSameSeedGivesTheSameTimes: all that happens on a bad network, to the nanosecond.
func TestTheSameSeedGivesTheSameTimes(t *testing.T) {
	bursts := rpctest.Bad
	bursts.LossBurst, bursts.Rate, bursts.PktJitter = 3, 200_000, 10*time.Millisecond
	for _, profile := range []emulation.Settings{rpctest.Off, rpctest.Average, rpctest.Bad, bursts} {
		var first []string
		seed, alike := "", make(map[string]int)
		for range 6 {
			t.Setenv("QUIVER_SEED", seed)
			rpctest.Run(t, profile, func(t *testing.T, net *rpctest.Network) {
				seed = fmt.Sprint(net.Seed())
				first = play(t, net)
			})
			alike[strings.Join(first, "\n")]++
		}
		most := 0
		for _, n := range alike {
			most = max(most, n)
		}
		if most < 3 && !raceDetector { // a machine that takes the processor away for long makes one in hundreds differ
			t.Errorf("seed %s: %d of 6 runs alike", seed, most)
		}
		shots, hits := count(first, " shot "), count(first, " hit ")
		if shots != 150 || hits != 150 {
			t.Errorf("%d shots and %d hits of 150", shots, hits)
		}
	}
}

func count(log []string, what string) (n int) {
	for _, line := range log {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// TestTheNetworkIsAsTold: the delays of calls are those of the profile.
func TestTheNetworkIsAsTold(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 50 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		var log []string
		server, players := newWorld(t, net, rpc.Config{OnConnect: func(w *rpc.World, c *rpc.Conn) { _, _ = w.Spawn(duelist, c) }}, &log)
		net.Server(server)
		w, mine := newWorld(t, net, rpc.Config{}, &log)
		conn := net.Client(w)
		net.Advance(time.Second)
		call := func() time.Duration {
			log = nil
			began := net.Elapsed()
			if err := shoot.Call((*mine)[0].actor, 1); err != nil {
				t.Fatal(err)
			}
			if !net.Until(30*time.Second, func() bool { return count(log, " hit ") == 1 }) {
				t.Fatal("no answer")
			}
			return net.Elapsed() - began
		}
		if took := call(); took < 100*time.Millisecond || took > 250*time.Millisecond {
			t.Errorf("a call and its answer took %v at a lag of 50 ms each way and 30 ticks a second", took)
		}
		net.EmulateOne(conn, rpctest.Off)
		if took := call(); took > 110*time.Millisecond {
			t.Errorf("a call and its answer took %v without a lag", took)
		}
		net.Dark(conn, 3*time.Second)
		if took := call(); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("a call and its answer took %v on a path that was dark for 3 s", took)
		}
		conn.Close(rpc.HostClosedConnection, "enough")
		if !net.Until(5*time.Second, func() bool { return len(server.Conns()) == 0 }) {
			t.Error("the server did not hear of the end")
		}
		if len(*players) != 1 {
			t.Errorf("%d players", len(*players))
		}
	})
}

// TestRefusedClients: Join returns why, and that the server refused, as Dial does.
func TestRefusedClients(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		var log []string
		server, _ := newWorld(t, net, rpc.Config{MaxConns: 1}, &log)
		net.Server(server)
		first, _ := newWorld(t, net, rpc.Config{}, &log)
		net.Client(first)
		second, _ := newWorld(t, net, rpc.Config{}, &log)
		_, err := net.Join(second)
		if closed := new(rpc.CloseError); !errors.As(err, &closed) || closed.Code != rpc.ServerFull || !closed.Remote {
			t.Errorf("a client of a full server got %v", err)
		}
	})
}

// mistakes are what a user may do wrong, and what the output of the test then says.
var mistakes = map[string]struct {
	make func(net *rpctest.Network)
	says string
}{
	"leak":  {func(*rpctest.Network) { go func() { <-make(chan bool) }() }, "TestMistakes: repeat with QUIVER_SEED=7"},
	"panic": {func(*rpctest.Network) { panic("mistake") }, "TestMistakes: repeat with QUIVER_SEED=7"},
	"rate":  {func(net *rpctest.Network) { net.SetTickRate(0) }, "rpctest: SetTickRate(0): the rate must be 1 to 1000"},
	"dark":  {func(net *rpctest.Network) { net.Dark(nil, time.Second) }, "rpctest: nil connection"},
	"two servers": {func(net *rpctest.Network) {
		for range 2 {
			w, _ := rpc.NewWorld(rpc.Config{})
			net.Server(w)
		}
	}, "the network already has a server"},
	"crash": {func(net *rpctest.Network) { net.Crash(nil) }, "Crash of a world that is not in this network"},
	"waits": {func(*rpctest.Network) { <-make(chan bool) }, "TestMistakes: no tick for 1h0m0s of virtual time"},
}

// A client that comes again in the world that it has ticks as often as before:
// what it simulates in OnTick would run faster each time.
func TestWorldThatComesAgainTicksOnce(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		server, _ := newWorld(t, net, rpc.Config{}, nil)
		net.Server(server)
		client, _ := newWorld(t, net, rpc.Config{}, nil)
		for range 3 {
			net.Client(client).Close(2000, "comes again")
			net.Advance(3 * time.Second)
		}
		ticks, flushes := 0, 0
		net.OnTick(func(time.Time) { ticks++ })
		client.OnTick(func(time.Time) { flushes++ })
		net.Client(client)
		net.Advance(time.Second)
		if ticks == 0 || flushes != ticks {
			t.Errorf("the world flushed %d times in %d ticks", flushes, ticks)
		}
	})
}

// TestMistakes runs this program again, once for each mistake, because some mistakes end it.
func TestMistakes(t *testing.T) {
	const variable = "RPCTEST_MISTAKE"
	if name := os.Getenv(variable); name != "" {
		rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) { mistakes[name].make(net) })
		return
	}
	for name, m := range mistakes {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMistakes$")
		again.Env = append(os.Environ(), variable+"="+name, "QUIVER_SEED=7")
		out, err := again.CombinedOutput()
		if err == nil || !strings.Contains(string(out), m.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestUplinkIsShared: what the server sends to all of its clients has one bottleneck.
func TestUplinkIsShared(t *testing.T) {
	for clients, most := range map[int]float64{1: 0.8, 4: 3.5} {
		rpctest.Run(t, emulation.Settings{PktLag: 10 * time.Millisecond, Rate: 1_000_000}, func(t *testing.T, net *rpctest.Network) {
			topic := stream.NewBlob("world")
			server, sender := streaming(t)
			net.Server(server)
			done := 0
			for range clients {
				w, receiver := streaming(t)
				topic.Handle(receiver, func(in *stream.IncomingBlob) {
					go func() { _, _ = io.Copy(io.Discard, in) }()
				})
				net.Client(w)
			}
			began := net.Elapsed()
			for _, conn := range server.Conns() {
				transfer, err := topic.Start(sender.Peer(conn), strings.NewReader(strings.Repeat("x", 50_000)), 50_000)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if err := transfer.Wait(context.Background()); err == nil {
						server.Post(func() { done++ })
					}
				}()
			}
			if !net.Until(time.Minute, func() bool { return done == clients }) {
				t.Fatalf("%d of %d transfers", done, clients)
			}
			took := (net.Elapsed() - began).Seconds()
			if least := 0.4 * float64(clients); took < least || took > most {
				t.Errorf("%d times 50,000 bytes over 1 Mbit/s took %.2f s, not %.2f to %.2f", clients, took, least, most)
			}
		})
	}
}

// TestBlobsInJitter: for a blob that is sent a second after a client has
// joined, when almost nothing is known about the path, jitter does not count as
// a queue. Before, one of eight took 7 to 11 s.
func TestBlobsInJitter(t *testing.T) {
	topic, slow := stream.NewBlob("map"), 0
	for range 30 {
		rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
			server, down := streaming(t)
			client, up := streaming(t)
			topic.Handle(up, func(in *stream.IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
			net.Server(server)
			net.Client(client)
			net.Advance(time.Second)
			began := net.Elapsed()
			transfer, err := topic.Start(down.Peer(server.Conns()[0]), strings.NewReader(strings.Repeat("m", 200_000)), 200_000)
			if err != nil {
				t.Fatal(err)
			}
			net.Until(time.Minute, func() bool { return transfer.Progress().Acked == 200_000 })
			if took := net.Elapsed() - began; took > 5*time.Second {
				t.Logf("seed %d: 200 kB took %v", net.Seed(), took)
				slow++
			}
		})
	}
	if slow > 1 { // one in 600 is
		t.Errorf("%d of 30 took more than 5 s", slow)
	}
}

// TestUploadBehindADownloadInJitter: the least round trip had expired while the peer sent, and
// a drain to measure it began together with the upload. It allowed few packets in flight, which
// showed a tenth of the path's rate. Two of three uploads took three times as long and more.
func TestUploadBehindADownloadInJitter(t *testing.T) {
	const size = 10 << 20 // 4.4 s at 20 Mbit/s and 5 % loss
	topic, slow := stream.NewBlob("map"), 0
	weather := emulation.Settings{PktLag: 75 * time.Millisecond, PktLagVariance: 15 * time.Millisecond, PktJitter: 20 * time.Millisecond, PktLoss: 5, Rate: 20e6}
	for range 6 {
		rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
			toServer, toClient := bothWays(t, net, topic)
			net.Advance(10 * time.Second)
			moveTime(t, net, topic, toClient, size)
			net.Advance(10 * time.Second)
			if took := moveTime(t, net, topic, toServer, size); took > 10*time.Second {
				t.Logf("seed %d: it took %v", net.Seed(), took)
				slow++
			}
		})
	}
	if slow > 2 {
		t.Errorf("%d of 6 took more than 10 s", slow)
	}
}

// TestDownloadBehindAnUpload: the reports of a peer that receives a transfer wait
// in the queue of the transfer. Before, they ended the startup of the peer's own
// transfer, which then began with four packets and took three times as long.
func TestDownloadBehindAnUpload(t *testing.T) {
	const size = 2 << 20 // 0.84 s at 20 Mbit/s
	topic := stream.NewBlob("map")
	rpctest.Run(t, emulation.Settings{PktLag: 50 * time.Millisecond, Rate: 20e6}, func(t *testing.T, net *rpctest.Network) {
		toServer, toClient := bothWays(t, net, topic)
		net.Advance(time.Second)
		for _, peer := range []*stream.Peer{toServer, toClient} {
			if took := moveTime(t, net, topic, peer, size); took > 1500*time.Millisecond {
				t.Errorf("seed %d: it took %v", net.Seed(), took)
			}
		}
	})
}

// bothWays joins a client to a server; both take blobs of a topic, and throw them away.
func bothWays(t *testing.T, net *rpctest.Network, topic *stream.Blob) (toServer, toClient *stream.Peer) {
	t.Helper()
	server, down := streaming(t)
	client, up := streaming(t)
	for _, s := range []*stream.Streams{up, down} {
		topic.Handle(s, func(in *stream.IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
	}
	net.Server(server)
	conn := net.Client(client)
	return up.Peer(conn), down.Peer(server.Conns()[0])
}

// moveTime returns how long a blob takes until all of it is acked.
func moveTime(t *testing.T, net *rpctest.Network, topic *stream.Blob, to *stream.Peer, size int64) time.Duration {
	t.Helper()
	began := net.Elapsed()
	transfer, err := topic.Start(to, strings.NewReader(strings.Repeat("m", int(size))), size)
	if err != nil {
		t.Fatal(err)
	}
	net.Until(2*time.Minute, func() bool { return transfer.Progress().Acked == size })
	return net.Elapsed() - began
}

// streaming returns a world that streams.
func streaming(t *testing.T) (*rpc.World, *stream.Streams) {
	t.Helper()
	w, err := rpc.NewWorld(rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	streams, err := stream.Install(w, stream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return w, streams
}
