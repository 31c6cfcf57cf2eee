package rpctest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
)

// The profiles of UE's packet emulation. They apply in each direction.
var (
	Off     = profile("Off")
	Average = profile("Average") // 1 % loss, 30 to 60 ms
	Bad     = profile("Bad")     // 5 % loss, 100 to 200 ms
)

// profile returns the profile with a name, which must exist.
func profile(name string) emulation.Settings {
	e, err := emulation.Profile(name)
	if err != nil {
		panic(err)
	}
	return e
}

const (
	// defaultTickRate is the usual number of ticks per second of a game server.
	defaultTickRate = 30

	// maxTickRate is the highest number of ticks per second.
	maxTickRate = 1000

	// joinTime is the maximum time that a client may take to join.
	joinTime = 30 * time.Second

	// maxIdle is the maximum time that a network may go without a tick. Without it, a test that
	// waits for something that only a tick does would never end, since timers keep virtual time
	// going. It would run for minutes of real time, until go test gives up on it.
	maxIdle = time.Hour

	// lastTime is how long we go on driving a world after it was closed, so that its last
	// functions run.
	lastTime = time.Minute

	// forever is longer than any test.
	forever = math.MaxInt64 * time.Nanosecond
)

// A Network simulates a server and its clients in virtual time, connected by emulated paths. Its
// methods must be called on the goroutine of the test.
type Network struct {
	t        testing.TB
	seed     uint64
	profile  emulation.Settings
	interval time.Duration // time between two ticks
	start    time.Time
	nextTick time.Time // beginning of the next tick
	onTick   []func(now time.Time)
	driving  bool                     // while a world is driven, handlers must not tick the network
	paused   map[*rpc.World]time.Time // end of each pause
	idle     *time.Timer              // calls failIdle after maxIdle without a tick

	server  *rpc.World
	servers int // number of servers so far
	hub     *hub
	clients []*client // clients whose paths have not ended
	joins   int       // number of clients so far

	// Earlier servers, and the worlds of the clients. A world that has joined again is listed only
	// once. A world is removed lastTime after it was closed.
	worlds []*rpc.World
	closed map[*rpc.World]time.Time // when we saw that they were closed
}

// A client is one connection to the server, with the path that it takes.
type client struct {
	world *rpc.World
	conn  *rpc.Conn // nil until it has joined
	path  *path
}

// Run calls fn in the virtual time of a synctest bubble, and then ends all connections.
//
// In fn, use the t that fn is passed. The Context of the surrounding test does not belong to the
// bubble, and using it ends the program with "close of synctest channel from outside bubble". A
// test that leaves a goroutine behind panics at its end, because a bubble cannot end in any other
// way.
//
// Run draws a new seed each time, and logs it if the test fails. The environment variable
// QUIVER_SEED sets the seed instead. Go's test cache does not know about seeds. To repeat a test
// that has passed, give go test a -count, such as -count=20.
func Run(t *testing.T, profile emulation.Settings, fn func(t *testing.T, n *Network)) {
	t.Helper()
	seed := drawSeed(t)
	enterAlone()
	defer leaveAlone()
	defer tellSeed(t.Name(), seed) // in case synctest panics because a goroutine is left
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("repeat with QUIVER_SEED=%d", seed)
			}
		})
		defer tellSeed(t.Name(), seed)
		n := &Network{
			t:        t,
			seed:     seed,
			profile:  profile,
			start:    time.Now(),
			nextTick: time.Now(),
			hub:      newHub(),
			paused:   make(map[*rpc.World]time.Time),
			closed:   make(map[*rpc.World]time.Time),
		}
		n.SetTickRate(defaultTickRate)
		n.idle = time.AfterFunc(maxIdle, n.failIdle)
		defer n.close()
		fn(t, n)
	})
}

