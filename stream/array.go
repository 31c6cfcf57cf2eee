package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/rpc"
)

// An Array is a topic whose transfers are arrays of T. Declare it once, in a package that both
// ends share.
type Array[T any] struct {
	name         string
	codec        *codec.Codec // of T
	elementBytes int          // maximum size of an encoded element
	maxPart      int          // maximum bytes of elements in one RPC; 0 for the backend's default
	shape        uint64       // shape of T; the receiver compares it with the one in the header
}

// An ArrayOption adjusts an array where it is declared.
type ArrayOption func(*arrayOptions)

// arrayOptions holds the arguments of MaxElementBytes and MaxBytesPerRPC, or 0.
type arrayOptions struct{ element, part int }

// MaxElementBytes sets the maximum size of an encoded element in bytes, in place of the bound that
// follows from the element's type. n is from the size of the smallest element to 65,472, or 0, the
// default, to keep the type's bound. A transfer with a larger element fails.
func MaxElementBytes(n int) ArrayOption { return func(o *arrayOptions) { o.element = n } }

// MaxBytesPerRPC sets the maximum number of bytes of elements in one RPC. An RPC carries as many
// whole elements as fit, but at least one. n is from 1 to 65,472, or 0, the default, for 32 KiB
// minus headers, or 28 KiB with [Slices]. It corresponds to the value of the same name that the
// article computes in its loop.
//
// Small RPCs let the game's own traffic in between them and suit a small reliable buffer, whereas
// large RPCs cost less CPU. Since an RPC must fit into the part of the reliable buffer that the
// Window's Share leaves free, which is half of the buffer by default, and into MaxBunch, RPCs are
// smaller if these are. If an element might not fit, a transfer fails before it sends any.
func MaxBytesPerRPC(n int) ArrayOption { return func(o *arrayOptions) { o.part = n } }

// NewArray declares an array. The name has 1 to 64 bytes.
//
// T may be any type that an argument of package rpc may have: NewArray[Item], but not
// NewArray[*Item]. Strings, slices and maps in T need a bound, because the maximum size of an
// encoded element depends on it. NewArray panics if a bound is missing, or if an element might not
// fit into the largest bunch.
//
// An element is encoded like an argument of package rpc. An integer takes 1 byte up to 127, 2 up to
// 255, 3 up to 65,535, 5 up to 32 bits and 9 beyond that. A float takes 5 or 9 bytes. A struct of
// up to 15 fields takes 1 byte more than its fields. For example, a value above 255 in a []uint16
// takes 3 bytes, to which packet headers add 8 %.
//
// Many numbers take fewer bytes in an element that encodes itself. For example, a type page
// [256]uint16 with the methods AppendBinary and UnmarshalBinary takes 514 bytes, or 2.01 bytes per
// value. Such an element is bounded by its MaxEncodedSize, which doesn't include its length of 1 to
// 4 bytes, or by [MaxElementBytes], which does.
//
// If T has a method Validate() error, a goroutine of the transfer calls it before an element is
// sent, and again after the element has been received. If Validate returns an error, the transfer
// ends with ErrCanceled at both ends.
//
// Unlike classes, topics are not compared when two ends connect. If the receiver has no handler
// for the topic, or its elements have different fields, the transfer fails with ErrRejected and
// the sender's error says why. If fields differ, it lists those of both ends.
func NewArray[T any](name string, opts ...ArrayOption) *Array[T] {
	mustTopic(name)
	var o arrayOptions
	for i, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("stream: array %q: option %d is nil", name, i+1))
		}
		opt(&o)
	}
	t := reflect.TypeFor[T]()
	switch {
	case t == reflect.TypeFor[rpc.Raw]():
		panic(fmt.Sprintf("stream: array %q of rpc.Raw: use a blob", name))
	case t.Size() == 0:
		panic(fmt.Sprintf("stream: array %q of %v: element type has size 0", name, t))
	}
	a := &Array[T]{name: name, maxPart: o.part}
	if err := a.declare(t, o.element); err != nil {
		panic(fmt.Sprintf("stream: array %q: %v", name, err))
	}
	return a
}

// declare sets the fields that follow from t. maxBytes is the argument of MaxElementBytes, or 0.
func (a *Array[T]) declare(t reflect.Type, maxBytes int) error {
	c, err := codec.Of(t)
	if err != nil {
		return err
	}
	bound, err := boundOf(c, maxBytes)
	if err != nil {
		return err
	}
	if _, err := elementsPerRPC(a.maxPart, bound.bytes); err != nil {
		return err
	}
	shape := c.Shape()
	a.codec = c
	a.shape = binary.BigEndian.Uint64(shape[:])
	a.elementBytes = bound.bytes
	return nil
}

// Start sends items to peer. It returns at once. The items must not change until
// [Transfer.Done] is closed. Any number of transfers may share them.
func (a *Array[T]) Start(peer *Peer, items []T, opts ...Option) (*Transfer, error) {
	h := header{kind: kindArray, topic: a.name, size: -1, count: int64(len(items)), shape: a.shape}
	setPart := func(o *options) { o.part, o.element = a.maxPart, a.elementBytes }
	return peer.start(h, &arraySource[T]{array: a, items: items}, append(slices.Clip(opts), setPart))
}

