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

// Caller is an RPC that takes an A: a *rpc.ServerRPC[A], a *rpc.ClientRPC[A] or what [Wrap] makes of one.
type Caller[A any] interface {
	Call(actor *rpc.Actor, arg A) error
	Delivery() bunch.Delivery
	String() string
}

// Wrap makes a Caller of []T from an RPC whose argument holds a []T among other things. [Calls] calls wrap once without
// items, before the first RPC, to learn how many bytes the rest takes.
func Wrap[T, A any](call Caller[A], wrap func(items []T) A) Caller[[]T] {
	return wrapped[T, A]{call, wrap}
}

// wrapped is the Caller that Wrap makes.
type wrapped[T, A any] struct {
	call Caller[A]
	wrap func(items []T) A
}

func (w wrapped[T, A]) Call(actor *rpc.Actor, items []T) error {
	return w.call.Call(actor, w.wrap(items))
}

func (w wrapped[T, A]) String() string { return w.call.String() }

func (w wrapped[T, A]) Delivery() bunch.Delivery { return w.call.Delivery() }

// overhead returns the bytes of the argument beside the items.
func (w wrapped[T, A]) overhead() (int, error) {
	rest := w.wrap(nil)
	c, err := codec.Of(reflect.TypeFor[A]())
	if err != nil {
		return 0, err
	}
	b, err := c.Append(nil, &rest)
	return len(b), err
}

func (w wrapped[T, A]) multicast() bool { return isMulticast(w.call) }

// CallsConfig adjusts one [Calls]. The zero value is the article's: RPCs of 32 KiB behind a gate at half of the reliable
// buffer, and no closing RPC.
type CallsConfig struct {
	// End is the closing RPC, called after the last items, which arrive before it. nil: there is none.
	End Caller[rpc.None]
	// Gate is tested before each RPC. Its QueueTime bounds how long the actor's other RPCs wait behind the items.
	Gate Gate
	// MaxBytesPerRPC bounds the items of one RPC; default 32 KiB, at most 64 KiB less headers.
	MaxBytesPerRPC int
	// MaxElementBytes is the largest encoded item, where its type does not say it.
	MaxElementBytes int
}

// Calls sends items by the game's own reliable RPC, as many in each call as fit. The world's ticks make the calls while the
// reliable buffer of the actor's channel has room behind the gate; they keep the order of the actor's other calls.
//
//	stream.Calls(game.ReceiveData, controller, data, stream.CallsConfig{End: game.NotifyAllDataReceived})
//
// Like the RPC itself it belongs to the world's goroutine. Items must not change until Done is closed.
func Calls[T any](call Caller[[]T], actor *rpc.Actor, items []T, config CallsConfig) (*Calling, error) {
	if isMulticast(call) {
		return nil, fmt.Errorf("stream: Calls of %v: a Multicast has a reliable buffer for each client; use a Client RPC", call)
	}
	if actor == nil {
		return nil, fmt.Errorf("stream: Calls of %v on a nil *Actor", call)
	}
	if call.Delivery() != rpc.Reliable {
		return nil, fmt.Errorf("stream: Calls of %v: its delivery is not rpc.Reliable, so it fills no reliable buffer and all of it would leave at once", call)
	}

	// How many items an RPC takes, and how many bytes with all else in it.
	item, err := itemCodec(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	bound, err := boundOf(item, config.MaxElementBytes)
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	per, err := elementsPerRPC(config.MaxBytesPerRPC, bound.bytes)
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	bytes, err := rpcBytes(call, per*bound.bytes)
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}

	c := &Calling{name: call.String(), actor: actor, items: len(items), per: per, done: make(chan struct{})}
	emit := func(i int) error {
		part := items[i*per : min((i+1)*per, len(items))]
		if err := checkElements(item, part, i*per, bound); err != nil {
			return err
		}
		return call.Call(actor, part)
	}
	if err := c.start(config, bunch.Entries(bytes), emit); err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	return c, nil
}

// itemCodec returns the codec of items in an argument's slice. Items that can travel only by themselves are allowed too: a
// [Wrap] may write them into an rpc.Raw.
func itemCodec(t reflect.Type) (*codec.Codec, error) {
	c, err := codec.Inside(t)
	if err == nil {
		return c, nil
	}
	if c, e := codec.Of(t); e == nil {
		return c, nil
	}
	return nil, err
}

