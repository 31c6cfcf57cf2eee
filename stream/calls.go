package stream

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A Caller is an RPC with an argument of type A: a *rpc.ServerRPC[A], a *rpc.ClientRPC[A], or
// the result of [Wrap].
type Caller[A any] interface {
	Call(actor *rpc.Actor, arg A) error
	Delivery() bunch.Delivery
	String() string
}

// Wrap returns a Caller of []T for an RPC whose argument contains a []T and other data. wrap builds
// the argument around the given items. Before the first RPC, [Calls] also calls wrap once without
// items, to determine the size of the rest of the argument.
func Wrap[T, A any](call Caller[A], wrap func(items []T) A) Caller[[]T] {
	return wrappedCaller[T, A]{call, wrap}
}

// A wrappedCaller is the Caller that Wrap returns.
type wrappedCaller[T, A any] struct {
	call Caller[A]
	wrap func(items []T) A
}

// A wrapper is what Calls needs to know about a wrappedCaller, whatever its type parameters are.
type wrapper interface {
	overhead() (int, error)
	multicast() bool
}

var _ wrapper = wrappedCaller[int, int]{}

func (w wrappedCaller[T, A]) Call(actor *rpc.Actor, items []T) error {
	return w.call.Call(actor, w.wrap(items))
}

func (w wrappedCaller[T, A]) String() string { return w.call.String() }

func (w wrappedCaller[T, A]) Delivery() bunch.Delivery { return w.call.Delivery() }

// overhead returns the size of the argument in bytes, excluding the items.
func (w wrappedCaller[T, A]) overhead() (int, error) {
	rest := w.wrap(nil)
	c, err := codec.Of(reflect.TypeFor[A]())
	if err != nil {
		return 0, err
	}
	b, err := c.Append(nil, &rest)
	return len(b), err
}

func (w wrappedCaller[T, A]) multicast() bool { return isMulticast(w.call) }

// CallsConfig adjusts one [Calls]. The zero value sends RPCs of up to 32 KiB, uses the zero [Gate],
// and has no closing RPC.
type CallsConfig struct {
	// End is the closing RPC, which tells the peer that it has all items. It is called after the
	// last items and arrives after them. If End is nil, there is no closing RPC.
	End Caller[rpc.None]
	// Gate decides whether the next RPC may be sent yet. Its QueueTime limits how long the actor's
	// other RPCs have to wait behind the items.
	Gate Gate
	// MaxBytesPerRPC limits the bytes of items in one RPC. The default is 32 KiB, and the
	// maximum is 64 KiB minus headers.
	MaxBytesPerRPC int
	// MaxElementBytes is the maximum size of an encoded item. It is required if the maximum doesn't
	// follow from the item's type.
	MaxElementBytes int
}

// Calls sends items with one of the game's own reliable RPCs. Each call carries as many items as
// fit. The world's ticks make the calls, whenever the gate lets the actor's channel take another
// one. The calls stay in order with the actor's other calls.
//
//	stream.Calls(game.ReceiveData, controller, data, stream.CallsConfig{End: game.NotifyAllDataReceived})
//
// Like the RPC itself, Calls must be called on the world's goroutine. The items must not
// change until Done is closed.
func Calls[T any](call Caller[[]T], actor *rpc.Actor, items []T, config CallsConfig) (*Calling, error) {
	if isMulticast(call) {
		return nil, fmt.Errorf("stream: Calls of %v: RPC is multicast, which uses one reliable buffer per client; "+
			"use a client RPC instead", call)
	}
	if actor == nil {
		return nil, fmt.Errorf("stream: Calls of %v: actor is nil", call)
	}
	if call.Delivery() != rpc.Reliable {
		return nil, fmt.Errorf("stream: Calls of %v: delivery is not rpc.Reliable, "+
			"so no reliable buffer would limit the calls", call)
	}

	c, err := newCalling(call, actor, items, config)
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	return c, nil
}