// Send calls Start and waits until the transfer ends. If ctx ends first, Send cancels the
// transfer.
func (a *Array[T]) Send(ctx context.Context, peer *Peer, items []T, opts ...Option) error {
	return send(ctx, peer, "Array.Send", func() (*Transfer, error) { return a.Start(peer, items, opts...) })
}

// An arraySource is the source of an array's transfer. It encodes the items just before they
// are sent.
type arraySource[T any] struct {
	array *Array[T]
	items []T // the caller's, who must not change them until the transfer is done
	next  int // index of the next item to encode
}

func (s *arraySource[T]) callbackName() string    { return fmt.Sprintf("encoding of element %d", s.next) }
func (s *arraySource[T]) readsCallerMemory() bool { return true }
func (s *arraySource[T]) fields() string          { return s.array.fields() }

func (s *arraySource[T]) fill(b *block, stopAt int64) error {
	until := len(s.items)
	if stopAt >= 0 {
		until = min(until, int(stopAt))
	}
	// The size of an item isn't known before it's encoded, so stop when an item of the maximum size
	// wouldn't fit. An empty block takes one item in any case.
	for s.next < until && (b.count == 0 || len(b.room()) >= s.array.elementBytes) {
		if err := s.encode(b); err != nil {
			return err
		}
	}
	if s.next == len(s.items) {
		return io.EOF
	}
	return nil
}

// encode appends the next item to b, which grows if it's empty and the item doesn't fit.
func (s *arraySource[T]) encode(b *block) error {
	grown, err := s.array.append(b.buf, &s.items[s.next])
	if err != nil {
		return fmt.Errorf("element %d: %w", s.next, err)
	}
	b.buf = grown
	b.count++
	s.next++
	return nil
}

// append appends the encoding of item to b. It returns an error if the item is invalid or too
// large.
func (a *Array[T]) append(b []byte, item *T) ([]byte, error) {
	if err := a.validate(item); err != nil {
		return b, err
	}
	grown, err := a.codec.Append(b, item)
	if err == nil {
		err = a.checkSize(len(grown) - len(b))
	}
	return grown, tooLong(err)
}

// validate calls the element's Validate, if it has one, as package rpc does for an argument.
func (a *Array[T]) validate(item *T) error {
	if err := a.codec.Validate(item); err != nil {
		return fmt.Errorf("invalid: %w", err)
	}
	return nil
}

// checkSize returns an error if an encoded element of size bytes is too large. That can only happen
// with MaxElementBytes, since any other bound is the sum of the fields' bounds, which the codec has
// checked.
func (a *Array[T]) checkSize(size int) error {
	if size <= a.elementBytes {
		return nil
	}
	return fmt.Errorf("%w: element has %d bytes; the limit is %d (MaxElementBytes)", ErrTooLarge, size, a.elementBytes)
}

// Handle makes fn the handler for incoming transfers of the array. fn is called on the world's
// goroutine. Handle panics if fn is nil, or if the array already has a handler.
func (a *Array[T]) Handle(s *Streams, fn func(*IncomingArray[T])) {
	t := topic{kind: kindArray, shape: a.shape, fields: a.fields}
	if fn != nil {
		t.open = func(in *incoming) {
			in.decode = a.decode
			fn(&IncomingArray[T]{Incoming: Incoming{in}})
		}
	}
	s.handle(a.name, t)
}

// fields describes the fields of an element, for the error if they differ at the other end.
func (a *Array[T]) fields() string {
	return strings.Join(a.codec.AppendOutline([]string{a.codec.Name()}, ""), ", ")
}

// decode is the decodeFunc of the array. It decodes count elements from b, or all elements in b if
// count is negative, but stops early once the batch has reached batchBytes of memory.
func (a *Array[T]) decode(b []byte, count int) (p piece, err error) {
	batch := make([]T, 0, batchCap[T](len(b), count))
	rest := b
	size := int64(reflect.TypeFor[T]().Size())
	for len(rest) > 0 && len(batch) != count && p.cost < batchBytes {
		var item T
		batch = append(batch, item)
		var memory int
		rest, memory, err = a.next(rest, &batch[len(batch)-1])
		if err != nil {
			// The elements before this one are valid, so return them along with the error.
			batch = batch[:len(batch)-1]
			break
		}
		p.cost += size + int64(memory)
	}
	p.batch = batch
	p.bytes = int64(len(b) - len(rest))
	p.units = int64(len(batch))
	p.fresh = true
	if err == nil && len(rest) == 0 && len(batch) < count {
		err = fmt.Errorf("only %d elements of %d announced", len(batch), count)
	}
	return p, err
}

