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

// Wrap returns a Caller of []T for an RPC whose argument contains a []T among other things.
// wrap returns the argument for given items. Before the first RPC, [Calls] calls wrap once
// without items, to learn how many bytes the rest of the argument takes.
func Wrap[T, A any](call Caller[A], wrap func(items []T) A) Caller[[]T] {
	return wrapped[T, A]{call, wrap}
}

// wrapped is the Caller that Wrap returns.
type wrapped[T, A any] struct {
	call Caller[A]
	wrap func(items []T) A
}

func (w wrapped[T, A]) Call(actor *rpc.Actor, items []T) error {
	return w.call.Call(actor, w.wrap(items))
}

func (w wrapped[T, A]) String() string { return w.call.String() }

func (w wrapped[T, A]) Delivery() bunch.Delivery { return w.call.Delivery() }

// overhead returns the number of bytes that the argument takes without the items.
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

// CallsConfig adjusts one [Calls]. The zero value has the article's values: RPCs of 32 KiB, a
// gate at half of the reliable buffer, and no closing RPC.
type CallsConfig struct {
	// End is the closing RPC. It is called after the last items and arrives after them. If it
	// is nil, there is no closing RPC.
	End Caller[rpc.None]
	// Gate is tested before each RPC. Its QueueTime limits the time for which the actor's
	// other RPCs wait for queued items.
	Gate Gate
	// MaxBytesPerRPC limits the bytes of items in one RPC. The default is 32 KiB, and the
	// maximum is 64 KiB minus headers.
	MaxBytesPerRPC int
	// MaxElementBytes is the size of the largest encoded item. It is needed if the item type
	// has no bound.
	MaxElementBytes int
}

// Calls sends items with one of the game's own reliable RPCs, as many in each call as fit. The
// world's ticks make the calls while the gate of the actor's channel is open. The calls are
// ordered with the actor's other calls.
//
//	stream.Calls(game.ReceiveData, controller, data, stream.CallsConfig{End: game.NotifyAllDataReceived})
//
// Like the RPC itself, Calls must be called on the world's goroutine. The items must not
// change until Done is closed.
func Calls[T any](call Caller[[]T], actor *rpc.Actor, items []T, config CallsConfig) (*Calling, error) {
	if isMulticast(call) {
		return nil, fmt.Errorf("stream: Calls of %v: a Multicast has a reliable buffer for each client; "+
			"use a Client RPC", call)
	}
	if actor == nil {
		return nil, fmt.Errorf("stream: Calls of %v on a nil *Actor", call)
	}
	if call.Delivery() != rpc.Reliable {
		return nil, fmt.Errorf("stream: Calls of %v: its delivery is not rpc.Reliable, "+
			"so it fills no reliable buffer and all of it would leave at once", call)
	}

	c, err := newCalling(call, actor, items, config)
	if err != nil {
		return nil, fmt.Errorf("stream: Calls of %v: %w", call, err)
	}
	return c, nil
}

// newCalling returns a Calling that has started.
func newCalling[T any](call Caller[[]T], actor *rpc.Actor, items []T, config CallsConfig) (*Calling, error) {
	// Compute the number of items that fit into an RPC, and the size of the whole RPC.
	item, err := itemCodec(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	bound, err := boundOf(item, config.MaxElementBytes)
	if err != nil {
		return nil, err
	}
	per, err := elementsPerRPC(config.MaxBytesPerRPC, bound.bytes)
	if err != nil {
		return nil, err
	}
	bytes, err := rpcBytes(call, per*bound.bytes)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	return c, nil
}

// itemCodec returns the codec of the items in an argument's slice. It also allows items that
// can be encoded only on their own, because a [Wrap] may write them into an rpc.Raw.
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

// rpcBytes returns the size of an RPC that carries the given number of bytes of items.
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
		return 0, fmt.Errorf("%w: an RPC may take %d bytes, the limit is %d; lower MaxBytesPerRPC",
			ErrTooLarge, bytes, maxRPCBytes)
	}
	return bytes, nil
}

// isMulticast reports whether call, or the RPC that it wraps, is a Multicast.
func isMulticast[A any](call Caller[A]) bool {
	if w, ok := call.(interface{ multicast() bool }); ok {
		return w.multicast()
	}
	_, ok := call.(*rpc.MulticastRPC[A])
	return ok
}

// A Calling is one [Calls] in progress. It is safe for concurrent use.
type Calling struct {
	// Set by Calls.
	name  string // of the RPC; for errors
	actor *rpc.Actor
	items int // number of items
	per   int // items in one RPC

	// Used by the world's goroutine only.
	conn    *rpc.Conn     // nil if the calls run in this world
	channel rpc.Channel   // the actor's channel; not set if conn is nil
	local   *localChannel // used instead of channel; nil unless the calls run in this world
	pump    *Pump

	// mu guards this group, which any goroutine of the application may read or set.
	mu       sync.Mutex
	sent     int   // items sent, as of the last tick
	canceled error // set by Cancel; the next tick ends the calls with it
	ended    bool  // done is closed
	err      error
	done     chan struct{}
}