// newCalling starts a Calling. It checks before the first RPC that everything fits, except that an
// item larger than MaxElementBytes goes unnoticed until its RPC is due.
func newCalling[T any](call Caller[[]T], actor *rpc.Actor, items []T, config CallsConfig) (*Calling, error) {
	// Determine how many items fit into an RPC, and the maximum size of the RPC.
	item, err := elementCodec(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	bound, err := boundOf(item, config.MaxElementBytes)
	if err != nil {
		return nil, err
	}
	perRPC, err := elementsPerRPC(config.MaxBytesPerRPC, bound.bytes)
	if err != nil {
		return nil, err
	}
	bytes, err := rpcBytes(call, perRPC*bound.bytes)
	if err != nil {
		return nil, err
	}

	c := &Calling{name: call.String(), actor: actor, items: len(items), perRPC: perRPC, done: make(chan struct{})}
	emit := func(i int) error {
		part := items[i*perRPC : min((i+1)*perRPC, len(items))]
		if err := checkElements(item, part, i*perRPC, bound); err != nil {
			return err
		}
		return call.Call(actor, part)
	}
	if err := c.start(config, bunch.Entries(bytes), emit); err != nil {
		return nil, err
	}
	return c, nil
}

// isMulticast reports whether call, or the RPC that it wraps, is a multicast RPC.
func isMulticast[A any](call Caller[A]) bool {
	if w, ok := any(call).(wrapper); ok {
		return w.multicast()
	}
	_, ok := call.(*rpc.MulticastRPC[A])
	return ok
}

// A Calling is one [Calls] in progress. It is safe for concurrent use.
type Calling struct {
	// Set by newCalling.
	name   string // name of the RPC, for errors
	actor  *rpc.Actor
	items  int // number of items
	perRPC int // number of items in one RPC

	// Set by start, and only used on the world's goroutine.
	//
	// If the actor has no connection, the calls run in this world. There is no reliable buffer
	// then, and local takes the place of the actor's channel.
	conn    *rpc.Conn     // nil if the calls run in this world
	channel rpc.Channel   // of the actor; not set if conn is nil
	local   *localChannel // nil unless conn is nil
	pump    *Pump

	// mu guards this group, which the application may use on any goroutine.
	mu       sync.Mutex
	sent     int   // items sent, as of the last tick
	canceled error // set by Cancel; the next tick ends the calls with this error
	ended    bool  // done is closed
	err      error // why not all items were sent
	done     chan struct{}
}

// Done returns a channel that is closed when the last RPC is in the reliable buffer, or when the
// calls fail. The items may still be on their way, and only an RPC of the game in the other
// direction can tell when they have arrived.
func (c *Calling) Done() <-chan struct{} { return c.done }

// Err returns why not all items were sent. It returns nil until Done is closed.
func (c *Calling) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Progress counts items rather than bytes. Acked and Rate are always 0.
func (c *Calling) Progress() Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Progress{Sent: int64(c.sent), Total: int64(c.items)}
}

// Cancel makes the world's next tick end the calls before the next RPC. The closing RPC is not
// sent. Err then returns an error that wraps ErrCanceled and cause.
func (c *Calling) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled == nil && !c.ended {
		c.canceled = canceled(cause)
		extend.Wake(c.actor.World()) // a world that waits for events would otherwise not tick
	}
}

// start connects the pump to the actor's channel, and adds c to the world's ticks.
func (c *Calling) start(config CallsConfig, entries int, emit func(int) error) error {
	ch, err := c.connect()
	if err != nil {
		return err
	}

	send := func(i int) error { return c.makeCall(func() error { return emit(i) }) }
	var end func() error
	if config.End != nil {
		callEnd := func() error { return config.End.Call(c.actor, rpc.None{}) }
		end = func() error { return c.makeCall(callEnd) }
	}
	rpcs := (c.items + c.perRPC - 1) / c.perRPC
	if c.pump, err = NewPump(ch, config.Gate, rpcs, entries, send, end); err != nil {
		return err
	}

	activeCallsOf(c.actor.World()).add(c)

	// Once the connection or the world has ended, there may be no more ticks to end c.
	go afterEnd(c.parentDone(), c.done, func() time.Duration { return endGrace }, c.onOrphaned)
	return nil
}

// parentDone returns a channel that is closed when there may be no more ticks: when the connection
// ends or, for calls that run in this world, when the world is closed.
func (c *Calling) parentDone() <-chan struct{} {
	if c.conn != nil {
		return c.conn.Done()
	}
	return extend.Closed(c.actor.World())
}

// connect finds the channel whose reliable buffer the calls will use.
func (c *Calling) connect() (Channel, error) {
	if !c.actor.Alive() {
		return nil, fmt.Errorf("actor is destroyed: %w", ErrClosed)
	}
	c.conn = c.actor.Conn()
	if c.conn == nil {
		c.local = &localChannel{}
		return c.local, nil
	}
	// A server may not have opened the actor to its owner yet.
	if c.actor.World().IsServer() {
		if err := c.actor.OpenTo(c.conn); err != nil {
			return nil, err
		}
	}
	c.channel = c.actor.Channel(c.conn)
	if !c.channel.Open() {
		return nil, fmt.Errorf("actor is not open to %s: %w", extend.NameOf(c.conn), ErrClosed)
	}
	return c.channel, nil
}

