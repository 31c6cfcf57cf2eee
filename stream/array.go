package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/quivernet/quiver/rpc"
)

// Array is a topic whose transfers are arrays of T. Declare it once, in a package that both ends share.
type Array[T any] struct {
	name    string
	element int    // pessimistic size in bytes
	shape   uint64 // of T, in the header of a transfer
}

// ArrayOption adjusts an array where it is declared.
type ArrayOption func(*arrayOptions)

type arrayOptions struct{ element int }

// MaxElementBytes bounds the encoded size of an element, in place of what its type says. An element that breaks it
// fails its transfer.
func MaxElementBytes(n int) ArrayOption { return func(o *arrayOptions) { o.element = n } }

// NewArray declares an array. The name has 1 to 64 bytes. An element is what an argument of package rpc may be, and the
// worst-case size of one follows from its type; strings, slices and maps in it need a bound. NewArray panics when they
// have none, or when an element may not fit the largest bunch.
func NewArray[T any](name string, opts ...ArrayOption) *Array[T] {
	mustTopic(name)
	var o arrayOptions
	for _, opt := range opts {
		opt(&o)
	}
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[rpc.Raw]() || t.Size() == 0 {
		panic(fmt.Sprintf("stream: array %q of %v: use a blob", name, t))
	}
	bound, encoding, err := boundOf(t, o.element)
	if err == nil {
		_, err = elementsPerRPC(0, bound.bytes)
	}
	if err != nil {
		panic(fmt.Sprintf("stream: array %q: %v", name, err))
	}
	return &Array[T]{name: name, element: bound.bytes, shape: binary.BigEndian.Uint64(encoding.Shape[:])}
}

// Start sends items to peer. It returns at once; items must not change until the transfer has ended. Any number of
// transfers may share them.
func (a *Array[T]) Start(peer *Peer, items []T, opts ...Option) (*Transfer, error) {
	h := header{kind: kindArray, topic: a.name, size: -1, count: int64(len(items)), shape: a.shape}
	return peer.start(h, &arraySource[T]{array: a, items: items}, opts)
}

// Send is Start and Wait; when ctx ends, the transfer is canceled.
func (a *Array[T]) Send(ctx context.Context, peer *Peer, items []T, opts ...Option) error {
	if peer.inside() {
		return fmt.Errorf("%w: Array.Send", ErrBlocking)
	}
	t, err := a.Start(peer, items, opts...)
	if err != nil {
		return err
	}
	return t.waitOrCancel(ctx)
}

// arraySource encodes items.
type arraySource[T any] struct {
	array *Array[T]
	items []T
	next  int
}

func (s *arraySource[T]) calls() string { return fmt.Sprintf("the encoding of element %d", s.next) }

func (s *arraySource[T]) fill(c *block, stopAt int64) error {
	most := len(s.items)
	if stopAt >= 0 {
		most = min(most, int(stopAt))
	}
	for s.next < most && (c.count == 0 || len(c.room()) >= s.array.element) {
		if err := s.encode(c); err != nil {
			return err
		}
	}
	if s.next == len(s.items) {
		return io.EOF
	}
	return nil
}

// encode appends the next item to c. One that is larger than c makes c grow: it will travel alone.
func (s *arraySource[T]) encode(c *block) error {
	before := len(c.buf)
	grown, err := rpc.AppendValue(c.buf, &s.items[s.next])
	if err == nil {
		err = s.array.check(len(grown) - before)
	}
	if err != nil {
		return fmt.Errorf("element %d: %w", s.next, tooLong(err))
	}
	c.buf = grown
	c.count++
	s.next++
	return nil
}

// check compares the encoded size of an element with the array's bound, which the bounds of its parts imply unless it is
// MaxElementBytes.
func (a *Array[T]) check(size int) error {
	if size <= a.element {
		return nil
	}
	return fmt.Errorf("%w: it takes %d bytes, the bound is %d (MaxElementBytes)", ErrTooLarge, size, a.element)
}

// tooLong makes an element with a part beyond its bound an ErrTooLarge.
func tooLong(err error) error {
	if errors.Is(err, rpc.ErrTooLong) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// Handle gives incoming transfers of the array to fn, on the world's goroutine. It panics when they have a handler.
func (a *Array[T]) Handle(s *Streams, fn func(*IncomingArray[T])) {
	s.handle(a.name, topic{kind: kindArray, shape: a.shape, open: func(in *incoming) {
		in.decode = a.decode
		in.each = int64(reflect.TypeFor[T]().Size())
		fn(&IncomingArray[T]{Incoming: Incoming{in}})
	}})
}

// decode is a decodeFunc.
func (a *Array[T]) decode(b []byte, count int) (any, int, []byte, error) {
	batch := make([]T, 0, batchCap[T](len(b), count))
	for len(b) > 0 && len(batch) != count {
		n := len(batch)
		var zero T
		batch = append(batch, zero)
		rest, err := rpc.DecodeValue(b, &batch[n])
		switch {
		case err != nil:
		case len(rest) == len(b):
			err = errors.New("an element of no bytes")
		default:
			err = a.check(len(b) - len(rest))
		}
		if err != nil {
			return batch[:n], n, b, tooLong(err)
		}
		b = rest
	}
	if len(batch) < count {
		return batch, len(batch), b, fmt.Errorf("%d elements where %d were announced", len(batch), count)
	}
	return batch, len(batch), b, nil
}

// batchCap believes in count only as far as elements take about as much memory as bytes.
func batchCap[T any](bytes, count int) int {
	most := 1 + 4*bytes/int(reflect.TypeFor[T]().Size())
	if count < 0 {
		return min(bytes, most)
	}
	return min(count, most)
}

// IncomingArray is an array at its receiver. The elements are either pushed, by OnBatch, or pulled, by Batches or
// Collect. Not consuming them makes the sender wait.
type IncomingArray[T any] struct {
	Incoming
	pulled bool
}

// OnBatch runs fn on the world's goroutine, in its ticks, with the next elements, in order. It is for the handler that
// is given the transfer, and panics when the elements are taken already.
func (a *IncomingArray[T]) OnBatch(fn func(batch []T)) {
	a.claim("OnBatch")
	a.in.push = func(batch any) { fn(batch.([]T)) }
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	a.in.onTick = true
}

var errLoopLeft = errors.New("the loop over Batches was left")

// Batches yields the elements, in order, and at last the error if the transfer failed. Leaving the loop early cancels
// the transfer. It is for one goroutine, and not the world's.
func (a *IncomingArray[T]) Batches(ctx context.Context) iter.Seq2[[]T, error] {
	a.claim("Batches")
	return func(yield func([]T, error) bool) {
		defer func() { a.Cancel(errLoopLeft) }() // for a loop that is left, by a panic too; else the transfer has ended
		for {
			p, err := a.in.pull(ctx)
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
			a.in.consumed(p)
		}
	}
}

// Collect returns all elements. When ctx ends first, the transfer is canceled.
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

func (a *IncomingArray[T]) claim(by string) {
	if a.pulled {
		panic(fmt.Sprintf("stream: %s of %v: its elements are taken already", by, &a.in.header))
	}
	a.pulled = true
}
