package stream

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// Streams holds the transfers of one world, to and from all of its peers. [Install] returns it.
type Streams struct {
	world  *rpc.World
	config Config
	clock  func() time.Time // time.Now, for the duration of ticks; tests replace it

	// Safe for concurrent use.
	memory  *budget.Pool  // for content that peers make this end hold
	stock   *budget.Stock // for content that this end reads for its own transfers
	writers sync.Map      // from storeKey to the *incoming that writes that content to a store
	writing budget.Jobs   // counts the goroutines of writers
	// Turns for transfers that read or hash without being paced: half as many at once as there
	// are processors.
	turns   *crew.Turns
	awake   atomic.Bool          // the world was asked for a tick that has not begun yet
	callers driver.Callers[Peer] // peers that have something for the next tick

	// mu guards this group.
	mu     sync.Mutex
	topics map[string]topic
	peers  map[*rpc.Conn]*Peer // peers of connections whose end the world has not reported

	// Used by the world's goroutine only.
	joined   []*Peer                    // peers whose connections have joined
	due      []*Peer                    // peers in joined, in order, that the next tick includes
	checked  time.Time                  // when a tick last looked for overdue peers
	lastTick time.Time                  // start of the last tick
	tickEnds time.Time                  // when that tick must end; zero if it has found nothing to do so far
	interval time.Duration              // time between ticks; for growTime and the queues of routes
	sought   time.Time                  // when makeRoom or evictFor last searched for stuck hoarders
	stuck    []stalled                  // hoarders that the search found, the one stuck longest first
	stuckOf  map[budget.Party][]stalled // hoarders in stuck that hold content, by party
	opened   time.Time                  // when a transfer that had waited for memory was last opened
	// Bytes that all peers in joined together may send before their headers are answered.
	early int64
}

// A topic is a declared name that has a handler here.
type topic struct {
	kind   kind
	shape  uint64          // of the elements, for arrays only; a header must have the same one
	fields func() string   // describes the elements, for arrays only
	open   func(*incoming) // gives a transfer to the handler
}

// Install adds streams to world, in both directions and with every peer. It must be called
// once at each end, before the world's first connection.
func Install(world *rpc.World, config Config) (*Streams, error) {
	if world == nil {
		return nil, errors.New("stream: Install into a nil *World")
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &Streams{
		world:  world,
		config: config,
		memory: budget.NewPool(config.maxMemory()),
		stock:  budget.NewStock(config.maxMemory()/stockShare, minStock),
		topics: make(map[string]topic),
		peers:  make(map[*rpc.Conn]*Peer),
		clock:  time.Now,
		turns:  crew.NewTurns(max(1, runtime.GOMAXPROCS(0)/2)),
	}
	if err := bind(s); err != nil {
		return nil, err
	}
	extend.Add(world, func() extend.Machine {
		return newSliceLink(budget.NewAccount(s.memory, s.config.terms(minPending)))
	})
	extend.OnJoin(world, func(conn any) { s.connected(conn.(*rpc.Conn)) })
	world.OnDisconnect(s.disconnected)
	world.OnTick(s.tick)
	return s, nil
}

// bind binds the pipes. rpc.Bind panics on a second Install, and on one after the first
// connection. bind returns an error instead.
func bind(s *Streams) (err error) {
	defer func() {
		switch recovered := recover().(type) {
		case nil:
		case string:
			err = fmt.Errorf("stream: Install goes once into a world, before its first connection: "+
				"call it right after rpc.NewWorld, and use the Streams that this call returned "+
				"wherever the world's transfers are meant (%s)", recovered)
		default:
			panic(recovered)
		}
	}()
	bindPipes(s)
	return nil
}

// Peer returns the transfers of conn. It is safe for concurrent use. It panics if conn is nil
// or belongs to a world other than that of Install, because transfers there would wait for
// ticks that never happen.
func (s *Streams) Peer(conn *rpc.Conn) *Peer {
	switch {
	case conn == nil:
		panic("stream: Peer(nil): there is no connection; an actor that nobody owns has none")
	case conn.World() != s.world:
		panic(fmt.Sprintf("stream: Peer(%v): the connection belongs to another world than these Streams; "+
			"ask those that Install returned for its world", conn))
	}
	p := s.peer(conn, false)
	p.watch()
	return p
}

// peer returns the peer of conn, and creates it if necessary. joined means that the world will
// report the end of the connection.
func (s *Streams) peer(conn *rpc.Conn, joined bool) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended := sliceLinkOf(conn).ended; ended != nil {
		return ended
	}
	p := s.peers[conn]
	if p == nil {
		p = newPeer(s, conn)
		s.peers[conn] = p
	}
	p.joined = p.joined || joined
	return p
}

