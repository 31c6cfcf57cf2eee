package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// from is a carrier whose peer has an address.
type from struct {
	plug
	addr net.Addr
}

func (c from) RemoteAddr() net.Addr { return c.addr }

func host(ip string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 4433} }

// connectFrom is connect for a client with an address.
func (n *network) connectFrom(addr net.Addr, w *testWorld) (*Conn, error) {
	near, far := linktest.Pipe()
	near.SetDelay(testDelay)
	far.SetDelay(testDelay)
	if _, err := n.server.Attach(from{plug{far}, addr}); err != nil {
		return nil, err
	}
	return w.Connect(context.Background(), plug{near})
}

// silentFrom attaches a client that says nothing. It may be refused.
func (n *network) silentFrom(addr net.Addr) {
	_, far := linktest.Pipe()
	_, _ = n.server.Attach(from{plug{far}, addr})
}

// muteFrom attaches a client that says Hello and Login and nothing more, not
// even that it heard the answer. It may be refused.
func (n *network) muteFrom(addr net.Addr) *rawPeer {
	near, far := linktest.Pipe()
	_, _ = n.server.Attach(from{plug{far}, addr})
	p := rawPeerOn(n.t, near)
	p.send(0, p.hello(n.server.World))
	p.send(0, control.AppendLogin(nil, control.Login{}))
	time.Sleep(testDelay)
	near.SetDrop(func([]byte) bool { return true })
	return p
}

// depart ends clients' worlds.
func depart(t *testing.T, clients ...*testWorld) {
	t.Helper()
	for _, w := range clients {
		require.NoError(t, w.Close(context.Background(), 0, "leaves"))
	}
}

// TestSilentPeersLockNobodyOut: connections of one address that send nothing take neither the
// places of other addresses nor, for long, those of their own address. After 2 s they are gone.
func TestSilentPeersLockNobodyOut(t *testing.T) {
	for _, config := range []Config{{}, {MaxConns: 50}, {MaxConnsPerAddress: 10}} {
		inNet(t, 0, config, func(n *network) {
			for range 300 {
				n.silentFrom(host("192.0.2.1"))
			}
			synctest.Wait()
			require.LessOrEqual(t, n.server.HandshakeStats().Open, 64, "half of MaxHandshakes")
			neighbour, stranger := newTestWorld(t, Config{}), newTestWorld(t, Config{})
			start := time.Now()
			_, err := n.connectFrom(host("192.0.2.1"), neighbour)
			require.NoError(t, err)
			_, err = n.connectFrom(host("192.0.2.2"), stranger)
			require.NoError(t, err)
			require.Less(t, time.Since(start), time.Second, "in the bubble's time")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Zero(t, n.server.HandshakeStats().Open)
			depart(t, neighbour, stranger)
			n.tick(30)
			require.Zero(t, n.server.lobby.memory.Reserved(), "as before they came")
		})
	}
}

// TestMutePeersLockNobodyOut: other clients get the places of clients that send
// no Join after their Welcome, or do not acknowledge their refusal.
func TestMutePeersLockNobodyOut(t *testing.T) {
	nobody := func(_ context.Context, token []byte) (string, error) {
		if string(token) != "honest" {
			return "", errors.New("nobody knows this token")
		}
		return "", nil
	}
	for _, config := range []Config{
		{MaxHandshakes: 8},
		{MaxHandshakes: 8, Authenticate: nobody, MaxLoginFailures: -1},
		{MaxConns: 4, Authenticate: nobody, MaxLoginFailures: -1},
		{MaxConnsPerAddress: 2, Authenticate: nobody, MaxLoginFailures: -1},
	} {
		inNet(t, 0, config, func(n *network) {
			var mute []*rawPeer
			for i := range 16 {
				mute = append(mute, n.muteFrom(host(fmt.Sprint("192.0.2.", i/4))))
			}
			for _, ip := range []string{"192.0.2.9", "192.0.2.0"} {
				honest := newTestWorld(t, Config{Token: []byte("honest")})
				_, err := n.connectFrom(host(ip), honest)
				require.NoError(t, err, "%+v", config)
				depart(t, honest)
			}
			for _, p := range mute {
				<-p.link.Done()
			}
			synctest.Wait()
			require.Zero(t, n.server.HandshakeStats().Open)
		})
	}
}

