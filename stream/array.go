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

// Array is a topic whose transfers are arrays of T. Declare it once, in a package that both ends share.
type Array[T any] struct {
	name    string
	codec   *codec.Codec // of T
	element int          // pessimistic size in bytes
	part    int          // most bytes of elements in one RPC; 0 = the backend's
	shape   uint64       // of T, in the header of a transfer
}

// ArrayOption adjusts an array where it is declared.
type ArrayOption func(*arrayOptions)

// arrayOptions is what the options of NewArray say; 0 = nothing.
type arrayOptions struct{ element, part int }

// MaxElementBytes bounds the encoded size of an element, in place of what its type says. A larger element fails its
// transfer.
func MaxElementBytes(n int) ArrayOption { return func(o *arrayOptions) { o.element = n } }

// MaxBytesPerRPC bounds the elements of one RPC, 1 to 65,472 bytes, in place of 32 KiB less headers (28 KiB by [Slices]): as
// many whole elements as fit, one at least. The article computes it in its loop. Small RPCs let play in between them and suit a
// small reliable buffer; large ones cost less CPU. The entries of an RPC must fit the part of the reliable buffer that the
// Window's Share leaves free, half by default: a transfer whose RPCs could overflow it fails before its first.
func MaxBytesPerRPC(n int) ArrayOption { return func(o *arrayOptions) { o.part = n } }

// NewArray declares an array. The name has 1 to 64 bytes. An element may be whatever an argument of package rpc may be, so
// NewArray[Item] and not NewArray[*Item]. Its worst-case size follows from its type; strings, slices and maps in it need a
// bound. NewArray panics when they have none, or when an element may not fit the largest bunch.
//
// An element travels as an argument of package rpc does: an integer takes 1 byte up to 127, 2 up to 255, 3 up to 65,535, 5 up to 32 bits and 9
// beyond, a float 5 or 9, a struct of up to 15 fields 1 byte more than they take. So each value of a []uint16 takes 3 bytes if it is above 255,
// and 8 % more for the headers of packets. Many numbers take less in an element that writes itself: a type page [256]uint16 with AppendBinary
// and UnmarshalBinary takes 514 bytes, 2.01 a value. Its MaxEncodedSize, without the length of 1 to 4 bytes, or [MaxElementBytes], with that,
// bounds it.
//
// If an element has a method Validate() error, a goroutine of the transfer calls it before the element leaves and after it
// has arrived. Its error ends the transfer, at both ends with ErrCanceled.
//
// Unlike classes, topics are not compared when two ends connect: a transfer whose elements have other fields at the receiver, or for which
// that has no handler, fails there with ErrRejected, and its sender is told why.
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
		panic(fmt.Sprintf("stream: array %q of %v: use a blob", name, t))
	}
	a := &Array[T]{name: name, part: o.part}
	if err := a.declare(t, o.element); err != nil {
		panic(fmt.Sprintf("stream: array %q: %v", name, err))
	}
	return a
}

// declare fills in what follows from t and from MaxElementBytes.
func (a *Array[T]) declare(t reflect.Type, given int) (err error) {
	if a.codec, err = codec.Of(t); err != nil {
		return err
	}
	bound, err := boundOf(a.codec, given)
	if err == nil {
		_, err = elementsPerRPC(a.part, bound.bytes)
	}
	shape := a.codec.Shape()
	a.element, a.shape = bound.bytes, binary.BigEndian.Uint64(shape[:])
	return err
}

// Start sends items to peer. It returns at once; items must not change until [Transfer.Done] is closed. Any number of
// transfers may share them.
func (a *Array[T]) Start(peer *Peer, items []T, opts ...Option) (*Transfer, error) {
	h := header{kind: kindArray, topic: a.name, size: -1, count: int64(len(items)), shape: a.shape}
	return peer.start(h, &arraySource[T]{array: a, items: items}, append(slices.Clip(opts), func(o *options) { o.part = a.part }))
}

// Send is Start and Wait; when ctx ends, the transfer is canceled.
func (a *Array[T]) Send(ctx context.Context, peer *Peer, items []T, opts ...Option) error {
	return send(ctx, peer, "Array.Send", func() (*Transfer, error) { return a.Start(peer, items, opts...) })
}

// arraySource encodes items.
type arraySource[T any] struct {
	array *Array[T]
	items []T
	next  int
}

func (s *arraySource[T]) callee() string { return fmt.Sprintf("the encoding of element %d", s.next) }
func (s *arraySource[T]) lent() bool     { return true }

func (s *arraySource[T]) fill(b *block, stopAt int64) error {
	most := len(s.items)
	if stopAt >= 0 {
		most = min(most, int(stopAt))
	}
	for s.next < most && (b.count == 0 || len(b.room()) >= s.array.element) {
		if err := s.encode(b); err != nil {
			return err
		}
	}
	if s.next == len(s.items) {
		return io.EOF
	}
	return nil
}

// encode appends the next item to b. An item that is larger than an empty block makes it grow, and travels alone.
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

// append appends an element, unless it is invalid or too large to travel.
func (a *Array[T]) append(b []byte, item *T) ([]byte, error) {
	if err := a.validate(item); err != nil {
		return b, err
	}
	grown, err := a.codec.Append(b, item)
	if err == nil {
		err = a.check(len(grown) - len(b))
	}
	return grown, tooLong(err)
}