// earlyPart limits the bytes that a connection may send before its headers are answered.
//
// All connections together may send a 16th of Config.MaxMemory. A connection that joins gets a
// 16th of what is left of that, but at least minPending. If less than minPending is left, it
// gets nothing; by default, this is so from the 60th connection on. The first connections may
// therefore send earlyBytes, and there is memory for what 200 connections send at once from
// one address.
//
// Content for which there is no memory is held nevertheless, because parts on lanes can't be
// refused.
const earlyPart = 16

// shareEarly returns the number of bytes that a joining connection may send before its headers
// are answered.
func (s *Streams) shareEarly() (share int64) {
	if left := max(s.config.maxMemory()/16, minPending) - s.early; left >= minPending {
		share = min(max(left/earlyPart, minPending), s.config.early())
	}
	s.early += share
	return share
}

// forget removes a peer whose connection has ended. A peer that has joined stays until the
// world reports the end.
func (s *Streams) forget(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.joined {
		delete(s.peers, p.conn)
	}
}

// connected adds the peer of a connection that has joined to the ticks.
func (s *Streams) connected(conn *rpc.Conn) {
	p := s.peer(conn, true)
	p.receiver.mayEarly = s.shareEarly()
	p.account.SetTerms(s.config.terms(p.receiver.mayEarly))
	s.joined = append(s.joined, p)
	p.ticks = true
	s.list(p)
	p.connected()
}

// disconnected is called when the world reports the end of a connection. It ends the
// connection's transfers.
func (s *Streams) disconnected(conn *rpc.Conn, cause error) {
	s.mu.Lock()
	p := s.peers[conn]
	delete(s.peers, conn)
	sliceLinkOf(conn).ended = p
	s.mu.Unlock()
	if p == nil {
		return
	}
	if p.ticks {
		s.early -= p.receiver.mayEarly
	}
	same := func(q *Peer) bool { return q == p }
	s.joined = slices.DeleteFunc(s.joined, same)
	s.due = slices.DeleteFunc(s.due, same)
	p.ticks = false
	p.end(cause)
}

// tick is called in every Flush.
func (s *Streams) tick(now time.Time) {
	s.awake.Store(false)
	// The interval follows the regular ticks of a loop. In a world that waits for events, one
	// long idle pause at most doubles the interval.
	s.interval = min(now.Sub(s.lastTick), max(2*s.interval, 5*time.Millisecond), time.Second)
	s.lastTick = now
	s.tickPeers(now)
}

const (
	// tickShare is the inverse of the part of the time between two ticks that a tick may spend
	// on all peers together. minTick is the minimum time that it may spend. In a world that
	// waits for events, minTick is also the maximum, because a call that arrives meanwhile has
	// to wait.
	tickShare = 8
	minTick   = time.Millisecond
)

// tickPeers ticks the peers that have something to do, one after another, until the tick has
// used up its time. The next tick continues with the peer after the last one.
func (s *Streams) tickPeers(now time.Time) {
	s.tickEnds = time.Time{}
	s.callers.Take(s.list)
	s.listOverdue(now)
	ticked := 0
	defer func() { s.due = slices.Delete(s.due, 0, ticked) }() // also when a function of the game panics
	for _, p := range s.due {
		ticked++
		p.listed = false
		p.tick(now)
		if !p.rests && s.timeUp() {
			s.wake()
			return
		}
	}
}

// listOverdue adds the peers that a tick must include although nothing has woken them. It
// looks for them every checkInterval.
func (s *Streams) listOverdue(now time.Time) {
	if since := now.Sub(s.checked); since >= 0 && since < checkInterval {
		return
	}
	s.checked = now
	for _, p := range s.joined {
		if p.overdue(now) {
			s.list(p)
		}
	}
}

// list makes the next tick include p, if p has joined.
func (s *Streams) list(p *Peer) {
	if p.ticks && !p.listed {
		p.listed = true
		s.due = append(s.due, p)
	}
}

// begin starts the measurement of the tick's time, on the first call in a tick. Most ticks of
// a game find nothing to do and need no clock.
func (s *Streams) begin() {
	if s.tickEnds.IsZero() {
		s.tickEnds = s.clock().Add(max(minTick, s.interval/tickShare))
	}
}

// timeUp reports whether this tick has used up its time for bulk.
func (s *Streams) timeUp() bool { return s.clock().After(s.tickEnds) }

// wake makes a world that waits for events tick.
func (s *Streams) wake() {
	if s.awake.CompareAndSwap(false, true) {
		extend.Wake(s.world)
	}
}

// stuckPause is the time for which the result of takeBack is used before takeBack is called
// again.
const stuckPause = 100 * time.Millisecond

