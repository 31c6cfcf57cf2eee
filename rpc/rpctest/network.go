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

// profile returns a profile. It must exist.
func profile(name string) emulation.Settings {
	e, err := emulation.Profile(name)
	if err != nil {
		panic(err)
	}
	return e
}

const (
	// defaultTickRate is the usual number of ticks a second of a game server.
	defaultTickRate = 30

	// joinTime is how long a client may take to join.
	joinTime = 30 * time.Second

	// mostIdle is how long a network may go without a tick. Without this limit, a test that
	// waits for something that only a tick does would wait forever, because timers keep
	// virtual time going. In real time it would wait for minutes, until go test ends it.
	mostIdle = time.Hour

	// forever is longer than any test.
	forever = math.MaxInt64 * time.Nanosecond
)

// A Network is a server and its clients, connected by emulated paths. Its methods must be
// called on the goroutine of the test.
type Network struct {
	t        testing.TB
	seed     uint64
	profile  emulation.Settings
	interval time.Duration // time between two ticks
	began    time.Time
	next     time.Time // beginning of the next tick
	onTick   []func(now time.Time)
	driving  bool                     // a world is being driven, so handlers must not tick the network
	paused   map[*rpc.World]time.Time // end of each pause
	idle     *time.Timer              // calls stuck after mostIdle without a tick

	server  *rpc.World
	ended   []*rpc.World // earlier servers, which are closed
	hub     *hub
	clients []*client

	// The worlds of the clients. A world that joins again is here
	// only once, so it is driven once a tick.
	worlds []*rpc.World
}

// A client is a client's connection and its path to the server.
type client struct {
	world *rpc.World
	conn  *rpc.Conn // nil until it has joined
	path  *path
}

// Run calls fn in the virtual time of a synctest bubble, and then ends all connections.
//
// In fn, use the t that fn is passed. The Context of the surrounding test does not belong to the
// bubble, and ends the program with "close of synctest channel from outside bubble". A test that
// leaves a goroutine behind panics at its end, because a bubble cannot end in any other way.
//
// Run draws a new seed each time, and logs it if the test fails. The environment variable
// QUIVER_SEED sets the seed instead. Go's test cache does not know about seeds. go test runs
// a test that passed again only with -count, such as -count=20.
func Run(t *testing.T, profile emulation.Settings, fn func(t *testing.T, n *Network)) {
	t.Helper()
	seed := drawSeed(t)
	enterAlone()
	defer leaveAlone()
	defer tellSeed(t.Name(), seed) // in case a goroutine is left
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("repeat with QUIVER_SEED=%d", seed)
			}
		})
		defer tellSeed(t.Name(), seed)
		n := &Network{
			t:       t,
			seed:    seed,
			profile: profile,
			began:   time.Now(),
			next:    time.Now(),
			hub:     newHub(),
			paused:  make(map[*rpc.World]time.Time),
		}
		n.SetTickRate(defaultTickRate)
		n.idle = time.AfterFunc(mostIdle, n.stuck)
		defer n.close()
		fn(t, n)
	})
}

// stuck panics. The goroutine of the test is waiting, so there is no other way to end the test.
func (n *Network) stuck() {
	panic(fmt.Sprintf("rpctest: %s: no tick for %v of virtual time: does the test wait, on a channel perhaps, for what only a tick does? "+
		"Wait with Network.Until, or on a goroutine of its own while the test advances", n.t.Name(), mostIdle))
}

// tellSeed is deferred. It prints the seed of a test that panics, because the panic ends the
// program before the test's log is printed.
func tellSeed(test string, seed uint64) {
	if recovered := recover(); recovered != nil {
		fmt.Fprintf(os.Stderr, "%s: repeat with QUIVER_SEED=%d\n", test, seed)
		panic(recovered)
	}
}

// drawSeed returns QUIVER_SEED if it is set, otherwise a random seed.
func drawSeed(t testing.TB) uint64 {
	text := os.Getenv("QUIVER_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("QUIVER_SEED is %q, not a number", text)
	}
	return seed
}

// Seed returns the seed that determines what happens to each packet. A game that draws
// random numbers should also draw them from this seed.
func (n *Network) Seed() uint64 { return n.seed }

// SetTickRate sets the number of ticks per second of the worlds. It is at least 1.
func (n *Network) SetTickRate(hz int) { n.interval = time.Second / time.Duration(max(1, hz)) }