// failIdle ends the test when there was no tick for maxIdle. It can only do so by a panic, because
// the test's own goroutine is waiting for something.
func (n *Network) failIdle() {
	panic(fmt.Sprintf("rpctest: %s: no tick for %v of virtual time: the test may be waiting for something that takes a tick; "+
		"wait with Network.Until, or on another goroutine while the test advances", n.t.Name(), maxIdle))
}

// tellSeed prints the seed if the test panics, since the panic ends the program before the
// test's log gets printed. It must be deferred.
func tellSeed(test string, seed uint64) {
	if recovered := recover(); recovered != nil {
		fmt.Fprintf(os.Stderr, "%s: repeat with QUIVER_SEED=%d\n", test, seed)
		panic(recovered)
	}
}

// drawSeed returns QUIVER_SEED if that is set, and a random seed otherwise.
func drawSeed(t testing.TB) uint64 {
	text := os.Getenv("QUIVER_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("QUIVER_SEED is %q; it must be a number", text)
	}
	return seed
}

// Seed returns the seed that determines what happens to each packet. A game that draws
// random numbers should also draw them from this seed.
func (n *Network) Seed() uint64 { return n.seed }

// SetTickRate sets the number of ticks per second, from 1 to 1,000.
func (n *Network) SetTickRate(hz int) {
	n.t.Helper()
	if hz < 1 || hz > maxTickRate {
		n.t.Fatalf("rpctest: SetTickRate(%d): the rate must be 1 to %d", hz, maxTickRate)
	}
	n.interval = time.Second / time.Duration(hz)
}

// OnTick adds a simulation. fn is called in each tick, after the Dispatch of all worlds and before
// their Flush, even if worlds are paused or have crashed. A simulation that should stop with its
// world belongs in [rpc.World.OnTick].
func (n *Network) OnTick(fn func(now time.Time)) { n.onTick = append(n.onTick, fn) }

// Server makes w the server and returns it. A network has one server, which must be set before the
// first client is added.
//
// After [rpc.World.Close] another world may take the server's place, as if the server had
// restarted. Clients join the new server by Client or Join, with their old worlds or with new ones.
// The closed world is driven for one more minute so that its last functions run. While there is no
// server, Join fails.
func (n *Network) Server(w *rpc.World) *rpc.World {
	n.t.Helper()
	if n.server != nil {
		if !bell.Closed(extend.Closed(n.server)) {
			n.t.Fatal("rpctest: the network already has a server: close its world first")
		}
		n.worlds = append(n.worlds, n.server)
	}
	n.server = w
	// A second server must not draw the same numbers as the first.
	extend.Seed(w, n.seed+uint64(n.servers))
	n.servers++
	return w
}

// Client connects w to the server and returns its connection. It ticks until w has joined and
// the server's OnConnect has run. It fails the test if the server refuses w, or if joining takes
// longer than 30 s.
func (n *Network) Client(w *rpc.World) *rpc.Conn {
	n.t.Helper()
	conn, err := n.Join(w)
	if err != nil {
		n.t.Fatalf("rpctest: client %d did not join: %v", n.joins, err)
	}
	return conn
}

// Join is like Client, but returns an error if the server refuses w.
func (n *Network) Join(w *rpc.World) (*rpc.Conn, error) {
	n.t.Helper()
	if n.server == nil {
		n.t.Fatal("rpctest: client added before the server")
	}
	seed := n.seedOf(n.joins)
	p, err := n.hub.join(n.profile, seed)
	if err != nil {
		n.t.Fatal(err)
	}
	c := &client{world: w, path: p}
	extend.Seed(w, seed)
	n.clients = append(n.clients, c)
	n.joins++
	if !slices.Contains(n.worlds, w) {
		n.worlds = append(n.worlds, w)
	}
	if _, err := n.server.Attach(p.far); err != nil {
		return nil, remoteError(err)
	}

	// Connect blocks while the handshake needs ticks, so call it on a goroutine of its own.
	ctx, cancel := context.WithTimeout(context.Background(), joinTime)
	defer cancel()
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.conn, failed = w.Connect(ctx, p.near)
	}()
	for !bell.Closed(done) {
		n.tick()
	}
	if failed == nil {
		n.Until(joinTime, func() bool { return n.serverHas(p.addr) || c.conn.Err() != nil })
	}
	return c.conn, failed
}