// TestPartyBehindOneAddress: 40 players of one address join in the same instant.
func TestPartyBehindOneAddress(t *testing.T) {
	inNet(t, 0, Config{}, func(n *network) {
		players := make([]*testWorld, 40)
		failed := make(chan error, len(players))
		for i := range players {
			players[i] = newTestWorld(t, Config{})
			go func() {
				_, err := n.connectFrom(host("2001:db8::"+fmt.Sprint(i)), players[i])
				failed <- err
			}()
		}
		for range players {
			require.NoError(t, <-failed)
		}
		require.EqualValues(t, 40, n.server.HandshakeStats().Begun)
		depart(t, players...)
	})
}

// TestHelloThatDrips: a Hello whose parts arrive one by one gets no more time than silence.
func TestHelloThatDrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestWorld(t, Config{})
		near, far := linktest.Pipe()
		var last time.Time
		near.SetDrop(func([]byte) bool { // one part each 100 ms
			early := time.Since(last) < 100*time.Millisecond
			if !early {
				last = time.Now()
			}
			return early
		})
		c, err := server.Attach(plug{far})
		require.NoError(t, err)
		p := rawPeerOn(t, near)
		p.send(0, make([]byte, 60_000)) // a Hello by its first byte, in 55 parts
		<-c.Done()
		require.ErrorContains(t, c.Err(), "HandshakeTimeout: still waiting for the client's Hello after 2s (Config.HelloTimeout)")
		near.SetDrop(nil)
		<-p.link.Done()
	})
}

// TestHangingAuthenticate: at most MaxHandshakes calls run at once, even if
// clients leave and return, and those of one address leave room for others.
func TestHangingAuthenticate(t *testing.T) {
	var running, most atomic.Int64
	var hang chan struct{}
	authenticate := func(_ context.Context, token []byte) (string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if string(token) != "honest" {
			<-hang // whatever becomes of its context
		}
		return "", nil
	}
	inNet(t, 0, Config{Authenticate: authenticate, MaxHandshakes: 16}, func(n *network) {
		hang = make(chan struct{}) // in the bubble
		for range 50 {
			w := newTestWorld(t, Config{})
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			near, far := linktest.Pipe()
			if _, err := n.server.Attach(from{plug{far}, host("192.0.2.1")}); err == nil {
				_, err = w.Connect(ctx, plug{near})
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorContains(t, err, "Config.MaxHandshakesPerAddress")
			}
			cancel()
		}
		require.EqualValues(t, 8, most.Load())
		honest := newTestWorld(t, Config{Token: []byte("honest")})
		_, err := n.connectFrom(host("192.0.2.2"), honest)
		require.NoError(t, err)
		close(hang)
		time.Sleep(time.Second)
		require.Zero(t, n.server.HandshakeStats().Open)
		depart(t, honest)
	})
}