// OnTick adds a simulation. fn is called in each tick, after the
// Dispatch and before the Flush of all worlds.
func (n *Network) OnTick(fn func(now time.Time)) { n.onTick = append(n.onTick, fn) }

// Server makes w the server and returns it. A network has one server,
// and needs it before the first client.
//
// After [rpc.World.Close] another world may take the server's place, as if the server had
// restarted. Clients join it by Client or Join, with their worlds or with new ones. The closed
// world is still driven, so its last functions run. Between the two servers, a Join fails.
func (n *Network) Server(w *rpc.World) *rpc.World {
	n.t.Helper()
	if n.server != nil {
		if !bell.Closed(extend.Closed(n.server)) {
			n.t.Fatal("rpctest: the network has a server already, and its World.Close was not called")
		}
		n.ended = append(n.ended, n.server)
	}
	n.server = w
	extend.Seed(w, n.seed+uint64(len(n.ended))) // a second server must not draw the same numbers as the first
	return w
}

// Client connects w to the server and returns its connection. It ticks until w has
// joined and the server's OnConnect has run. It fails the test if the server
// refuses w, or if joining takes longer than 30 s.
func (n *Network) Client(w *rpc.World) *rpc.Conn {
	n.t.Helper()
	conn, err := n.Join(w)
	if err != nil {
		n.t.Fatalf("rpctest: client %d did not join: %v", len(n.clients), err)
	}
	return conn
}

// Join is like Client, for a test in which the server may refuse w. It returns that error.
func (n *Network) Join(w *rpc.World) (*rpc.Conn, error) {
	n.t.Helper()
	if n.server == nil {
		n.t.Fatal("rpctest: a client before the server")
	}
	p, err := n.hub.join(n.profile, n.seedOf(len(n.clients)))
	if err != nil {
		n.t.Fatal(err)
	}
	c := &client{world: w, path: p}
	extend.Seed(w, n.seedOf(len(n.clients)))
	n.clients = append(n.clients, c)
	if !slices.Contains(n.worlds, w) {
		n.worlds = append(n.worlds, w)
	}
	if _, err := n.server.Attach(p.far); err != nil {
		return nil, told(err)
	}
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
		n.Until(joinTime, func() bool { return n.knows(p.addr) || c.conn.Err() != nil })
	}
	return c.conn, failed
}

// told returns the error that a client gets when the server refuses it with err.
func told(err error) error {
	if closed, ok := errors.AsType[*rpc.CloseError](err); ok {
		return &rpc.CloseError{Code: closed.Code, Reason: closed.Reason, Remote: true}
	}
	return err
}

// knows reports whether a connection from an address is among the server's Conns.
func (n *Network) knows(addr net.Addr) bool {
	return slices.ContainsFunc(n.server.Conns(), func(c *rpc.Conn) bool { return c.RemoteAddr() == addr })
}

// seedOf returns the seed of a client's path. It depends only on the
// network's seed and the number of the client.
func (n *Network) seedOf(client int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, n.seed, client)
	return h.Sum64()
}

// Advance ticks all worlds for the duration d.
func (n *Network) Advance(d time.Duration) {
	for end := time.Now().Add(d); n.next.Before(end); {
		n.tick()
	}
}

// Until ticks until done returns true, for at most limit. It reports whether done returned true.
func (n *Network) Until(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); n.tick() {
		if !time.Now().Before(end) {
			return false
		}
	}
	return true
}

// UntilDone is like Until for a channel that is closed when something is done. The channel
// may be that of stream.Transfer.Done or of [rpc.Conn.Done], or one that a goroutine of the
// test closes after a call that blocks.
func (n *Network) UntilDone(limit time.Duration, done <-chan struct{}) bool {
	n.t.Helper()
	return n.Until(limit, func() bool { return bell.Closed(done) })
}

// Elapsed returns the virtual time since Run began.
func (n *Network) Elapsed() time.Duration { return time.Since(n.began) }

// tick waits for the next tick and drives all worlds once, the server first. Before a
// world is driven, it waits until all other goroutines are idle. The outcome
// therefore does not depend on their scheduling.
func (n *Network) tick() {
	n.t.Helper()
	if n.driving {
		n.t.Fatal("rpctest: Client, Join, Advance or Until called from a handler of the game: only the test and OnTick may")
	}
	n.next = n.next.Add(n.interval)
	n.idle.Reset(mostIdle)
	time.Sleep(time.Until(n.next))
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
}