// makeRoom does nothing unless the reserved half of the memory is in use. In that case it
// takes back from all transfers what they have not used lately. While less memory is free than
// a connection may always have, it evicts stuck hoarders, the one stuck longest first.
func (s *Streams) makeRoom(now time.Time) {
	if s.memory.Free() >= s.config.maxMemory()/2 {
		return
	}
	if now.Sub(s.sought) >= stuckPause {
		s.takeBack(now)
	}
	for len(s.stuck) > 0 && s.crowded() {
		who := s.stuck[0].hoarder
		s.stuck = s.stuck[1:]
		if since, stuck := who.takeBack(now); stuck {
			who.evict(now.Sub(since).Round(time.Second))
		}
	}
}

// evictFor is called when a transfer of r's peer finds no memory. Of the peer's party, it
// evicts the hoarder that is stuck longest and holds content. It reports whether there was
// one. The connections continue. evictFor is needed because a party may reach its limit long
// before the world is crowded.
func (s *Streams) evictFor(r *receiver, now time.Time) bool {
	party := extend.PartyOf(r.peer.conn)
	if party == (budget.Party{}) {
		return false
	}
	if now.Sub(s.sought) >= stuckPause {
		s.takeBack(now)
	}
	for i, one := range s.stuckOf[party] {
		if one.hoarder == hoarder(r) {
			continue
		}
		if since, stuck := one.takeBack(now); stuck {
			s.stuckOf[party] = slices.Delete(s.stuckOf[party], i, i+1)
			one.evict(now.Sub(since).Round(time.Second))
			return true
		}
	}
	return false
}

// crowded reports whether less memory is free than a connection may always have.
func (s *Streams) crowded() bool {
	return s.memory.Free() < min(s.config.terms(s.config.early()).Floor, s.config.maxMemory()/4)
}

// takeBack takes back from all hoarders what they have not used lately, and records which of
// them are stuck.
func (s *Streams) takeBack(now time.Time) {
	s.sought = now
	var all []stalled
	note := func(who hoarder) {
		if since, stuck := who.takeBack(now); stuck {
			all = append(all, stalled{who, since})
		}
	}
	for _, p := range s.joined {
		note(&p.receiver)
		for _, in := range p.receiver.receiving {
			note(in)
		}
	}
	s.noteStuck(all)
}

// noteStuck records the hoarders that are stuck. It indexes them by party, because thousands
// of transfers may find no memory in one tick, and evictFor must look at few hoarders for
// each.
func (s *Streams) noteStuck(all []stalled) {
	slices.SortFunc(all, func(a, b stalled) int { return a.since.Compare(b.since) })
	s.stuck = all
	s.stuckOf = make(map[budget.Party][]stalled)
	for _, one := range all {
		if conn, holds := one.holder(); holds {
			party := extend.PartyOf(conn)
			s.stuckOf[party] = append(s.stuckOf[party], one)
		}
	}
}

// A hoarder may hold memory that others need. It is a transfer, or a peer with slices of
// chunks that do not become complete.
type hoarder interface {
	// takeBack takes back memory that was not used lately. It reports whether the hoarder is
	// stuck, and since when.
	takeBack(now time.Time) (since time.Time, stuck bool)
	holder() (conn *rpc.Conn, holds bool) // returns its connection, and whether it holds content
	// evict frees the memory of a hoarder that has been stuck for idle.
	evict(idle time.Duration)
}

// A stalled hoarder is stuck: its peer has sent nothing useful since a certain time.
type stalled struct {
	hoarder
	since time.Time
}

// handle registers t as the topic with the given name. none means that the handler's function
// is nil. handle panics if t cannot work.
func (s *Streams) handle(name string, t topic, none bool) {
	of := header{kind: t.kind, topic: name}
	switch {
	case name == "":
		panic("stream: Handle of a topic without a name; take what NewBlob or NewArray returned")
	case s == nil:
		panic(fmt.Sprintf("stream: Handle of %v: nil *Streams; give it what Install returned", &of))
	case none:
		panic(fmt.Sprintf("stream: Handle of %v: no function", &of))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.topics[name]; taken {
		panic(fmt.Sprintf("stream: topic %q has a handler already", name))
	}
	s.topics[name] = t
}

// topic returns the topic with the given name, and whether it has a handler.
func (s *Streams) topic(name string) (t topic, handled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, handled = s.topics[name]
	return t, handled
}

// growTime returns the time within which half of the credit must be consumed for the credit to
// grow. It is the longer of 2 RTT and 2 ticks. One RTT would be too strict on a lossy path,
// where content in order waits for a lost part that may be lost again.
func (s *Streams) growTime(conn *rpc.Conn) time.Duration {
	return 2 * max(conn.RTT(), s.interval)
}
