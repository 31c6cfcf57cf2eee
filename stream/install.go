package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc"
)

// Streams holds the transfers of one world, to and from all of its peers. [Install] returns
// it.
//
// In each tick of the world, the peers that have something to do move content between their
// transfers and their connections. All other peers are skipped.
type Streams struct {
	world  *rpc.World
	config Config

	// Shared by all transfers. Safe for concurrent use.
	memory  *budget.Pool  // for content that peers make us hold
	stock   *budget.Stock // for content that we have read for our own transfers
	writers sync.Map      // from storeKey to the *incoming that is writing that content
	writing budget.Jobs   // counts the goroutines of writers
	turns   *crew.Turns   // limits how many transfers read or hash at once if nothing paces them

	// Requests for ticks. Safe for concurrent use.
	tickAsked atomic.Bool          // the world was asked for a tick that has not begun yet
	callers   driver.Callers[Peer] // peers that asked to be included in the next tick

	// mu guards this group.
	mu     sync.Mutex
	topics map[string]topic
	peers  map[*rpc.Conn]*Peer // peers of connections whose end the world has not reported yet

	// The schedule of ticks. Used by the world's goroutine only.
	joined  []*Peer   // peers whose connections have joined
	due     []*Peer   // peers in joined that the next tick includes, in their order
	checked time.Time // when a tick last looked for overdue peers
	clock   tickClock

	// Shortages of memory. Used by the world's goroutine only.
	reclaim reclaimer
	opened  time.Time // when a transfer that had waited for memory was last opened
	early   int64     // total bytes that joined peers may send before we answer them
}

// A topic describes a name that has a handler at this end.
type topic struct {
	kind   kind            // zero in the zero topic, which no header has
	open   func(*incoming) // gives a transfer to the handler; nil if there is none
	shape  uint64          // shape of an array's elements, which headers must match
	fields func() string   // describes an array's elements, for errors
}

// Install adds streams to world, in both directions and with every peer. It must be called
// once at each end, before the world's first connection.
func Install(world *rpc.World, config Config) (*Streams, error) {
	if world == nil {
		return nil, errors.New("stream: Install: world is nil")
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := validateBunch(extend.WorldOf(world)); err != nil {
		return nil, err
	}
	s := &Streams{
		world:  world,
		config: config,
		topics: make(map[string]topic),
		peers:  make(map[*rpc.Conn]*Peer),
		clock:  tickClock{now: time.Now},
		turns:  crew.NewTurns(max(1, runtime.GOMAXPROCS(0)/2)),
	}
	s.memory, s.stock = config.budgets()
	s.reclaim.streams = s
	if err := bind(s); err != nil {
		return nil, err
	}
	extend.Add(world, func(random func(n int) int) extend.Machine {
		return newSliceLink(budget.NewAccount(s.memory, s.config.terms(minPending)), random)
	})
	extend.OnJoin(world, func(conn any) { s.connected(conn.(*rpc.Conn)) })
	world.OnDisconnect(s.disconnected)
	world.OnTick(s.tick)
	return s, nil
}

// minChannels is the minimum of MaxChannels, for the control pipe and a lane.
const minChannels = 2

// validateBunch returns an error if rpc.Config.Bunch has a limit with which no transfer can work.
func validateBunch(w *extend.World) error {
	if w.MaxBunch < minMaxBunch {
		return fmt.Errorf("stream: rpc.Config.Bunch.MaxBunch is %d; the minimum is %d, so that messages about transfers fit",
			w.MaxBunch, minMaxBunch)
	}
	if w.Channels != 0 && w.Channels < minChannels {
		return fmt.Errorf("stream: rpc.Config.Bunch.MaxChannels is %d; the minimum is %d, so that transfers have channels",
			w.Channels, minChannels)
	}
	return nil
}

// bind calls bindPipes. rpc.Bind panics with a text if Install is called a second time, or after
// the first connection. bind turns that text into an error.
func bind(s *Streams) (err error) {
	defer func() {
		switch recovered := recover().(type) {
		case nil:
		case string:
			err = fmt.Errorf("stream: Install must be called once for each world, before its first connection: "+
				"call it right after rpc.NewWorld and share the Streams that it returns (%s)", recovered)
		default:
			panic(recovered)
		}
	}()
	bindPipes(s)
	return nil
}

// Peer returns the transfers of conn. It is safe for concurrent use. It panics if conn is nil or
// belongs to a world other than the one given to Install, because transfers there would wait for
// ticks that never happen.
func (s *Streams) Peer(conn *rpc.Conn) *Peer {
	switch {
	case conn == nil:
		panic("stream: Peer(nil): connection is nil, as it is for an actor without an owner")
	case conn.World() != s.world:
		panic(fmt.Sprintf("stream: Peer(%v): connection belongs to another world: "+
			"use the Streams that Install returned for that world", conn))
	}
	p := s.peer(conn)
	p.watch()
	return p
}

// Wait waits until no transfer to any peer is queued or in progress, including transfers that start
// in the meantime. It returns nil however they ended, and at once if there are none. If ctx ends
// first, the transfers continue and Wait returns an error that wraps the cause of ctx, gives their
// number and names one of them. On the world's goroutine, which must not block, it returns
// ErrBlocking instead of waiting. The world must be driven while Wait waits.
//
// To shut down, a server stops starting transfers, calls Wait so that its clients get what they are
// downloading, and closes the world. ctx should have a time limit: a client that doesn't read keeps
// its transfers in progress, and one that has vanished keeps them until its connection ends, after
// rpc.Config.IdleTimeout. Wait doesn't wait for transfers from the peers: their handlers know when
// these end.
//
// Wait is safe for concurrent use. If a connection ends, Wait may return shortly before Done of its
// transfers is closed, so don't change the items of an array before that.
func (s *Streams) Wait(ctx context.Context) error {
	for {
		waiting := s.outgoing()
		if len(waiting) == 0 {
			return nil
		}
		if s.world.Inside() {
			return fmt.Errorf("%w: Streams.Wait; wait on another goroutine", ErrBlocking)
		}
		for _, t := range waiting {
			select {
			case <-t.done:
			case <-ctx.Done():
				return s.unended(context.Cause(ctx))
			}
		}
	}
}

// unended returns the error of a Wait that ends because of cause, or nil if no transfer is left.
func (s *Streams) unended(cause error) error {
	left := s.outgoing()
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("stream: Streams.Wait: %s in progress or queued, such as %v: %w",
		words.Plural(len(left), "transfer", "transfers"), left[0], cause)
}

// outgoing returns all transfers to peers that have not ended.
func (s *Streams) outgoing() (transfers []*Transfer) {
	s.mu.Lock()
	peers := slices.Collect(maps.Values(s.peers))
	s.mu.Unlock()
	for _, p := range peers {
		transfers = p.live.appendOutgoing(transfers)
	}
	return transfers
}

// peer returns the peer of conn, which it creates on first use.
func (s *Streams) peer(conn *rpc.Conn) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peerLocked(conn)
}

