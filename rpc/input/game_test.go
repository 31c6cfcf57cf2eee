package input_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/input"
	"github.com/quivernet/quiver/rpc/rpctest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// step is a walker's input. It knows its tick, so that the server can tell that
// it was applied then.
type step struct {
	Tick uint64
	X, Y int8
}

// kind is a class of walkers whose game has so many ticks a second.
type kind struct {
	rate  int
	class *rpc.Class
	steps *input.Handle[step]
}

func newKind(name string, rate int) kind {
	class := rpc.NewClass(name)
	return kind{rate, class, input.New[step](class, "Step", rate)}
}

var (
	walkers30 = newKind("Walker30", 30)
	walkers60 = newKind("Walker60", 60)
)

// walker is the object of a walker on either side.
type walker struct {
	actor *rpc.Actor
	queue input.Queue[step]      // at the server
	steps *input.Predictor[step] // at the client that owns it

	way    int    // the sum of all steps that were applied or predicted
	ticks  []bool // at the server: of each, whether its input was there
	last   step   // at the server: the newest that was applied; at a client: the newest that was predicted
	begins time.Time
}

// game is a server and its clients. Worlds are driven at the network's rate;
// the server simulates what is due, and each client every so many frames.
type game struct {
	t       *testing.T
	net     *rpctest.Network
	kind    kind
	server  *rpc.World
	served  *rpc.Binding[*walker]
	clients []*client
	began   time.Time
	tick    uint64
	halted  func(now time.Time) bool // the server does not simulate now, and catches up later
	most    uint64                   // how many ticks the server simulates in a frame at most; 0: all that are due
}

type client struct {
	conn   *rpc.Conn
	world  *rpc.World
	bound  *rpc.Binding[*walker]
	self   *walker
	frames int // of the network, to one of its own
	count  int
}

func newGame(t *testing.T, net *rpctest.Network, k kind) *game {
	g := &game{t: t, net: net, kind: k}
	net.SetTickRate(k.rate)
	g.server, g.served = g.world(rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { _, _, _ = rpc.Spawn(g.served, c, nil) }}, nil)
	net.Server(g.server)
	g.began = time.Now()
	net.OnTick(g.simulate)
	return g
}

// world binds both sides: the lines are the same.
func (g *game) world(config rpc.Config, c *client) (*rpc.World, *rpc.Binding[*walker]) {
	w, err := rpc.NewWorld(config)
	require.NoError(g.t, err)
	b := rpc.Bind(w, g.kind.class, func(a *rpc.Actor) *walker {
		o := &walker{actor: a, begins: time.Now()}
		if c != nil && a.Owned() {
			o.steps = g.kind.steps.Predictor(a)
			c.self = o
		}
		return o
	})
	input.Serve(b, g.kind.steps, func(o *walker) *input.Queue[step] { return &o.queue })
	input.Predict(b, g.kind.steps, func(o *walker) *input.Predictor[step] { return o.steps })
	return w, b
}

// join adds a client with a frame every so many of the network's.
func (g *game) join(frames int) *client {
	c := &client{frames: frames}
	c.world, c.bound = g.world(rpc.Config{}, c)
	g.clients = append(g.clients, c)
	c.conn = g.net.Client(c.world)
	require.True(g.t, g.net.Until(10*time.Second, func() bool { return c.self != nil }))
	return c
}

// standStill has the server neither run nor simulate for a time.
func (g *game) standStill(d time.Duration) {
	g.halted = func(time.Time) bool { return true }
	g.net.Pause(g.server, d)
	g.net.Advance(d)
	g.halted = nil
}

func (g *game) simulate(now time.Time) {
	if g.halted == nil || !g.halted(now) {
		due := uint64(now.Sub(g.began)*time.Duration(g.kind.rate)/time.Second) + 1
		if g.most > 0 {
			due = min(due, g.tick+g.most)
		}
		for g.tick < due {
			g.tick++
			for _, o := range g.served.All() {
				o.simulate(g.t, now, g.tick)
			}
		}
	}
	for _, c := range g.clients {
		if c.count++; c.self != nil && c.count%c.frames == 0 {
			c.predict(now)
		}
	}
}

func (o *walker) simulate(t *testing.T, now time.Time, tick uint64) {
	s, ok := o.queue.Take(now, tick)
	if ok {
		require.Equal(t, tick, s.Tick, "an input is applied at its own tick")
		o.way += int(s.X)
		o.last = s
	}
	o.ticks = append(o.ticks, ok)
}

func (c *client) predict(now time.Time) {
	_ = c.self.steps.Tick(now, func(tick uint64) step { // an error: the connection has ended
		c.self.way++
		c.self.last = step{Tick: tick, X: 1, Y: c.self.last.Y + 1} // no two for one tick are the same
		return c.self.last
	})
}

// served returns the walker of a client at the server.
func (g *game) at(c *client) *walker {
	o, ok := g.served.At(c.self.actor.Ref())
	require.True(g.t, ok)
	return o
}

// figures are those of a stretch of play.
type figures struct {
	settled time.Duration // until the last tick without input of a second that had more than a fifth of such
	missed  float64       // ticks without their input, of a thousand, after settled
	margin  time.Duration // at the server, in the end
	latency time.Duration
}

// play advances for d, and returns what a client had of it.
func (g *game) play(c *client, d time.Duration) (f figures) {
	from := len(g.at(c).ticks)
	g.net.Advance(d)
	return g.figures(c, from)
}

func (g *game) figures(c *client, from int) (f figures) {
	o := g.at(c)
	ticks, last := o.ticks[from:], 0
	for i := 0; i+g.kind.rate <= len(ticks); i++ {
		if missed(ticks[i:i+g.kind.rate])*5 > g.kind.rate {
			last = i + slices.Index(ticks[i:], false)
		}
	}
	for last > 0 && last < len(ticks) && slices.Contains(ticks[last:min(len(ticks), last+g.kind.rate/3)], false) {
		last++
	}
	f.settled = time.Duration(last) * time.Second / time.Duration(g.kind.rate)
	rest := ticks[last:]
	f.missed = 1000 * float64(missed(rest)) / float64(len(rest))
	f.margin, f.latency = o.queue.Stats().Margin, c.self.steps.Stats().Latency
	return f
}

func missed(ticks []bool) (n int) {
	for _, ok := range ticks {
		if !ok {
			n++
		}
	}
	return n
}

func lag(rtt time.Duration) emulation.Settings { return emulation.Settings{PktLag: rtt / 2} }
