package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The class whose every function may explode.
var (
	mine  = NewClass("Mine")
	trip  = Server[charge](mine, "Trip", Reliable)
	flash = Client[charge](mine, "Flash", Reliable)
)

// armed names the function that explodes next, once, and explode says how. One
// test uses them at a time; Authenticate has a goroutine of its own.
var (
	fuses   sync.Mutex
	armed   string
	explode func()
)

// arm makes where explode, and returns what was armed before and did not.
func arm(where string) (before string) {
	fuses.Lock()
	defer fuses.Unlock()
	before, armed = armed, where
	return before
}

func fuse(where string) {
	fuses.Lock()
	hit := armed == where
	if hit {
		armed = ""
	}
	fuses.Unlock()
	if hit {
		explode()
	}
}

// charge is an argument and a state with code of its own.
type charge struct{}

func (charge) Validate() error                       { fuse("Validate"); return nil }
func (charge) AppendBinary(b []byte) ([]byte, error) { fuse("AppendBinary"); return append(b, 1), nil }
func (*charge) UnmarshalBinary(payload []byte) error { fuse("UnmarshalBinary"); return nil }
func newMine(w *testWorld, side string) *Binding[*mineObject] {
	b := Bind(w.World, mine, func(*Actor) *mineObject { fuse("constructor " + side); return &mineObject{side} })
	OnClose(b, func(m *mineObject, _ CloseReason) { fuse("OnClose " + m.side) })
	OnTearOff(b, func(m *mineObject) { fuse("OnTearOff " + m.side) })
	OnOwner(b, func(m *mineObject) { fuse("OnOwner " + m.side) })
	On(b, trip, func(*mineObject, *Call, charge) { fuse("handler") })
	Check(b, trip, func(*mineObject, *Call, charge) error { fuse("check"); return nil })
	On(b, flash, func(*mineObject, *Call, charge) { fuse("client handler") })
	return b
}

type mineObject struct{ side string }

// panicScene is a server with two clients. The first one's calls, or something
// that concerns it, explode; the second one is innocent.
type panicScene struct {
	*network
	mines   []*Actor // of the clients
	heroes  []*Actor
	hooks   []int // how often each OnTick hook of the server began
	hears   []string
	escaped int // panics and Goexits that left a Tick
	told    []*Conn
	// functions and stacks are what OnPanic was told with each of told.
	functions, stacks []string
	log               *strings.Builder // errors of all worlds
}

func newPanicScene(t *testing.T, onPanic bool) *panicScene {
	s := &panicScene{network: &network{t: t}, hooks: make([]int, 2), log: new(strings.Builder)}
	tell := func(c *Conn, function string, _ any, stack []byte) {
		s.told, s.functions, s.stacks = append(s.told, c), append(s.functions, function), append(s.stacks, string(stack))
	}
	if !onPanic {
		tell = nil
	}
	s.server = newTestWorld(t, Config{
		OnPanic:      tell,
		Logger:       s.logger(),
		Authenticate: func(context.Context, []byte) (string, error) { fuse("Authenticate"); return "", nil },
		OnConnect:    func(*World, *Conn) { fuse("Config.OnConnect"); s.hears = append(s.hears, "OnConnect") },
		OnDisconnect: func(*World, *Conn, error) { fuse("Config.OnDisconnect"); s.hears = append(s.hears, "OnDisconnect") },
	})
	newMine(s.server, "server")
	for i := range s.hooks {
		s.server.OnTick(func(time.Time) {
			if s.hooks[i]++; i == 0 {
				fuse("OnTick")
			}
		})
	}
	s.server.OnConnect(func(*Conn) { fuse("OnConnect") })
	s.server.OnDisconnect(func(*Conn, error) { fuse("OnDisconnect") })
	s.server.OnConnect(func(*Conn) { s.hears = append(s.hears, "connected") })
	s.server.OnDisconnect(func(*Conn, error) { s.hears = append(s.hears, "disconnected") })
	for range 2 {
		require.NoError(t, s.newcomer(tell))
	}
	s.steps(3)
	s.conns = slices.Clone(s.server.joined)
	for _, c := range s.conns {
		s.mines, s.heroes = append(s.mines, s.spawnNow(mine, c)), append(s.heroes, s.spawnNow(hero, c))
	}
	s.steps(3)
	s.hears = nil
	return s
}

func (s *panicScene) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (s *panicScene) newcomer(onPanic func(*Conn, string, any, []byte)) error {
	w := newTestWorld(s.t, Config{OnPanic: onPanic, Logger: s.logger()})
	newMine(w, "client")
	_, err := s.connect(w)
	return err
}

func (s *panicScene) spawnNow(class *Class, owner *Conn, options ...SpawnOption) *Actor {
	a, err := s.server.Spawn(class, owner, options...)
	require.NoError(s.t, err)
	return a
}

