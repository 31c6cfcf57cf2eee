// Package extend lets package stream, an extension of package rpc, add a protocol machine to
// connections and attach values to worlds and classes. It isn't part of the public interface,
// because it changes along with package link.
package extend

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/link"
)

// A Machine is a protocol that runs beside the calls of a connection, without a clock, a goroutine
// or a lock. An error of Receive or Advance ends the connection. The link calls all methods under
// the lock of the connection's machines, which [Drive] also takes.
type Machine interface{ link.Extension }

// Package rpc sets these functions in its init, because an extension only has a *rpc.World, a
// *rpc.Conn or a *rpc.Class. They panic if the value is of another type.
var (
	WorldOf func(world any) *World
	ConnOf  func(conn any) *Conn
	ClassOf func(class any) *Class
	PartyOf func(conn any) budget.Party // the party of a connection's peer; may be called concurrently

	// MaxBunchOf returns the maximum size of a message that both ends have agreed on. It may be
	// called concurrently, but only once the connection has joined.
	MaxBunchOf func(conn any) int

	// NameOf returns the name of a connection for an error that a game may pass on to another
	// client. Unlike rpc.Conn.String, it contains neither the address nor the identity. It may be
	// called concurrently.
	NameOf func(conn any) string
)

// Add adds a machine to every connection of a world. Its priority is below that of calls and of
// machines added earlier, so its datagrams are sent only when the others have none. They begin with
// the machine's FirstByte, on which both sides must agree.
//
// Datagrams that arrive before the connection has joined are dropped and counted. newMachine is
// called when a connection begins, on any goroutine, before the game gets the connection. Its
// machine may call random (see [World.Random]). Add panics if the world has had a connection.
func Add(world any, newMachine func(random func(n int) int) Machine) { WorldOf(world).add(newMachine) }

// OnJoin adds a hook that is called on the world's goroutine for every connection that joins. It is
// called before any of the game's actors open on the connection, because actors may use up the
// channels. OnJoin must be called before the first connection.
func OnJoin(world any, hook func(conn any)) {
	w := WorldOf(world)
	w.Joined = append(w.Joined, hook)
}

// Of returns the machine that Add added to a connection for datagrams that begin with first, or nil
// if there is none. The caller may use it only within Drive.
func Of(conn any, first byte) Machine { return ConnOf(conn).of(first) }

// Drive calls fn under the lock of the connection's machines, and then sends what fn has given
// them. No packets are sent or received during fn, which must not block and must not call package
// rpc.
func Drive(conn any, fn func()) {
	l := ConnOf(conn).Link
	l.Lock()
	defer l.Unlock()
	fn()
}

// Expect announces the number of bytes of bulk (transfers) that an extension will later pass to its
// machine or send in calls. The more there are, the more carefully bulk starts on an unknown path.
// It may be called concurrently.
func Expect(conn any, bytes int64) { ConnOf(conn).Link.Expect(bytes) }

// Stats returns the counters and path measurements of the connection's own machine, which carries
// its bunches. It costs less than Stats of rpc.Conn. It may be called concurrently.
func Stats(conn any) (s bunch.Stats) {
	c := ConnOf(conn)
	c.Link.Lock()
	defer c.Link.Unlock()
	return c.bunches.Stats()
}

// Limits returns the number of entries of a reliable buffer, and the maximum size of a message.
// agreed is false until the connection has joined, because the ends haven't agreed on either before
// that. Limits may be called concurrently.
func Limits(conn any) (entries, maxBunch int, agreed bool) {
	c := ConnOf(conn)
	if !c.joined.Load() {
		return 0, 0, false
	}
	const anyChannel = 1
	c.Link.Lock()
	defer c.Link.Unlock()
	_, entries = c.bunches.Reliable(anyChannel)
	return entries, MaxBunchOf(conn), true
}

// OnWake sets the function that is called, on any goroutine, whenever a machine of the connection
// has something for its owner. fn must not block. It replaces the function that was set before.
func OnWake(conn any, fn func()) { ConnOf(conn).onWake.Store(&fn) }

// Wake makes a world tick if it is waiting for events. It may be called concurrently. Unlike a
// post, it never fails, but it has no effect on a closed world.
func Wake(world any) { WorldOf(world).Wake() }

// Closed returns a channel that is closed when the world is closed. It may be called concurrently.
func Closed(world any) <-chan struct{} { return WorldOf(world).Closed }

// Keep returns the value that a world keeps for its extension, which the first call makes with
// create. Keep must be called on the world's goroutine.
func Keep(world any, create func() any) any {
	w := WorldOf(world)
	if w.value == nil {
		w.value = create()
	}
	return w.value
}

// Seed makes the random draws of a world's connections repeatable. It must be called before
// the first connection.
func Seed(world any, seed uint64) { WorldOf(world).seed = &seed }

