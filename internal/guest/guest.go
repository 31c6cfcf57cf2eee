// Package guest lets package stream add a machine of its own to the connections of package rpc, and keep values with its worlds and classes.
// It is no part of the public face: what a machine is and promises may change with the link.
package guest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
)

// Machine is a protocol of its own beside the calls of a connection, without clock, goroutine or lock. Receive keeps nothing of
// its datagram and AppendPacket builds the next one; an error of Receive or Advance ends the connection. All methods are
// called under one lock for all machines of the connection, which [Drive] takes, too.
type Machine interface {
	link.Machine
	link.Flyer
	link.LossCounter
	link.Changer
	link.Arriver
	link.Holder
	link.Seconder
	link.Copier
}

// Package rpc sets these when it is initialised, for it is what a guest gets its world, connection or class from: a *rpc.World, a
// *rpc.Conn or a *rpc.Class; anything else panics.
var (
	HostOf   func(world any) *Host
	SeatOf   func(conn any) *Seat
	TraitsOf func(class any) *Traits
)

// Add gives every connection of a world one more machine. Its datagrams leave when gameplay has none, and are those whose
// first byte is FirstByte, which both ends must agree on; what comes before the connection has joined is dropped and
// counted. Machines added earlier go first. It panics after the world's first connection. newMachine runs when a
// connection begins, on any goroutine, before anybody has that.
func Add(world any, newMachine func() Machine) { HostOf(world).add(newMachine) }

// OnJoin adds a hook that runs on the world's goroutine for every connection that has joined, before any actor of the game opens there:
// these may take all channels of the connection. It is called before the first connection.
func OnJoin(world any, hook func(conn any)) {
	h := HostOf(world)
	h.Joined = append(h.Joined, hook)
}

// Of returns the added machine of a connection whose datagrams begin with first, nil when there is none. It is to be used
// within Drive only.
func Of(conn any, first byte) Machine { return SeatOf(conn).of(first) }

// Drive runs fn under the lock that the connection's machines share, with the time for their methods, and lets what it
// changed leave. fn stops the connection: it must not block, and call nothing of package rpc.
func Drive(conn any, fn func(now time.Time)) {
	l := SeatOf(conn).Link
	now := l.Lock()
	defer l.Unlock()
	fn(now)
}

// Expect says how many bytes of bulk a guest will yet give its machine, or send in calls. By that a start over a path of which little is
// known is the more careful, the longer all takes anyway. It may be called on any goroutine.
func Expect(conn any, bytes int64) { SeatOf(conn).Link.Expect(bytes) }

// Stats returns what the machine of a connection's bunches has counted, and what it knows of the path. It costs less than all that
// rpc.Conn's Stats gathers.
func Stats(conn any) (s bunch.Stats) {
	seat := SeatOf(conn)
	seat.Link.Lock()
	defer seat.Link.Unlock()
	return seat.bunches.Stats()
}

// Woken reports, once, that a machine of the connection had something for its owner since it was asked before.
func Woken(conn any) bool { return SeatOf(conn).Woken.Swap(false) }

// Wake has a world that waits for events tick. It is safe from any goroutine. Unlike a post it is never refused: a world that is closed
// has nothing to tick for.
func Wake(world any) { HostOf(world).Wake() }

// Closed returns what is closed with a world. It is safe from any goroutine.
func Closed(world any) <-chan struct{} { return HostOf(world).Closed }

// Keep returns the value that a world keeps under key; the first call makes it. It is to be called on the world's goroutine.
func Keep(world, key any, make func() any) any { return HostOf(world).keep(key, make) }

// Seed makes what the connections of a world draw at random follow from a seed. It is called before the first connection.
func Seed(world any, seed uint64) { HostOf(world).seed = &seed }

// DeclaredBy names the function that adds a class to a world, such as "stream.Install", so that the error of a handshake can
// say which end did not call it. It is part of the shape, and is called where the class is declared.
func DeclaredBy(class any, function string) { TraitsOf(class).Declarer = function }

// Priority puts the channels of a class's actors before or behind others on the wire. The default is bunch.Normal.
func Priority(class any, p bunch.Priority) { TraitsOf(class).Priority = p }

// Traits are what a class has that only guests may say.
type Traits struct {
	Declarer string
	Priority bunch.Priority
}

// Host is what guests have of a world.
type Host struct {
	Wake   func()           // set before anybody has the world, as Closed
	Closed <-chan struct{}  // closed with the world
	Joined []func(conn any) // hooks of OnJoin; of the world's goroutine

	mu       sync.Mutex // guards what follows
	machines []func() Machine
	closed   bool // the world has had a connection

	kept map[any]any // of the world's goroutine
	seed *uint64     // of what connections draw; nil = none
}

func (h *Host) add(newMachine func() Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		panic("rpc: a machine was added after the first connection")
	}
	h.machines = append(h.machines, newMachine)
}

// Close says that the first connection begins: from now on Add panics.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

func (h *Host) keep(key any, make func() any) any {
	if _, ok := h.kept[key]; !ok {
		if h.kept == nil {
			h.kept = map[any]any{}
		}
		h.kept[key] = make()
	}
	return h.kept[key]
}

// Random returns what the connection with a number draws from, under its link's lock.
func (h *Host) Random(conn uint64) func(n int) int {
	if h.seed == nil {
		return rand.IntN
	}
	return rand.New(rand.NewPCG(*h.seed, conn)).IntN
}

// Seat is what guests have of a connection.
type Seat struct {
	Link      *link.Link    // set before the connection's traffic begins
	Uninvited atomic.Uint64 // datagrams that came before the connection had joined
	Woken     atomic.Bool   // a machine has something for its owner; the function Woken takes it back

	bunches  *bunch.Conn // the connection's own machine; under the link's lock, as machines
	machines []*added
}

// added is a machine that was added to a connection. It hears nothing before the connection has joined, for until then
// nobody knows who sends.
type added struct {
	Machine
	seat   *Seat
	joined *atomic.Bool
}

func (a *added) Receive(now time.Time, datagram []byte) error {
	if !a.joined.Load() {
		a.seat.Uninvited.Add(1)
		return nil
	}
	return a.Machine.Receive(now, datagram)
}

// Take makes the machines that the host has for a connection, and returns all in order of priority, own first; joined says, later,
// that the connection has.
func (s *Seat) Take(h *Host, own *bunch.Conn, joined *atomic.Bool) []link.Machine {
	s.bunches = own
	h.mu.Lock()
	machines := h.machines
	h.mu.Unlock()
	all := []link.Machine{own}
	for _, newMachine := range machines {
		a := &added{newMachine(), s, joined}
		for _, other := range all {
			if other.FirstByte() == a.FirstByte() {
				panic(fmt.Sprintf("rpc: two machines have the first byte %#x", a.FirstByte()))
			}
		}
		s.machines = append(s.machines, a)
		all = append(all, a)
	}
	return all
}

func (s *Seat) of(first byte) Machine {
	for _, a := range s.machines {
		if a.FirstByte() == first {
			return a.Machine
		}
	}
	return nil
}