// next decodes an element into item and validates it. memory is the number of bytes that the
// element uses in addition to item itself, such as the content of its slices. After an error, rest
// is b.
func (a *Array[T]) next(b []byte, item *T) (rest []byte, memory int, err error) {
	rest, memory, err = a.codec.Next(b, item)
	if err == nil {
		err = a.checkSize(len(b) - len(rest))
	}
	if err == nil {
		err = a.validate(item)
	}
	if err != nil {
		return b, 0, tooLong(err)
	}
	return rest, memory, nil
}

// batchCap returns the capacity to allocate for a batch of count elements, or of an unknown
// number if count is negative.
//
// The sender chose count, which can't be trusted, so the capacity is limited to batchBytes of
// memory and to four elements for each byte received.
func batchCap[T any](bytes, count int) int {
	size := int(reflect.TypeFor[T]().Size())
	maxCap := min(1+4*bytes/size, 1+batchBytes/size)
	if count < 0 {
		return min(bytes, maxCap)
	}
	return min(count, maxCap)
}

// An IncomingArray is an array at its receiver. OnBatch pushes its elements to the application,
// whereas Batches and Collect let the application pull them. The sender waits until they are
// consumed.
type IncomingArray[T any] struct {
	Incoming
	claimed *claim // who takes the elements; nil if nobody does yet; guarded by incoming.mu
}

// A claim belongs to the call of OnBatch, Batches or Collect that takes the elements of an array.
type claim struct {
	method string
	loops  bool // a loop has begun to take them
}

// OnBatch registers fn to be called on the world's goroutine with the elements, batch by batch and
// in order.
//
// Each tick in which elements are waiting calls fn at least once, and again until the tick has used
// up its time for bulk, which is an eighth of the time between two ticks.
//
// OnBatch must be called by the transfer's handler. It panics if fn is nil, or if OnBatch,
// Batches or Collect was called before.
func (a *IncomingArray[T]) OnBatch(fn func(batch []T)) {
	if fn == nil {
		panic(fmt.Sprintf("stream: OnBatch of %v: function is nil", &a.in.header))
	}
	a.claim(&claim{method: "OnBatch"})
	a.in.delivery.onBatch = func(batch any) { fn(batch.([]T)) }
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	a.in.delivery.onTick = true
}

var errLoopLeft = errors.New("loop over Batches ended early")

// Batches yields the elements, batch by batch and in order. If the transfer fails, the last
// pair holds the error. Leaving the loop early cancels the transfer. Only one goroutine may use
// Batches.
//
// The loop blocks. On the world's goroutine, its only pair therefore holds ErrBlocking. The
// transfer then continues as if Batches hadn't been called, and another goroutine may loop over it.
//
// Batches panics if OnBatch, Batches or Collect was called before. So does a loop if one of them
// was called after ErrBlocking.
func (a *IncomingArray[T]) Batches(ctx context.Context) iter.Seq2[[]T, error] {
	return a.batches(ctx, &claim{method: "Batches"})
}

// batches is Batches, for the method that c names.
func (a *IncomingArray[T]) batches(ctx context.Context, c *claim) iter.Seq2[[]T, error] {
	a.claim(c)
	return func(yield func([]T, error) bool) {
		if err := a.in.delivery.mayWait(); err != nil {
			a.unclaim(c)
			yield(nil, err)
			return
		}
		a.beginLoop(c)
		// If the loop is left early, perhaps by a panic, cancel the transfer. Otherwise the
		// transfer has already ended, and Cancel is a no-op.
		defer func() { a.Cancel(errLoopLeft) }()
		for {
			p, err := a.in.delivery.pull(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				a.Cancel(err)
				yield(nil, err)
				return
			}
			if !yield(p.batch.([]T), nil) {
				return
			}
			a.in.delivery.markConsumed(p)
		}
	}
}

// Collect returns all elements. If ctx ends before the transfer is complete, Collect cancels
// the transfer. On the world's goroutine, Collect only returns ErrBlocking: the transfer continues,
// and another goroutine may collect it.
//
// Config.MaxBytes only limits the encoded size. In memory, structs of zeros are about twenty times
// as large, and maps up to a hundred times. If the peer isn't trusted, use Batches and count the
// elements.
func (a *IncomingArray[T]) Collect(ctx context.Context) ([]T, error) {
	if err := a.in.delivery.mayWait(); err != nil {
		return nil, err
	}
	var all []T
	for batch, err := range a.batches(ctx, &claim{method: "Collect"}) {
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
	}
	return all, nil
}

// claim gives the elements to c, which may have them already. It panics if they belong to another
// claim.
func (a *IncomingArray[T]) claim(c *claim) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.claimed != nil && a.claimed != c {
		panic(fmt.Sprintf("stream: %s of %v: %s was already called", c.method, &a.in.header, a.claimed.method))
	}
	a.claimed = c
}

// beginLoop begins a loop, which takes the elements of c. It claims them again, because an earlier
// loop may have given up the claim.
func (a *IncomingArray[T]) beginLoop(c *claim) {
	a.claim(c)
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	c.loops = true
}

// unclaim takes the elements from c, if they belong to it and no loop has begun to take them.
func (a *IncomingArray[T]) unclaim(c *claim) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.claimed == c && !c.loops {
		a.claimed = nil
	}
}