// DrivenBy tells a world the ID of the goroutine that will next call its Dispatch, as returned by
// driver.Goroutine. Getting the ID takes 10 µs, which is most of a quiet world's tick, so a
// goroutine that drives many worlds should get it only once.
func DrivenBy(world any, goroutine uint64) { WorldOf(world).Driven(goroutine) }

// DeclaredBy sets the name of the function that adds a class to a world, such as "stream.Install",
// so that the error of a handshake can say which side didn't call it. The name is part of the
// shape. DeclaredBy must be called where the class is declared.
func DeclaredBy(class any, function string) { ClassOf(class).Declarer = function }

// Priority sets the channel priority of a class's actors. The default is bunch.Normal.
func Priority(class any, p bunch.Priority) { ClassOf(class).Priority = p }

// AddAnswer adds a method of a class, as "Class.Method", with which clients answer what the server
// sends. With rpc.Config.DoS, such answers don't count as a client's load, up to the number
// announced by Owe. AddAnswer must be called where the class is declared.
func AddAnswer(class any, method string) {
	c := ClassOf(class)
	c.Answers = append(c.Answers, method)
}

// maxOwed is the maximum number of answers that a client may owe. It is enough for 1,024 transfers,
// the maximum of a connection, with two answers and two reports in flight each.
const maxOwed = 4096

// Owe announces that a client may answer n more times. It must be called on the world's
// goroutine.
func Owe(conn any, n int) {
	c := ConnOf(conn)
	c.Owed = min(c.Owed+n, maxOwed)
}

// Class holds the properties of a class that only extensions set.
type Class struct {
	Declarer string
	Priority bunch.Priority
	Answers  []string // added by AddAnswer
}

// World is the part of a world that extensions use.
type World struct {
	// Set before the game has the world.
	Wake     func()
	Driven   func(by uint64) // driver.Driver.DrivenBy
	Closed   <-chan struct{} // closed with the world
	MaxBunch int             // maximum size of a message that this end accepts
	Channels int             // maximum number of channels that each side may have open; 0 = default

	Joined []func(conn any) // added by OnJoin; used on the world's goroutine only

	mu        sync.Mutex // guards machines and connected
	machines  []func(random func(n int) int) Machine
	connected bool // the first connection has begun

	value any     // returned by Keep; nil before the first call
	seed  *uint64 // set before the first connection; nil if draws aren't repeatable
}

// add is Add.
func (w *World) add(newMachine func(random func(n int) int) Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connected {
		panic("rpc: machine added after the first connection")
	}
	w.machines = append(w.machines, newMachine)
}

// Close is called when the first connection begins. After that, Add panics.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected = true
}

// Random returns a function that returns a random number from 0 to n-1. The connection with the
// number conn calls it under its link's lock.
func (w *World) Random(conn uint64) func(n int) int {
	if w.seed == nil {
		return rand.IntN
	}
	return rand.New(rand.NewPCG(*w.seed, conn)).IntN
}

// Conn is the part of a connection that extensions use.
type Conn struct {
	Link      *link.Link    // set before the connection's traffic begins
	Uninvited atomic.Uint64 // datagrams that arrived before the connection had joined
	Owed      int           // answers that a client may still send (see Owe); used on the world's goroutine only

	joined *atomic.Bool           // argument of Take
	onWake atomic.Pointer[func()] // argument of OnWake; nil if it wasn't called

	// Guarded by the link's lock.
	bunches  *bunch.Conn // the connection's own machine
	machines []*added
}

// An added is a machine that Add added to a connection. It receives nothing before the connection
// has joined, because the sender isn't authenticated before that.
type added struct {
	Machine
	conn *Conn
}

// Receive implements link.Machine.
func (a *added) Receive(now time.Time, datagram []byte) error {
	if !a.conn.joined.Load() {
		a.conn.Uninvited.Add(1)
		return nil
	}
	return a.Machine.Receive(now, datagram)
}

// Take makes the machines of a connection and returns them in priority order, all below own. joined
// must become true when the connection joins. conn is the connection's number (see [World.Random]).
func (c *Conn) Take(w *World, own *bunch.Conn, joined *atomic.Bool, conn uint64) (machines []link.Extension) {
	c.bunches = own
	c.joined = joined
	w.mu.Lock()
	makers := w.machines
	w.mu.Unlock()
	for _, newMachine := range makers {
		a := &added{newMachine(w.Random(conn)), c}
		if first := a.FirstByte(); first == own.FirstByte() || c.of(first) != nil {
			panic(fmt.Sprintf("rpc: two machines have the same first byte %#x", first))
		}
		c.machines = append(c.machines, a)
		machines = append(machines, a)
	}
	return machines
}

// Wake calls the function set by OnWake.
func (c *Conn) Wake() {
	if fn := c.onWake.Load(); fn != nil {
		(*fn)()
	}
}

// of is Of.
func (c *Conn) of(first byte) Machine {
	for _, a := range c.machines {
		if a.FirstByte() == first {
			return a.Machine
		}
	}
	return nil
}