// makeCall runs call, which makes one RPC. If the calls run in this world, it counts the RPC in
// local.
func (c *Calling) makeCall(call func() error) error {
	if c.conn != nil && c.actor.Alive() && !c.channel.Open() {
		// The client has gone. Package rpc would count the call as dropped without returning an
		// error, so Progress would include items that were never sent.
		return fmt.Errorf("channel to %s was closed: %w", extend.NameOf(c.conn), ErrClosed)
	}
	err := call()
	if err == nil && c.local != nil {
		c.local.out++
	}
	return err
}

// tick makes the calls that this tick has room for.
func (c *Calling) tick() {
	if c.local != nil {
		c.local.out = 0
	}
	done, err := false, c.checkUsable()
	if err == nil {
		done, err = c.pumpGuarded()
	}
	c.publish(min(c.pump.Sent()*c.perRPC, c.items), done, err)
}

// pumpGuarded makes the calls that the gate allows. If the game's code, such as an item's encoding,
// panics, the Calling ends. The panic then propagates out of the tick unless rpc.Config.OnPanic
// handles it.
func (c *Calling) pumpGuarded() (done bool, err error) {
	returned := false
	defer func() {
		if !returned {
			err = ErrPanicked
			c.fail(err)
		}
	}()
	function := func() string { return "Calls of " + c.name + ": encoding of an item, or the function given to Wrap" }
	returned = c.actor.World().Guard(c.conn, function, func() { done, err = c.pump.Tick() })
	return done, err
}

// publish makes the number of items sent visible to the application. It ends the Calling if done
// is set or err isn't nil.
func (c *Calling) publish(sent int, done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.sent = sent
	c.ended = done || err != nil
	if err != nil {
		c.err = fmt.Errorf("stream: Calls of %s: %d of %d items sent: %w", c.name, sent, c.items, err)
	}
	if c.ended {
		close(c.done)
	}
}

// fail ends the Calling with an error. It doesn't change the number of items sent.
func (c *Calling) fail(err error) { c.publish(int(c.Progress().Sent), false, err) }

// hasEnded reports whether the Calling has ended, and therefore needs no more ticks.
func (c *Calling) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// onOrphaned ends the Calling if its connection or world has ended and no tick has noticed. It runs
// on its own goroutine.
func (c *Calling) onOrphaned() {
	cause := errors.New("world closed")
	if c.conn != nil {
		cause = c.conn.Err()
	}
	c.fail(fmt.Errorf("%w: %w", ErrClosed, cause))
}

// checkUsable returns an error if the Calling was canceled, or if further calls wouldn't have the
// same destination as the first one.
func (c *Calling) checkUsable() error {
	c.mu.Lock()
	err := c.canceled
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !c.actor.Alive():
		return fmt.Errorf("%w: actor was destroyed or closed", ErrClosed)
	case c.actor.Conn() != c.conn:
		return fmt.Errorf("%w: the actor's owner changed", ErrCanceled)
	case c.conn != nil && !c.channel.Open():
		return fmt.Errorf("channel to %s was closed: %w", extend.NameOf(c.conn), ErrClosed)
	case c.conn != nil && c.actor.Channel(c.conn) != c.channel:
		return fmt.Errorf("%w: actor was closed for %s", ErrClosed, extend.NameOf(c.conn))
	}
	return nil
}

// A localChannel stands in for the reliable buffer if the calls run in this world and never reach a
// network. It lets each tick make as many calls as half a reliable buffer holds.
type localChannel struct{ out int }

func (l *localChannel) Reliable() (out, slots int) { return l.out, localSlots }

// localSlots is the size of a reliable buffer in Unreal Engine (RELIABLE_BUFFER), which is also
// the default of package bunch.
const localSlots = 256

// activeCalls holds the Callings of a world that haven't ended. It is only used on the world's
// goroutine.
type activeCalls struct{ all []*Calling }

// activeCallsOf returns the activeCalls of a world. The first call creates them, so that Calls
// works in a world without Install.
func activeCallsOf(w *rpc.World) *activeCalls {
	return extend.Keep(w, func() any {
		active := &activeCalls{}
		w.OnTick(active.tick)
		return active
	}).(*activeCalls)
}

// add adds c. Its first calls are made by the next tick.
func (a *activeCalls) add(c *Calling) {
	a.all = append(a.all, c)
	// We may be in a tick that has already gone through its Callings, so ask for another tick in
	// case the world waits for events.
	extend.Wake(c.actor.World())
}

// tick runs all Callings except those that are added during the tick.
func (a *activeCalls) tick(time.Time) {
	// Deferred so that ended Callings are removed even if one of them panics.
	defer func() { a.all = slices.DeleteFunc(a.all, (*Calling).hasEnded) }()
	for _, c := range a.all {
		c.tick()
	}
}