// steps drives all worlds, each on a goroutine of its own, which may not live to tell.
func (s *panicScene) steps(times int) {
	for range times {
		for _, w := range append([]*testWorld{s.server}, s.clients...) {
			over := make(chan bool)
			go func() {
				returned := false
				defer func() {
					_ = recover()
					over <- returned
				}()
				w.Tick(time.Now())
				returned = true
			}()
			if !<-over {
				s.escaped++
			}
		}
		time.Sleep(time.Second / 30)
		synctest.Wait()
	}
}

// end closes what is left; nothing was forgotten.
func (s *panicScene) end() {
	for _, w := range append(s.clients, s.server) {
		require.NoError(s.t, w.Close(context.Background(), 0, "end of test"))
	}
	s.steps(2)
	for _, w := range append(s.clients, s.server) {
		require.Zero(s.t, w.lobby.door.Conns(), "places in MaxConns")
		require.Zero(s.t, w.lobby.memory.Reserved())
		require.Empty(s.t, w.announced)
	}
	require.Len(s.t, s.server.left, len(s.server.joined), "each that joined has left")
	require.Equal(s.t, s.hooks[0], s.hooks[1], "a hook is not passed over because one before it panicked")
}

// explosion is one function that explodes.
type explosion struct {
	name string
	// function is how the log and the close reason call it.
	function string
	// begin starts what leads to the explosion.
	begin func(s *panicScene)
	// blames returns whose call it was, nil for nobody's.
	blames func(s *panicScene) *Conn
	// hears is what the hooks after it hear all the same.
	hears []string
}

func firstConn(s *panicScene) *Conn  { return s.conns[0] }
func firstEnd(s *panicScene) *Conn   { return s.ends[0] }
func lastJoined(s *panicScene) *Conn { return s.server.joined[len(s.server.joined)-1] }
func nobody(*panicScene) *Conn       { return nil }
func callTrip(s *panicScene)         { require.NoError(s.t, trip.Call(s.mirror(0, s.mines[0]), charge{})) }
func callFlash(s *panicScene)        { require.NoError(s.t, flash.Call(s.mines[0], charge{})) }
func leave(s *panicScene)            { time.AfterFunc(testDelay, func() { s.ends[0].Close(0, "leaves") }) }
func post(fn func(s *panicScene)) func(*panicScene) {
	return func(s *panicScene) { s.server.Post(func() { fn(s) }) }
}
func enter(s *panicScene) {
	go func() { _ = s.newcomer(nil) }() // Connect waits for the welcome
	synctest.Wait()
}

var explosions = []explosion{
	{"handler", "Mine.Trip", callTrip, firstConn, nil},
	{"check", "the check of Mine.Trip", callTrip, firstConn, nil},
	{"Validate", "Mine.Trip", callTrip, firstConn, nil},
	{"UnmarshalBinary", "Mine.Trip", callTrip, firstConn, nil},
	{"client handler", "Mine.Flash", callFlash, firstEnd, nil},
	{"constructor client", "the constructor of Mine", func(s *panicScene) { s.spawnNow(mine, s.conns[0]) }, firstEnd, nil},
	{"OnClose client", "OnClose of Mine", func(s *panicScene) { require.NoError(s.t, s.server.Destroy(s.mines[0])) }, firstEnd, nil},
	{"OnTearOff client", "OnTearOff of Mine", func(s *panicScene) { require.NoError(s.t, s.mines[0].TearOff()) }, firstEnd, nil},
	{"OnOwner client", "OnOwner of Mine", func(s *panicScene) {
		require.NoError(s.t, s.mines[0].OpenTo(s.conns[0]), "it stays open there")
		require.NoError(s.t, s.server.SetOwner(s.mines[0], nil))
	}, firstEnd, nil},
	{"OnTick", "an OnTick hook", func(*panicScene) {}, nobody, nil},
	{"post", "a posted function", post(func(*panicScene) { fuse("post") }), nobody, nil},
	{"constructor server", "the constructor of Mine", post(func(s *panicScene) { s.spawnNow(mine, s.conns[0]) }), nobody, nil},
	{"OnClose server", "OnClose of Mine", post(func(s *panicScene) { _ = s.server.Destroy(s.mines[0]) }), nobody, nil},
	{"OnOwner server", "OnOwner of Mine", post(func(s *panicScene) { _ = s.server.SetOwner(s.mines[0], nil) }), nobody, nil},
	{"AppendBinary", "a posted function", post(func(s *panicScene) { _ = flash.Call(s.mines[0], charge{}) }), nobody, nil},
	{"local call", "Hero.Fire", func(s *panicScene) {
		s.server.onFire = func(*Call, shot) { fuse("local call") }
		a := s.spawnNow(hero, nil)
		require.NoError(s.t, fire.Call(a, shot{}))
		require.NoError(s.t, shout.Call(a, "local"))
	}, nobody, nil},
	{"Authenticate", "Config.Authenticate", enter, nil, nil},
	{"OnConnect", "an OnConnect hook", enter, lastJoined, []string{"connected", "OnConnect"}},
	{"Config.OnConnect", "Config.OnConnect", enter, lastJoined, []string{"connected"}},
	{"OnDisconnect", "an OnDisconnect hook", leave, firstConn, []string{"disconnected", "OnDisconnect"}},
	{"Config.OnDisconnect", "Config.OnDisconnect", leave, firstConn, []string{"disconnected"}},
	{"OnClose server, of what a leaver owned", "OnClose of Mine", leave, firstConn, []string{"disconnected", "OnDisconnect"}},
}