// Done returns a channel that is closed when the closing RPC is in the reliable buffer, or
// when Err is set. The items may not have arrived yet. Only the peer can report their arrival,
// with an RPC in the other direction.
func (c *Calling) Done() <-chan struct{} { return c.done }

// Err returns the reason why not all items were sent. It returns nil before Done is closed.
func (c *Calling) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Progress counts items. Acked and Rate are always 0.
func (c *Calling) Progress() Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Progress{Sent: int64(c.sent), Total: int64(c.items)}
}

// Cancel stops before the next RPC, at the world's next tick. The closing RPC is not sent. Err
// will return an error that Is ErrCanceled and wraps cause.
func (c *Calling) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled == nil && !c.ended {
		c.canceled = canceled(cause)
		extend.Wake(c.actor.World()) // otherwise a world that waits for events would not tick
	}
}

// start connects the pump to the actor's channel, and adds c to the world's ticks.
func (c *Calling) start(config CallsConfig, entries int, emit func(int) error) error {
	ch, err := c.connect()
	if err != nil {
		return err
	}

	var end func() error
	if config.End != nil {
		closing := func() error { return config.End.Call(c.actor, rpc.None{}) }
		end = func() error { return c.counted(closing) }
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

// ending returns a channel that is closed when ticks may no longer happen. That is the end of
// the connection or, for calls that run in this world, of the world.
func (c *Calling) ending() <-chan struct{} {
	if c.conn != nil {
		return c.conn.Done()
	}
	return extend.Closed(c.actor.World())
}

// connect returns the channel that the calls will use.
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

// counted makes one call, and counts it in the local channel if that is used.
//
// For a call to a client that has gone, counted returns an error. rpc would only count the
// call as a drop, and Progress would include items that were never sent.
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

// tick is called in each tick of the world.
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

// step makes the calls that the gate allows. If the encoding of an item panics, the Calling
// ends. The panic continues unless rpc.Config.OnPanic is set.
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

// note publishes the number of items sent. It ends the Calling if done is set or err is not
// nil.
func (c *Calling) note(sent int, done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.sent = sent
	c.ended = done || err != nil
	if err != nil {
		c.err = fmt.Errorf("stream: Calls of %s: %d of %d items were sent: %w", c.name, sent, c.items, err)
	}
	if c.ended {
		close(c.done)
	}
}

// isOver reports whether the Calling has ended.
func (c *Calling) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// orphaned ends the Calling after the end of its connection or world, if no tick has done so.
// It runs on a goroutine of its own.
func (c *Calling) orphaned() {
	cause := errors.New("their world was closed")
	if c.conn != nil {
		cause = c.conn.Err()
	}
	c.note(int(c.Progress().Sent), false, fmt.Errorf("%w: %w", ErrClosed, cause))
}

// usable returns an error if the Calling was canceled, or if further calls would not go where
// the first one went.
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

// A localChannel paces calls that run in this world and use no reliable buffer. Each tick
// makes as many calls as half a buffer would hold.
type localChannel struct{ out int }

func (l *localChannel) Reliable() (out, slots int) { return l.out, localSlots }

// localSlots is UE's RELIABLE_BUFFER. There is no channel to ask for its size.
const localSlots = 256

// checkElements returns an error if an element encodes to more than its bound.
// first is the index of part[0].
func checkElements[T any](item *codec.Codec, part []T, first int, bound elementBound) error {
	if bound.guaranteed {
		return nil
	}
	var scratch []byte
	for i := range part {
		b, err := item.Append(scratch[:0], &part[i])
		if err != nil {
			return fmt.Errorf("stream: element %d: %w", first+i, tooLong(err))
		}
		if len(b) > bound.bytes {
			return fmt.Errorf("%w: element %d takes %d bytes, its bound is %d",
				ErrTooLarge, first+i, len(b), bound.bytes)
		}
		scratch = b
	}
	return nil
}

// A callList holds the active Callings of one world. It is used on the world's goroutine only.
type callList struct {
	active []*Calling
}

// callsOf returns the list of a world. The first Calls creates the list, on the world's
// goroutine, so Calls does not depend on Install.
func callsOf(w *rpc.World) *callList {
	return extend.Keep(w, func() any {
		list := &callList{}
		w.OnTick(list.tick)
		return list
	}).(*callList)
}

// add adds c to the next tick. The current tick may already have run the list, so add wakes a
// world that waits for events.
func (l *callList) add(c *Calling) {
	l.active = append(l.active, c)
	extend.Wake(c.actor.World())
}

// tick calls the tick of each Calling. A Calling that is added meanwhile runs in the next
// tick.
func (l *callList) tick(time.Time) {
	// Deferred, so that it also happens if one of them panics.
	defer func() { l.active = slices.DeleteFunc(l.active, (*Calling).isOver) }()
	for _, c := range l.active {
		c.tick()
	}
}