// joinedPeer is like peer, for a caller who got conn from the world. The world will therefore
// report the end of the connection.
func (s *Streams) joinedPeer(conn *rpc.Conn) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peerLocked(conn)
	p.joined = true
	return p
}

// peerLocked is peer for a caller that holds mu.
func (s *Streams) peerLocked(conn *rpc.Conn) *Peer {
	if ended := sliceLinkOf(conn).ended; ended != nil {
		return ended // the world has reported the end, and won't report it for a new peer
	}
	p := s.peers[conn]
	if p == nil {
		p = newPeer(s, conn)
		s.peers[conn] = p
	}
	return p
}

// earlyDivisor determines how many bytes a connection may send before its headers are answered.
//
// All connections together may send 1/earlyDivisor of Config.MaxMemory. A connection that joins
// gets 1/earlyDivisor of what is left of that, but at least minPending. If less than minPending is
// left, it gets nothing, which by default happens from the 60th connection on. The first
// connections may therefore send earlyBytes, and the memory suffices even if 200 connections from
// one address all send at once.
//
// Content that arrives when there is no memory for it is held anyway, because parts on lanes can't
// be refused.
const earlyDivisor = 16

// shareEarly returns how many bytes a joining connection may send before its headers are
// answered.
func (s *Streams) shareEarly() (share int64) {
	left := max(s.config.maxMemory()/earlyDivisor, minPending) - s.early
	if left >= minPending {
		share = min(max(left/earlyDivisor, minPending), s.config.early())
	}
	s.early += share
	return share
}

// remove removes the peer of a connection that has ended, unless the peer has joined. In that case,
// disconnected removes it when the world reports the end.
func (s *Streams) remove(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.joined {
		delete(s.peers, p.conn)
	}
}

// connected is called when a connection has joined. From then on, ticks include its peer.
func (s *Streams) connected(conn *rpc.Conn) {
	p := s.joinedPeer(conn)
	p.receiver.early.share = s.shareEarly()
	p.account.SetTerms(s.config.terms(p.receiver.early.share))
	p.window.entries, _, _ = extend.Limits(conn)
	s.joined = append(s.joined, p)
	p.active = true
	s.schedule(p)
	p.connected()
}

// disconnected is called when the world reports the end of a connection. It ends the
// transfers.
func (s *Streams) disconnected(conn *rpc.Conn, cause error) {
	s.mu.Lock()
	p := s.peers[conn]
	delete(s.peers, conn)
	sliceLinkOf(conn).ended = p
	s.mu.Unlock()
	if p == nil {
		return // the connection never had a peer
	}
	if p.active {
		s.early -= p.receiver.early.share
	}
	same := func(q *Peer) bool { return q == p }
	s.joined = slices.DeleteFunc(s.joined, same)
	s.due = slices.DeleteFunc(s.due, same)
	p.active = false
	p.end(cause)
}