// TestExplosions lets every function of the game panic or call Goexit, with and
// without OnPanic. What else was to run in the same Dispatch runs, once.
func TestExplosions(t *testing.T) {
	for _, row := range explosions {
		for _, mode := range []string{"panic", "OnPanic", "Goexit", "Goexit OnPanic"} {
			if row.name == "Authenticate" && mode == "panic" {
				continue // on a goroutine of its own: it ends the program
			}
			t.Run(row.name+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { row.run(t, mode) })
			})
		}
	}
}

func (row explosion) run(t *testing.T, mode string) {
	taken := strings.HasSuffix(mode, "OnPanic")
	explode = func() { panic("boom") }
	if strings.HasPrefix(mode, "Goexit") {
		explode = runtime.Goexit
	}
	s := newPanicScene(t, taken)
	s.talk("0 before", "1 before")
	s.server.Post(func() { s.hears = append(s.hears, "post before") })
	row.begin(s)
	s.talk("0 after", "1 after")
	s.server.Post(func() { s.hears = append(s.hears, "post after") })
	where, _, _ := strings.Cut(row.name, ",")
	arm(where)
	s.steps(10)
	require.Empty(t, arm(""), "it exploded")

	if mode == "OnPanic" {
		s.requireTold(row)
	} else {
		require.Empty(t, s.told)
		require.Equal(t, row.blames != nil, s.escaped == 1, "%d Ticks did not return", s.escaped)
	}
	s.requireHeard(row)
	s.requireInnocent()
	s.end()
}

// talk has both clients call.
func (s *panicScene) talk(words ...string) {
	for i, word := range words {
		require.NoError(s.t, shout.Call(s.mirror(i, s.heroes[i]), word))
	}
}

// requireTold: OnPanic was called with the stack, the connection was closed, and no other.
func (s *panicScene) requireTold(row explosion) {
	require.Zero(s.t, s.escaped)
	require.Len(s.t, s.told, 1)
	require.Contains(s.t, s.stacks[0], "rpc.fuse")
	require.Equal(s.t, row.function, s.functions[0])
	require.Contains(s.t, strings.ReplaceAll(s.log.String(), `"`, ""), fmt.Sprintf("function=%s panic=boom", row.function))
	if row.blames == nil { // who never joined
		require.NotNil(s.t, s.told[0])
		require.Error(s.t, s.told[0].Err())
		return
	}
	blamed := row.blames(s)
	require.Same(s.t, blamed, s.told[0])
	if blamed == nil {
		return
	}
	var closed *CloseError
	require.ErrorAs(s.t, blamed.Err(), &closed)
	if !closed.Remote { // it did not leave by itself
		require.Equal(s.t, HandlerPanic, closed.Code)
		require.Equal(s.t, row.function+" panicked", closed.Reason)
		require.ErrorContains(s.t, closed.Unwrap(), "boom")
	}
}

// requireHeard: everything but the exploding call ran once. A connection that
// was closed for it may lose what arrived after it.
func (s *panicScene) requireHeard(row explosion) {
	heard := s.server.take()
	want := []string{"shout 0 before", "shout 1 before", "shout 1 after"}
	blamed := len(s.told) == 1 && s.told[0] != nil
	if !blamed || !slices.Contains(s.conns[:1], s.told[0]) && s.told[0] != s.ends[0] || row.hears != nil {
		want = append(want, "shout 0 after")
	}
	if row.name == "local call" {
		want = append(want, "shout local")
	}
	for _, word := range want {
		require.Equal(s.t, 1, count(heard, word), "%q in %q", word, heard)
	}
	for _, word := range append([]string{"post before", "post after"}, row.hears...) {
		require.Equal(s.t, 1, count(s.hears, word), "%q in %q", word, s.hears)
	}
}

func count(list []string, word string) (n int) {
	for _, other := range list {
		if other == word {
			n++
		}
	}
	return n
}

// requireInnocent: the second client plays on.
func (s *panicScene) requireInnocent() {
	require.NoError(s.t, s.conns[1].Err())
	require.NoError(s.t, trip.Call(s.mirror(1, s.mines[1]), charge{}))
	require.NoError(s.t, shout.Call(s.mirror(1, s.heroes[1]), "fine"))
	require.NoError(s.t, flash.Call(s.mines[1], charge{}))
	s.steps(3)
	require.Equal(s.t, 1, count(s.server.take(), "shout fine"))
	require.NoError(s.t, s.conns[1].Err())
}