// TestTokenGuessing: of a minute of guesses as fast as possible Authenticate
// sees 18. A player who was here before joins in that time; other players of
// the address join once the guessing has paused.
func TestTokenGuessing(t *testing.T) {
	var asked atomic.Int64
	authenticate := func(_ context.Context, token []byte) (string, error) {
		if string(token) == "guess" {
			asked.Add(1)
			return "", errors.New("nobody knows this token")
		}
		return string(token), nil
	}
	inNet(t, 0, Config{Authenticate: authenticate}, func(n *network) {
		home := host("192.0.2.1")
		old := newTestWorld(t, Config{Token: []byte("old")})
		_, err := n.connectFrom(home, old)
		require.NoError(t, err)
		depart(t, old)

		start := time.Now()
		guesses := 0
		for ; time.Since(start) < time.Minute; guesses++ {
			_, err = n.connectFrom(home, newTestWorld(t, Config{Token: []byte("guess")}))
			var closed *CloseError
			require.ErrorAs(t, err, &closed)
			slowed := strings.HasPrefix(closed.Reason, "too many failed logins ")
			require.Equal(t, slowed, closed.Temporary(), closed)
			require.Equal(t, !slowed, closed.Code == PreLoginFailure, closed)
		}
		require.Greater(t, guesses, 500)
		require.LessOrEqual(t, asked.Load(), int64(18))
		require.ErrorContains(t, err, "too many failed logins from 192.0.2.1/32; the limit is 8 (Config.MaxLoginFailures): try again in ")
		stats := n.server.HandshakeStats()
		require.EqualValues(t, asked.Load(), stats.LoginsFailed)
		require.EqualValues(t, guesses, stats.LoginsFailed+stats.LoginsSlowed)

		again, fresh := newTestWorld(t, Config{Token: []byte("old")}), newTestWorld(t, Config{Token: []byte("new")})
		_, err = n.connectFrom(home, again)
		require.NoError(t, err)
		time.Sleep(10 * time.Second) // the longest pause: see Config.MaxLoginFailures
		_, err = n.connectFrom(home, fresh)
		require.NoError(t, err)
		depart(t, again, fresh)
	})
}

// TestLoginsThatCannotBeChecked: while Authenticate cannot check tokens, no
// login counts as failed, and a client that tries again later gets in.
func TestLoginsThatCannotBeChecked(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	authenticate := func(_ context.Context, token []byte) (string, error) {
		if broken.Load() {
			return "", fmt.Errorf("accounts: %w", &CloseError{Code: ServerFull, Reason: "the accounts are out of reach"})
		}
		return string(token), nil
	}
	inNet(t, 0, Config{Authenticate: authenticate}, func(n *network) {
		home := host("192.0.2.1")
		for i := range 20 {
			_, err := n.connectFrom(home, newTestWorld(t, Config{Token: fmt.Append(nil, "player ", i)}))
			var closed *CloseError
			require.ErrorAs(t, err, &closed)
			require.True(t, closed.Temporary(), closed)
			require.Equal(t, "the accounts are out of reach", closed.Reason)
		}
		require.Zero(t, n.server.HandshakeStats().LoginsFailed)
		broken.Store(false)
		honest := newTestWorld(t, Config{Token: []byte("player 0")})
		_, err := n.connectFrom(home, honest)
		require.NoError(t, err)
		depart(t, honest)
	})
}

// TestWhoLoginRefusesHasNotFailed: a player whom Login refuses, such as a
// banned one, does not slow down other players of the same address.
func TestWhoLoginRefusesHasNotFailed(t *testing.T) {
	config := Config{
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		Login: func(_ *World, c *Conn) error {
			if c.Identity() == "banned" {
				return errors.New("you are banned")
			}
			return nil
		},
	}
	inNet(t, 0, config, func(n *network) {
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = n.server.Run(ctx) }) // which Login needs
		home := host("192.0.2.1")
		for range 20 {
			_, err := n.connectFrom(home, newTestWorld(t, Config{Token: []byte("banned")}))
			var closed *CloseError
			require.ErrorAs(t, err, &closed)
			require.Equal(t, PreLoginFailure, closed.Code)
			require.Equal(t, "you are banned", closed.Reason)
		}
		require.Zero(t, n.server.HandshakeStats().LoginsFailed)
		neighbour := newTestWorld(t, Config{Token: []byte("a new ticket")})
		_, err := n.connectFrom(home, neighbour)
		require.NoError(t, err)
		depart(t, neighbour)
		stop()
		running.Wait()
	})
}

