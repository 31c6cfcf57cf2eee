package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/scenes"
	"github.com/quivernet/quiver/rpc"
)

// The gameplay during a demo's transfers consists of reliable calls, 30 times a second.
const (
	callInterval = time.Second / 30
	arrivalTime  = 30 * time.Second // how long the last call may take
)

var (
	class    = rpc.NewClass("Gameplay")
	callUp   = rpc.Server[move](class, "Up", rpc.Reliable)
	callDown = rpc.Client[move](class, "Down", rpc.Reliable)
)

// A move is the argument of a call: about 100 bytes.
type move struct {
	Sent time.Duration // when it was sent, since the gameplay's start
	Of   series
	Rest [90]byte // what a game would send
}

// A series is a set of calls whose delays are evaluated together.
type series byte

const (
	unloaded  series = iota // without a transfer
	loaded                  // beside the caller's own transfer, in its direction
	bystander               // beside the transfers of others
)

// A gameplay measures how long calls take from Call in one world to the handler in the other. Both
// worlds are in one process and share a clock.
type gameplay struct {
	start    time.Time
	opened   chan *rpc.Actor // receives the server's actor of a new connection
	inFlight atomic.Int64    // calls that have not arrived yet

	mu     sync.Mutex
	delays map[series][]time.Duration
}

// A caller is an end that makes calls.
type caller struct {
	handle rpc.Handle[move]
	actor  *rpc.Actor
}

func newGameplay() *gameplay {
	return &gameplay{start: time.Now(), opened: make(chan *rpc.Actor, 1), delays: make(map[series][]time.Duration)}
}

// host prepares the server's world to open an actor for each connection.
func (g *gameplay) host(w *rpc.World) {
	g.bind(w, g.opened, callUp)
	w.OnConnect(func(c *rpc.Conn) { _, _ = w.Spawn(class, c) }) // fails only if the connection has ended
}

// bind prepares a world to send its actors to opened, and to handle calls to them.
func (g *gameplay) bind(w *rpc.World, opened chan<- *rpc.Actor, heard rpc.Handle[move]) {
	b := rpc.Bind(w, class, func(a *rpc.Actor) *gameplay {
		opened <- a
		return g
	})
	rpc.On(b, heard, (*gameplay).hear)
}

// hear records how long a call took.
func (g *gameplay) hear(_ *rpc.Call, m move) {
	delay := time.Since(g.start) - m.Sent
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delays[m.Of] = append(g.delays[m.Of], delay)
	g.inFlight.Add(-1)
}

// say makes one call. It must run on the goroutine of the caller's world.
func (g *gameplay) say(c caller, of series) {
	g.inFlight.Add(1)
	if err := c.handle.Call(c.actor, move{Sent: time.Since(g.start), Of: of}); err != nil {
		g.inFlight.Add(-1)
	}
}

// beside makes calls of all callers while fn runs, and returns when the last call has arrived.
func (g *gameplay) beside(ctx context.Context, callers map[caller]series, fn func() error) error {
	over := make(chan struct{})
	var calls sync.WaitGroup
	for c, of := range callers {
		calls.Go(func() {
			for again := time.Tick(callInterval); ; {
				_ = c.actor.World().Do(ctx, func() { g.say(c, of) })
				select {
				case <-again:
				case <-over:
					return
				}
			}
		})
	}
	err := fn()
	close(over)
	calls.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalTime, fmt.Errorf("gameplay calls did not arrive within %v", arrivalTime))
	defer cancel()
	for err == nil && g.inFlight.Load() > 0 {
		time.Sleep(callInterval)
		err = context.Cause(ctx)
	}
	return err
}

// percentile returns the p-quantile of a series in milliseconds, with p from 0
// to 1, or 0 if there was no call. All calls must have arrived.
func (g *gameplay) percentile(of series, p float64) float64 {
	return float64(scenes.Percentile(g.delays[of], p).Microseconds()) / 1000
}