// tick is called in every Flush of the world.
func (s *Streams) tick(now time.Time) {
	s.tickAsked.Store(false)
	s.clock.begin(now)
	s.tickPeers(now)
}

// tickPeers ticks the peers that have something to do until the tick has used up its time. The
// next tick continues with the peer after the last one.
func (s *Streams) tickPeers(now time.Time) {
	s.callers.Take(s.schedule)
	s.scheduleOverdue(now)

	// Deferred, so that peers that were ticked are removed even if a function of the game panics.
	ticked := 0
	defer func() { s.due = slices.Delete(s.due, 0, ticked) }()
	for _, p := range s.due {
		ticked++
		p.scheduled = false
		p.tick(now)
		if !p.wasIdle && s.clock.timeUp() { // an idle peer takes no time worth measuring
			s.wake()
			return
		}
	}
}

// scheduleOverdue schedules the peers that must be ticked although nothing has woken them. It looks
// for them every checkInterval.
func (s *Streams) scheduleOverdue(now time.Time) {
	since := now.Sub(s.checked)
	if since >= 0 && since < checkInterval {
		return
	}
	s.checked = now
	for _, p := range s.joined {
		if p.overdue(now) {
			s.schedule(p)
		}
	}
}

// schedule makes the next tick include p, if p has joined.
func (s *Streams) schedule(p *Peer) {
	if p.active && !p.scheduled {
		p.scheduled = true
		s.due = append(s.due, p)
	}
}

// wake makes a world that waits for events tick. Only the first call before a tick costs
// anything.
func (s *Streams) wake() {
	if s.tickAsked.CompareAndSwap(false, true) {
		extend.Wake(s.world)
	}
}

// handle registers t as the topic with the given name. It panics if the name is empty or taken,
// if s is nil, or if t.open is nil because the handler has no function.
func (s *Streams) handle(name string, t topic) {
	of := header{kind: t.kind, topic: name}
	switch {
	case name == "":
		panic("stream: Handle of a topic without a name: use NewBlob or NewArray")
	case s == nil:
		panic(fmt.Sprintf("stream: Handle of %v: streams is nil: use the result of Install", &of))
	case t.open == nil:
		panic(fmt.Sprintf("stream: Handle of %v: function is nil", &of))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.topics[name]; taken {
		panic(fmt.Sprintf("stream: Handle of %v: its name has a handler already, for %v: "+
			"call Handle once for each topic, and give every topic a name of its own",
			&of, &header{kind: other.kind, topic: name}))
	}
	s.topics[name] = t
}

// topic returns the topic with the given name, or the zero topic if it has no handler.
func (s *Streams) topic(name string) topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[name]
}

// growTime returns the time within which half of the credit must be consumed for the credit to
// grow: two round trips or two ticks, whichever is longer. One round trip would be too strict on
// a lossy path, where content waits for an earlier part that was lost, perhaps more than once.
func (s *Streams) growTime(conn *rpc.Conn) time.Duration {
	return 2 * max(conn.RTT(), s.clock.interval)
}

const (
	// tickShare limits a tick to 1/tickShare of the time between two ticks, for all peers together.
	// The rest of that time belongs to the game.
	tickShare = 8
	// minTick is how long a tick may always take. Since ticks follow each other closely in a busy
	// world that waits for events, it's also the maximum there. It's short because a call that
	// arrives during the tick has to wait.
	minTick = time.Millisecond
)

// A tickClock measures the time between ticks, and how long a tick takes. It is used by the world's
// goroutine only.
type tickClock struct {
	now      func() time.Time // time.Now, except in tests
	lastTick time.Time        // start of the last tick
	interval time.Duration    // time between ticks, for growTime and the queues of routes
	deadline time.Time        // when the tick must end; zero until start is called in the tick
}

// begin is called at the start of each tick.
//
// The interval follows the regular ticks of a loop. In a world that waits for events, ticks may be
// far apart when there is nothing to do, so a single pause can't more than double the interval.
func (c *tickClock) begin(now time.Time) {
	c.interval = min(now.Sub(c.lastTick), max(2*c.interval, 5*time.Millisecond), time.Second)
	c.lastTick = now
	c.deadline = time.Time{}
}

// start sets the deadline when a tick finds the first peer that has something to do. Most ticks of
// a game find none and needn't read the clock.
func (c *tickClock) start() {
	if c.deadline.IsZero() {
		c.deadline = c.now().Add(max(minTick, c.interval/tickShare))
	}
}

// timeUp reports whether this tick has used up its time for transfers.
func (c *tickClock) timeUp() bool { return c.now().After(c.deadline) }