// slowly makes Authenticate take a while, whatever becomes of its context. What
// begins with "honest" is right.
func slowly(asked *atomic.Int64) func(context.Context, []byte) (string, error) {
	return func(_ context.Context, token []byte) (string, error) {
		asked.Add(1)
		time.Sleep(100 * time.Millisecond)
		if strings.HasPrefix(string(token), "honest") {
			return string(token), nil
		}
		return "", errors.New("nobody knows this token")
	}
}

// TestGuessesThatDoNotWait: a guess counts even if its client leaves before the
// answer, and a second login does not reveal which of the guesses was right.
func TestGuessesThatDoNotWait(t *testing.T) {
	var asked atomic.Int64
	inNet(t, 0, Config{Authenticate: slowly(&asked)}, func(n *network) {
		try := func(i int, patience time.Duration) error {
			token := fmt.Sprint("guess ", i)
			if i == 3 {
				token = "honest"
			}
			near, far := linktest.Pipe()
			if _, err := n.server.Attach(from{plug{far}, host("192.0.2.1")}); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := newTestWorld(t, Config{Token: []byte(token)}).Connect(ctx, plug{near})
			return err
		}
		for i := range 100 {
			require.Error(t, try(i, 20*time.Millisecond))
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, asked.Load(), int64(16))
		require.EqualValues(t, asked.Load()-1, n.server.HandshakeStats().LoginsFailed, "each but the right one")
		before := asked.Load()
		for i := range 100 {
			require.Error(t, try(i, time.Second), "guess %d", i)
		}
		require.LessOrEqual(t, asked.Load(), before+1)
	})
}

// TestLoginsAtOnce: of very many guesses at once, Authenticate is asked about
// no more than may fail. A party of players joins a few at a time.
func TestLoginsAtOnce(t *testing.T) {
	for _, row := range []struct {
		token  string
		asked  int64
		passed int
	}{
		{"guess", 8, 0},
		{"honest", 40, 40},
	} {
		var asked atomic.Int64
		inNet(t, 0, Config{Authenticate: slowly(&asked)}, func(n *network) {
			clients := make([]*testWorld, 40)
			came := make(chan error, len(clients))
			for i := range clients {
				clients[i] = newTestWorld(t, Config{Token: fmt.Append(nil, row.token, i)})
				go func() {
					_, err := n.connectFrom(host("192.0.2.1"), clients[i])
					came <- err
				}()
			}
			passed := 0
			for range clients {
				if <-came == nil {
					passed++
				}
			}
			require.Equal(t, row.asked, asked.Load())
			require.Equal(t, row.passed, passed)
			depart(t, clients...)
		})
	}
}

// TestLoginThatWaitsForItsTurnLeaves: a client that leaves while its login
// waits for its turn delays no other, and nothing of it remains.
func TestLoginThatWaitsForItsTurnLeaves(t *testing.T) {
	var asked atomic.Int64
	inNet(t, 0, Config{Authenticate: slowly(&asked), MaxLoginFailures: 1}, func(n *network) {
		first := n.muteFrom(host("192.0.2.1"))
		second := n.muteFrom(host("192.0.2.1"))
		require.EqualValues(t, 1, asked.Load())
		second.link.Abort(0, "leaves")
		<-second.link.Done()
		synctest.Wait()
		require.Equal(t, 1, n.server.HandshakeStats().Open)
		<-first.link.Done()
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load())
		require.Zero(t, n.server.HandshakeStats().Open)
	})
}