// rpcBytes returns the size of an RPC whose items take items bytes.
func rpcBytes(call any, items int) (int, error) {
	bytes := items + rpcOverhead
	if w, ok := call.(interface{ overhead() (int, error) }); ok {
		added, err := w.overhead()
		if err != nil {
			return 0, err
		}
		bytes += added
	}
	if bytes > maxRPCBytes {
		return 0, fmt.Errorf("%w: an RPC may take %d bytes, the limit is %d; lower MaxBytesPerRPC", ErrTooLarge, bytes, maxRPCBytes)
	}
	return bytes, nil
}

// isMulticast reports whether call, or what Wrap made it of, is a Multicast.
func isMulticast[A any](call Caller[A]) bool {
	if w, ok := call.(interface{ multicast() bool }); ok {
		return w.multicast()
	}
	_, ok := call.(*rpc.MulticastRPC[A])
	return ok
}

// Calling is one [Calls] on its way. Its methods are safe for concurrent use.
type Calling struct {
	// Set by Calls.
	name  string // of the RPC, for errors
	actor *rpc.Actor
	items int // number of items
	per   int // items in one RPC

	// Owned by the world's goroutine.
	conn    *rpc.Conn     // nil: the calls run in this world
	channel rpc.Channel   // of actor, when conn is not nil
	local   *localChannel // stands in for channel when the calls run in this world
	pump    *Pump

	// mu guards what any goroutine of the application may ask or say.
	mu       sync.Mutex
	sent     int   // items, as of the last tick
	canceled error // set by Cancel; the next tick ends the calls with it
	ended    bool  // done is closed
	err      error
	done     chan struct{}
}

// Done is closed when the closing RPC is in the reliable buffer, or when Err is set. The items may not have arrived yet:
// only the peer can tell, by an RPC the other way.
func (c *Calling) Done() <-chan struct{} { return c.done }

// Err returns the reason for which not all was sent. It is nil before Done is closed.
func (c *Calling) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Progress counts items; Acked and Rate stay 0.
func (c *Calling) Progress() Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Progress{Sent: int64(c.sent), Total: int64(c.items)}
}

// Cancel stops before the next RPC. The closing RPC is not sent; Err will be an ErrCanceled that wraps cause. It is safe
// from any goroutine, and takes effect at the world's next tick.
func (c *Calling) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled == nil && !c.ended {
		c.canceled = canceled(cause)
		extend.Wake(c.actor.World()) // else a world that waits for events would not tick
	}
}

// start connects the pump to the actor's channel, and gives it its turn in the ticks to come.
func (c *Calling) start(config CallsConfig, entries int, emit func(int) error) error {
	ch, err := c.connect()
	if err != nil {
		return err
	}

	var end func() error
	if config.End != nil {
		end = func() error { return c.counted(func() error { return config.End.Call(c.actor, rpc.None{}) }) }
	}
	counting := func(i int) error { return c.counted(func() error { return emit(i) }) }
	rpcs := (c.items + c.per - 1) / c.per
	if c.pump, err = NewPump(ch, config.Gate, rpcs, entries, counting, end); err != nil {
		return err
	}

	callsOf(c.actor.World()).add(c)
	go afterEnd(c.ending(), c.done, func() time.Duration { return endGrace }, c.orphaned)
	return nil
}

// ending is closed when ticks may no longer come: with the connection, or, for calls that run in this world, with the world.
func (c *Calling) ending() <-chan struct{} {
	if c.conn != nil {
		return c.conn.Done()
	}
	return extend.Closed(c.actor.World())
}

// connect finds the channel that the calls will take.
func (c *Calling) connect() (Channel, error) {
	if !c.actor.Alive() {
		return nil, fmt.Errorf("the actor is destroyed: %w", ErrClosed)
	}
	c.conn = c.actor.Conn()
	if c.conn == nil {
		c.local = &localChannel{}
		return c.local, nil
	}
	if c.actor.World().IsServer() {
		if err := c.actor.OpenTo(c.conn); err != nil {
			return nil, err
		}
	}
	c.channel = c.actor.Channel(c.conn)
	if !c.channel.Open() {
		return nil, fmt.Errorf("the actor is not open for %v: %w", c.conn, ErrClosed)
	}
	return c.channel, nil
}

// counted makes one call and counts it in the local channel, if that is used. A call to a client that is gone is an error here, though
// rpc only counts it: otherwise Progress would report items that were never sent.
func (c *Calling) counted(call func() error) error {
	if c.conn != nil && c.actor.Alive() && !c.channel.Open() {
		return fmt.Errorf("%v is gone: %w", c.conn, ErrClosed)
	}
	err := call()
	if err == nil && c.local != nil {
		c.local.out++
	}
	return err
}