// remoteError returns the error that a client sees if the server has refused it with err.
func remoteError(err error) error {
	if closed, ok := errors.AsType[*rpc.CloseError](err); ok {
		return &rpc.CloseError{Code: closed.Code, Reason: closed.Reason, Remote: true}
	}
	return err
}

// serverHas reports whether the server's Conns include one from an address.
func (n *Network) serverHas(addr net.Addr) bool {
	return slices.ContainsFunc(n.server.Conns(), func(c *rpc.Conn) bool { return c.RemoteAddr() == addr })
}

// seedOf returns the seed of a client's path and world, which depends only on the network's seed
// and the number of the client.
func (n *Network) seedOf(client int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, n.seed, client)
	return h.Sum64()
}

// Advance ticks all worlds for the duration d.
func (n *Network) Advance(d time.Duration) {
	for end := time.Now().Add(d); n.nextTick.Before(end); {
		n.tick()
	}
}

// Until ticks until done returns true or limit has passed. It returns false in the latter case.
func (n *Network) Until(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); n.tick() {
		if !time.Now().Before(end) {
			return false
		}
	}
	return true
}

// UntilDone is like Until, but ticks until a channel is closed. This may be the channel of
// stream.Transfer.Done or [rpc.Conn.Done], or one that a goroutine of the test closes after a call
// that blocks.
func (n *Network) UntilDone(limit time.Duration, done <-chan struct{}) bool {
	n.t.Helper()
	return n.Until(limit, func() bool { return bell.Closed(done) })
}

// Elapsed returns the virtual time since Run began.
func (n *Network) Elapsed() time.Duration { return time.Since(n.start) }

// tick waits for the next tick and drives all worlds once, the server first. It lets all other
// goroutines come to rest before it drives a world, so that the outcome doesn't depend on how
// they are scheduled.
func (n *Network) tick() {
	n.t.Helper()
	if n.driving {
		n.t.Fatal("rpctest: Client, Join, Advance or Until called from a handler of the game: call them from the test or OnTick")
	}
	n.nextTick = n.nextTick.Add(n.interval)
	n.idle.Reset(maxIdle)
	time.Sleep(time.Until(n.nextTick))
	synctest.Wait()
	now := time.Now()
	goroutine := driver.Goroutine()
	n.each(func(w *rpc.World) {
		extend.DrivenBy(w, goroutine)
		w.Dispatch(now)
	})
	for _, fn := range n.onTick {
		fn(now)
	}
	n.each(func(w *rpc.World) { w.Flush(now) })
	n.forget(now)
}

// forget removes clients and worlds that have ended, so that a long test needs no more memory than
// a short one.
func (n *Network) forget(now time.Time) {
	n.clients = slices.DeleteFunc(n.clients, func(c *client) bool { return c.path.isOver() })
	n.worlds = slices.DeleteFunc(n.worlds, func(w *rpc.World) bool {
		if !bell.Closed(extend.Closed(w)) {
			return false
		}
		if _, known := n.closed[w]; !known {
			n.closed[w] = now
		}
		over := now.Sub(n.closed[w]) >= lastTime
		if over {
			delete(n.closed, w)
			delete(n.paused, w)
		}
		return over
	})
}

// each calls fn for all worlds, the server first.
func (n *Network) each(fn func(w *rpc.World)) {
	if n.server == nil {
		return
	}
	n.driving = true
	defer func() { n.driving = false }()
	n.drive(n.server, fn)
	for _, w := range n.worlds {
		n.drive(w, fn)
	}
}

// drive calls fn for a world unless it is paused, and then lets all other goroutines come to
// rest.
func (n *Network) drive(w *rpc.World, fn func(w *rpc.World)) {
	if time.Now().Before(n.paused[w]) {
		return
	}
	fn(w)
	synctest.Wait()
}