// TestConnsOfAnIdentity: a player whose game has crashed can return at once.
func TestConnsOfAnIdentity(t *testing.T) {
	authenticate := func(_ context.Context, token []byte) (string, error) { return string(token), nil }
	var order []string
	config := Config{
		Authenticate:        authenticate,
		MaxConnsPerIdentity: 1,
		OnConnect:           func(_ *World, c *Conn) { order = append(order, fmt.Sprint("+", c.id)) },
		OnDisconnect: func(_ *World, c *Conn, err error) {
			order = append(order, fmt.Sprint("-", c.id))
			var closed *CloseError
			if errors.As(err, &closed) && closed.Code == LoginElsewhere {
				order = append(order, closed.Reason)
			}
		},
	}
	const reason = `"ann" logged in from elsewhere; Config.MaxConnsPerIdentity is 1`
	connect := func(n *network, name string) (*testWorld, *Conn) {
		w := newTestWorld(t, Config{Token: []byte(name)})
		c, err := n.connect(w)
		require.NoError(t, err)
		return w, c
	}
	t.Run("replaced", func(t *testing.T) {
		order = nil
		synctest.Test(t, func(t *testing.T) {
			world, err := NewWorld(config)
			require.NoError(t, err)
			n := &network{t: t, server: &testWorld{World: world}}
			Bind(world, hero, n.server.construct)
			_, first := connect(n, "ann")
			n.tick(3)
			connect(n, "bob")
			connect(n, "ann")
			n.tick(3)
			require.Equal(t, []string{"+1", "+2", "-1", reason, "+3"}, order)
			require.EqualError(t, first.Err(), "rpc: connection closed by the peer: LoginElsewhere: "+reason)

			t.Log("# twice before the world looks")
			order = nil
			connect(n, "ann")
			connect(n, "ann")
			time.Sleep(time.Second)
			n.tick(3)
			require.Equal(t, []string{"-3", reason, "+4", "-4", reason, "+5"}, order)
			require.Len(t, n.server.Conns(), 2)
			n.close()
			for _, identity := range []string{"ann", "bob"} {
				world.lobby.mu.Lock()
				_, others, _ := world.lobby.door.Claims.Claim(identity, new(Conn))
				world.lobby.mu.Unlock()
				require.Zero(t, others)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		refuse := config
		refuse.RefuseLoginElsewhere = true
		refuse.OnConnect, refuse.OnDisconnect = nil, nil
		inNet(t, 0, refuse, func(n *network) {
			connect(n, "ann")
			connect(n, "bob")
			n.tick(3)
			_, err := n.connect(newTestWorld(t, Config{Token: []byte("ann")}))
			require.EqualError(t, err, `rpc: connection closed by the peer: LoginElsewhere: "ann" has reached its limit of connections, 1 (Config.MaxConnsPerIdentity)`)
			n.ends[0].Close(0, "goes")
			n.tick(3)
			connect(n, "ann")
			n.tick(3)
			require.Len(t, n.server.Conns(), 2)
		})
	})
}

// TestLoginsOfAnIdentityAtOnce: of any number of logins in the same instant one connection remains.
func TestLoginsOfAnIdentityAtOnce(t *testing.T) {
	authenticate := func(_ context.Context, token []byte) (string, error) { return string(token), nil }
	inNet(t, 0, Config{Authenticate: authenticate, MaxConnsPerIdentity: 1}, func(n *network) {
		clients := make([]*testWorld, 20)
		came := make(chan error, len(clients))
		for i := range clients {
			clients[i] = newTestWorld(t, Config{Token: []byte("ann")})
			go func() {
				_, err := n.connectFrom(host("192.0.2.1"), clients[i])
				came <- err
			}()
		}
		for range clients {
			<-came
		}
		n.tick(60) // a close waits for its reason to arrive
		require.Len(t, n.server.Conns(), 1)
		require.Len(t, n.server.left, len(n.server.joined)-1)
		depart(t, clients...)
	})
}

// TestReplacedConnectionLeavesFirst: a replaced connection leaves first, even if calls of it
// wait for their turn. Like those of any connection that this side has closed, they do not run.
func TestReplacedConnectionLeavesFirst(t *testing.T) {
	config := Config{
		Authenticate:        func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		MaxConnsPerIdentity: 1,
		DispatchTime:        time.Millisecond,
	}
	inNet(t, 0, config, func(n *network) {
		var order []string
		n.server.onFire = func(call *Call, _ shot) {
			time.Sleep(10 * time.Millisecond)
			order = append(order, fmt.Sprint(call.Conn.id))
		}
		n.join(Config{Token: []byte("ann")})
		n.join(Config{Token: []byte("bob")})
		n.server.OnConnect(func(c *Conn) { order = append(order, fmt.Sprint("+", c.id)) })
		n.server.OnDisconnect(func(c *Conn, _ error) { order = append(order, fmt.Sprint("-", c.id)) })
		for i := range 2 {
			mirror := n.mirror(i, n.spawn(i))
			for range 3 {
				require.NoError(t, fire.Call(mirror, shot{1}))
			}
			n.clients[i].Tick(time.Now())
		}
		time.Sleep(100 * time.Millisecond)
		n.server.Tick(time.Now())
		_, err := n.connect(newTestWorld(t, Config{Token: []byte("ann")}))
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		order = nil
		n.tick(20)
		require.NotContains(t, order, "1")
		require.Less(t, slices.Index(order, "-1"), slices.Index(order, "+3"), order)
		require.Contains(t, order, "-1")
	})
}

// TestConnThatHasNoLinkYetMakesNoRoom: another client arrives while Attach is
// still making the connection.
func TestConnThatHasNoLinkYetMakesNoRoom(t *testing.T) {
	inNet(t, 0, Config{MaxHandshakes: 1}, func(n *network) {
		_, far := linktest.Pipe()
		c := &Conn{world: n.server.World, server: true, carrier: carrierAdapter{from{plug{far}, host("192.0.2.1")}}}
		_, refused := n.server.lobby.enlist(c, c.origin(), nil)
		require.Nil(t, refused)
		_, err := n.connectFrom(host("192.0.2.2"), newTestWorld(t, Config{}))
		require.ErrorContains(t, err, "ServerBusy: handshake limit of 1 reached (Config.MaxHandshakes)")
		n.server.lobby.leave(c.entry.slot)
		n.server.lobby.attaching.Done()
	})
}

// TestOpenForgetsForgedPackets: after a flood of forged first packets,
// HandshakeStats.Open no longer counts them, even if no other client has arrived since.
func TestOpenForgetsForgedPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t, Config{})
		v, _, full := w.lobby.door.Arrive(netip.MustParsePrefix("192.0.2.1/32"), false, time.Now())
		require.Nil(t, full)
		w.lobby.leave(v)
		require.Equal(t, 1, w.HandshakeStats().Open)
		time.Sleep(time.Second) // the least that a forged packet keeps its place
		require.Zero(t, w.HandshakeStats().Open)
	})
}

// TestIdentityLeavesSeats: carriers without an address know no limit by address, and stand for an
// account with many addresses. However often it joins, MaxConnsPerIdentity leaves the other seats
// to others; without it, the account has all of them.
func TestIdentityLeavesSeats(t *testing.T) {
	join := func(limit int) (ann int, bob error) {
		synctest.Test(t, func(t *testing.T) {
			world := newTestWorld(t, Config{
				Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
				MaxConns:     4, MaxConnsPerIdentity: limit,
			})
			n := &network{t: t, server: world}
			for range 8 {
				_, _ = n.connect(newTestWorld(t, Config{Token: []byte("ann")}))
				time.Sleep(2 * time.Second) // until replaced connections have ended
				n.tick(3)
			}
			_, bob = n.connect(newTestWorld(t, Config{Token: []byte("bob")}))
			n.tick(3)
			for _, c := range world.Conns() {
				if c.Identity() == "ann" {
					ann++
				}
			}
			n.close()
		})
		return ann, bob
	}
	ann, bob := join(2)
	require.Equal(t, 2, ann)
	require.NoError(t, bob)
	ann, bob = join(0)
	require.Equal(t, 4, ann)
	require.ErrorContains(t, bob, "connection limit of 4 reached (Config.MaxConns)")
}