// tick runs in a tick of the world.
func (c *Calling) tick() {
	if c.local != nil {
		c.local.out = 0
	}
	done, err := false, c.usable()
	if err == nil {
		done, err = c.step()
	}
	c.note(min(c.pump.Sent()*c.per, c.items), done, err)
}

// step makes the calls that the gate lets through. When an item's own encoding panics, these calls end, and the panic goes on unless
// rpc.Config.OnPanic takes it.
func (c *Calling) step() (done bool, err error) {
	returned := false
	defer func() {
		if !returned {
			err = ErrPanicked
			c.note(int(c.Progress().Sent), false, err)
		}
	}()
	function := func() string { return "Calls of " + c.name + ": an item's encoding, or the function of Wrap" }
	returned = c.actor.World().Guard(c.conn, function, func() { done, err = c.pump.Tick() })
	return done, err
}

// note publishes how many items were sent, and ends the calls when they are done or err is set.
func (c *Calling) note(sent int, done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.sent, c.ended = sent, done || err != nil
	if err != nil {
		c.err = fmt.Errorf("stream: Calls of %s: %d of %d items were sent: %w", c.name, sent, c.items, err)
	}
	if c.ended {
		close(c.done)
	}
}

// isOver reports whether the calls have ended.
func (c *Calling) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// orphaned ends the calls, on a goroutine of its own, when no tick has ended them after their connection or world ended.
func (c *Calling) orphaned() {
	cause := errors.New("their world was closed")
	if c.conn != nil {
		cause = c.conn.Err()
	}
	c.note(int(c.Progress().Sent), false, fmt.Errorf("%w: %w", ErrClosed, cause))
}

// usable fails when the calls were canceled, or can no longer go where the first one went.
func (c *Calling) usable() error {
	c.mu.Lock()
	canceled := c.canceled
	c.mu.Unlock()
	switch {
	case canceled != nil:
		return canceled
	case !c.actor.Alive():
		return fmt.Errorf("%w: the actor was destroyed or closed", ErrClosed)
	case c.actor.Conn() != c.conn:
		return fmt.Errorf("%w: the actor has another owner", ErrCanceled)
	case c.conn != nil && !c.channel.Open():
		return fmt.Errorf("%w: %v", ErrClosed, c.conn)
	case c.conn != nil && c.actor.Channel(c.conn) != c.channel:
		return fmt.Errorf("%w: the actor was closed for %v", ErrClosed, c.conn)
	}
	return nil
}

// localChannel paces calls that run in this world and fill no reliable buffer: each tick makes as many as half a buffer would take.
type localChannel struct{ out int }

func (l *localChannel) Reliable() (out, slots int) { return l.out, localSlots }

// localSlots is UE's RELIABLE_BUFFER: there is no channel to ask.
const localSlots = 256

// checkElements fails when an element encodes to more than its bound; first is the index of part[0].
func checkElements[T any](item *codec.Codec, part []T, first int, bound elementBound) error {
	if bound.holds {
		return nil
	}
	var scratch []byte
	for i := range part {
		b, err := item.Append(scratch[:0], &part[i])
		if err != nil {
			return fmt.Errorf("stream: element %d: %w", first+i, tooLong(err))
		}
		if len(b) > bound.bytes {
			return fmt.Errorf("%w: element %d takes %d bytes, its bound is %d", ErrTooLarge, first+i, len(b), bound.bytes)
		}
		scratch = b
	}
	return nil
}

// callList has the [Calls] of one world that go on. It belongs to the world's goroutine.
type callList struct {
	active []*Calling
}

// callsOf returns the list of a world. The first Calls makes it, on the world's goroutine: it needs no Install.
func callsOf(w *rpc.World) *callList {
	return extend.Keep(w, func() any {
		list := &callList{}
		w.OnTick(list.tick)
		return list
	}).(*callList)
}

// add gives c a turn in the next tick, and makes a world that waits for events have one: this tick may have passed the list.
func (l *callList) add(c *Calling) {
	l.active = append(l.active, c)
	extend.Wake(c.actor.World())
}

// tick gives each Calling its turn. Those that begin meanwhile have theirs in the next tick.
func (l *callList) tick(time.Time) {
	defer func() { l.active = slices.DeleteFunc(l.active, (*Calling).isOver) }() // also when one panics
	for _, c := range l.active {
		c.tick()
	}
}