// Pause stops driving a world for d from now, as if it were loading a level. Its packets are
// still sent and received.
func (n *Network) Pause(w *rpc.World, d time.Duration) { n.paused[w] = time.Now().Add(d) }

// Crash ends a world as if its process had been killed. The other ends only notice that it has
// fallen silent, as in [Network.Dark], because the world sends nothing more, not even a close.
//
// The world isn't driven again either, so none of its functions runs, not even OnDisconnect.
// Calls that wait for it on goroutines of the game return an error.
//
// A new world may take its place, by Client with the same Token, or by Server.
func (n *Network) Crash(w *rpc.World) {
	n.t.Helper()
	if w == nil || w != n.server && !slices.Contains(n.worlds, w) {
		n.t.Fatal("rpctest: Crash of a world that is not in this network")
	}
	for _, c := range n.clients {
		if c.world == w {
			c.path.near.crash()
		} else if w == n.server {
			c.path.far.crash()
		}
	}
	n.Pause(w, forever)

	// The peers don't hear of this, but it ends the calls that are waiting for the world.
	_ = w.Close(context.Background(), rpc.ConnectionLost, "it has crashed")
}

// Emulate changes the emulation of all paths, including those of clients that join later.
func (n *Network) Emulate(profile emulation.Settings) {
	n.t.Helper()
	n.profile = profile
	for _, c := range n.clients {
		n.emulate(c, profile, wholePath)
	}
}

// EmulateOne changes the emulation of one client's path, but not of the server's uplink, which
// the other clients share. The settings hold until the next Emulate or EmulateOne.
//
// A Rate limits the client's uplink, and also its downlink, which comes after the server's uplink.
// An IncomingRate limits that downlink alone. If both are set, the lower one limits the downlink.
//
// EmulateOne does nothing if the connection has ended at both ends.
func (n *Network) EmulateOne(conn *rpc.Conn, profile emulation.Settings) {
	n.t.Helper()
	if c := n.find(conn); c != nil {
		n.emulate(c, profile, clientsOwn)
	}
}

// emulate changes the emulation of a client's path.
func (n *Network) emulate(c *client, profile emulation.Settings, of scope) {
	n.t.Helper()
	if err := c.path.setProfile(profile, of); err != nil {
		n.t.Fatal(err)
	}
}

// Dark drops all packets from and to a client for d from now. It does nothing if the connection
// has ended at both ends.
func (n *Network) Dark(conn *rpc.Conn, d time.Duration) {
	n.t.Helper()
	if c := n.find(conn); c != nil {
		c.path.dark(d)
	}
}

// find returns the client of a connection, or nil if the connection has ended at both ends. conn
// may be the client's connection or the server's.
func (n *Network) find(conn *rpc.Conn) *client {
	n.t.Helper()
	if conn == nil {
		n.t.Fatal("rpctest: nil connection: use one that Client or Join returned")
	}
	for _, c := range n.clients {
		if c.conn == conn || c.path.addr.String() == fmt.Sprint(conn.RemoteAddr()) {
			return c
		}
	}
	if conn.Err() == nil {
		n.t.Fatalf("rpctest: %v is not a connection of this network", conn)
	}
	return nil
}

// close ends all connections, and then ticks once so that the worlds learn of it.
func (n *Network) close() {
	n.onTick = nil

	// Don't let bad paths delay the end.
	for _, c := range n.clients {
		_ = c.path.setProfile(emulation.Settings{}, wholePath)
	}
	ctx := context.Background()
	for _, w := range n.worlds { // some are closed already
		_ = w.Close(ctx, rpc.HostClosedConnection, "the test is over")
	}
	if n.server != nil {
		_ = n.server.Close(ctx, rpc.HostClosedConnection, "the test is over")
	}
	n.tick()
	n.idle.Stop()
}