// validate calls the element's Validate, as rpc does for an argument.
func (a *Array[T]) validate(item *T) error {
	if err := a.codec.Validate(item); err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	return nil
}

// check refuses an encoded size above the array's bound. Only MaxElementBytes can be exceeded: any other bound is the sum of
// those of the element's fields, which the codec has checked.
func (a *Array[T]) check(size int) error {
	if size <= a.element {
		return nil
	}
	return fmt.Errorf("%w: it takes %d bytes, the bound is %d (MaxElementBytes)", ErrTooLarge, size, a.element)
}

// tooLong makes the codec's error for a field beyond its bound an ErrTooLarge.
func tooLong(err error) error {
	if errors.Is(err, codec.ErrTooLong) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// Handle gives incoming transfers of the array to fn, on the world's goroutine. It panics when fn is nil, or the array has a handler
// already.
func (a *Array[T]) Handle(s *Streams, fn func(*IncomingArray[T])) {
	s.handle(a.name, topic{kind: kindArray, shape: a.shape, fields: a.fields, open: func(in *incoming) {
		in.decode = a.decode
		fn(&IncomingArray[T]{Incoming: Incoming{in}})
	}}, fn == nil)
}

// fields describes the elements for a sender whose own differ.
func (a *Array[T]) fields() string {
	return strings.Join(a.codec.AppendOutline([]string{a.codec.Name()}, ""), ", ")
}

// decode is a decodeFunc. It stops when the batch takes batchBytes of memory.
func (a *Array[T]) decode(b []byte, count int) (p piece, err error) {
	batch, rest := make([]T, 0, batchCap[T](len(b), count)), b
	size := int64(reflect.TypeFor[T]().Size())
	for len(rest) > 0 && len(batch) != count && p.cost < batchBytes {
		var item T
		batch = append(batch, item)
		var memory int
		if rest, memory, err = a.next(rest, &batch[len(batch)-1]); err != nil {
			batch = batch[:len(batch)-1]
			break
		}
		p.cost += size + int64(memory)
	}
	p.batch, p.bytes, p.units, p.fresh = batch, int64(len(b)-len(rest)), int64(len(batch)), true
	if err == nil && len(rest) == 0 && len(batch) < count {
		err = fmt.Errorf("%d elements where %d were announced", len(batch), count)
	}
	return p, err
}

// next decodes one element; on an error rest is b.
func (a *Array[T]) next(b []byte, item *T) (rest []byte, memory int, err error) {
	rest, memory, err = a.codec.Next(b, item)
	if err == nil {
		err = a.check(len(b) - len(rest))
	}
	if err == nil {
		err = a.validate(item)
	}
	if err != nil {
		return b, 0, tooLong(err)
	}
	return rest, memory, nil
}

// batchCap returns how many elements to make room for. count is the sender's word, so the room is bounded by four times the
// bytes that came, and by batchBytes.
func batchCap[T any](bytes, count int) int {
	size := int(reflect.TypeFor[T]().Size())
	most := min(1+4*bytes/size, 1+batchBytes/size)
	if count < 0 {
		return min(bytes, most)
	}
	return min(count, most)
}

// IncomingArray is an array at its receiver. The elements are either pushed, by OnBatch, or pulled, by Batches or
// Collect. Not consuming them makes the sender wait.
type IncomingArray[T any] struct {
	Incoming
	claimed bool
}

// OnBatch runs fn with the next elements, in order, on the world's goroutine: at least once in each tick while there are any, and
// more often until the tick has spent on bulk what it may, an eighth of the time between two. The handler that is given the
// transfer calls it. It panics when fn is nil, and after another OnBatch, Batches or Collect.
func (a *IncomingArray[T]) OnBatch(fn func(batch []T)) {
	if fn == nil {
		panic(fmt.Sprintf("stream: OnBatch of %v: no function", &a.in.header))
	}
	a.claim("OnBatch")
	a.in.delivery.push = func(batch any) { fn(batch.([]T)) }
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	a.in.delivery.onTick = true
}

var errLoopLeft = errors.New("the loop over Batches was left")

// Batches yields the elements, in order, and at last the error if the transfer failed. Leaving the loop early cancels
// the transfer. It is for one goroutine, and not the world's.
func (a *IncomingArray[T]) Batches(ctx context.Context) iter.Seq2[[]T, error] {
	a.claim("Batches")
	return func(yield func([]T, error) bool) {
		defer func() { a.Cancel(errLoopLeft) }() // for a loop that is left, by a panic too; else the transfer has ended
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
			a.in.delivery.consumed(p)
		}
	}
}

// Collect returns all elements. When ctx ends first, the transfer is canceled. Config.MaxBytes bounds their encoding: in memory structs of
// zeros take some twenty times as much, and maps up to a hundred times. From a peer that is not trusted take Batches, and count.
func (a *IncomingArray[T]) Collect(ctx context.Context) ([]T, error) {
	var all []T
	for batch, err := range a.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
	}
	return all, nil
}

// claim panics when another method has claimed the elements.
func (a *IncomingArray[T]) claim(by string) {
	if a.claimed {
		panic(fmt.Sprintf("stream: %s of %v: its elements are taken already", by, &a.in.header))
	}
	a.claimed = true
}