// each calls fn for all worlds, the server's first.
func (n *Network) each(fn func(w *rpc.World)) {
	if n.server == nil {
		return
	}
	n.driving = true
	defer func() { n.driving = false }()
	n.drive(n.server, fn)
	for _, w := range slices.Concat(n.ended, n.worlds) {
		n.drive(w, fn)
	}
}

// drive calls fn for a world that is not paused, and waits until all other goroutines are idle.
func (n *Network) drive(w *rpc.World, fn func(w *rpc.World)) {
	if time.Now().Before(n.paused[w]) {
		return
	}
	fn(w)
	synctest.Wait()
}

// Pause stops driving a world for d from now, as if it were loading a
// level. Its packets are still sent and received.
func (n *Network) Pause(w *rpc.World, d time.Duration) { n.paused[w] = time.Now().Add(d) }

// Crash ends a world as if its process had been killed. The other ends learn of
// the crash by silence, as in [Network.Dark].
//
// Nothing is sent from the world any more, not even a close. It is not driven
// again, so none of its functions runs, not even OnDisconnect. Calls that wait for
// it on goroutines of the game return an error.
//
// A new world may take its place: by Client, with the same Token, or by Server.
func (n *Network) Crash(w *rpc.World) {
	n.t.Helper()
	if w == nil || w != n.server && !slices.Contains(n.worlds, w) {
		n.t.Fatal("rpctest: Crash of a world that is not in this network, or no longer")
	}
	for _, c := range n.clients {
		if c.world == w {
			c.path.near.crash()
		} else if w == n.server {
			c.path.far.crash()
		}
	}
	n.Pause(w, forever)
	_ = w.Close(context.Background(), rpc.ConnectionLost, "it has crashed")
}

// Emulate changes the emulation of all paths, including those of clients that join later.
func (n *Network) Emulate(profile emulation.Settings) {
	n.t.Helper()
	n.profile = profile
	for _, c := range n.clients {
		n.emulate(c, profile, false)
	}
}

// EmulateOne changes the emulation of one client's path, except the server's uplink, which
// other clients share. The settings hold until the next Emulate or EmulateOne.
//
// A Rate limits the client's uplink, and also its downlink after the server's uplink. An
// IncomingRate limits that downlink alone. If both are set, the lower one limits the downlink.
func (n *Network) EmulateOne(conn *rpc.Conn, profile emulation.Settings) {
	n.t.Helper()
	n.emulate(n.find(conn), profile, true)
}

// emulate changes the emulation of a client's path. one means the same as in path.set.
func (n *Network) emulate(c *client, profile emulation.Settings, one bool) {
	n.t.Helper()
	if err := c.path.set(profile, one); err != nil {
		n.t.Fatal(err)
	}
}

// Dark drops all packets from and to a client for d from now.
func (n *Network) Dark(conn *rpc.Conn, d time.Duration) {
	n.t.Helper()
	n.find(conn).path.dark(d)
}

// find returns the client of a connection. conn may be the connection of either end.
func (n *Network) find(conn *rpc.Conn) *client {
	n.t.Helper()
	if conn == nil {
		n.t.Fatal("rpctest: a nil connection: Client and Join return those of the network, " +
			"Join none when the server refused the client")
	}
	for _, c := range n.clients {
		if c.conn == conn || c.path.addr.String() == fmt.Sprint(conn.RemoteAddr()) {
			return c
		}
	}
	n.t.Fatalf("rpctest: %v is no connection of this network", conn)
	return nil
}

// close ends all connections, over paths without emulation. It then
// ticks once, so that the worlds learn of it.
func (n *Network) close() {
	n.onTick = nil // the simulation has ended
	for _, c := range n.clients {
		_ = c.path.set(emulation.Settings{}, false)
	}
	ctx := context.Background()
	for _, w := range n.worlds {
		_ = w.Close(ctx, rpc.HostClosedConnection, "the test is over")
	}
	if n.server != nil { // the test closed earlier servers
		_ = n.server.Close(ctx, rpc.HostClosedConnection, "the test is over")
	}
	n.tick()
	n.idle.Stop()
}
