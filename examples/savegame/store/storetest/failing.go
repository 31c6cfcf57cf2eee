package storetest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// ErrFailing is the error of calls of [Failing] that fail.
var ErrFailing = errors.New("the store fails this time")

// Failing is a store of which one call in so many fails: half of these before
// anything was done, and half afterwards, as if an answer was lost.
type Failing struct {
	store.Store

	mu   sync.Mutex
	rand *rand.Rand
	one  int
}

// NewFailing returns a store of which one call in n fails; 0 = none.
func NewFailing(s store.Store, r *rand.Rand, n int) *Failing {
	return &Failing{Store: s, rand: r, one: n}
}

// Fail changes how often calls fail.
func (f *Failing) Fail(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.one = n
}

// fails decides whether a call fails, and when.
func (f *Failing) fails() (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.one == 0 || f.rand.IntN(f.one) != 0 {
		return nil, nil
	}
	if f.rand.IntN(2) == 0 {
		return ErrFailing, nil
	}
	return nil, ErrFailing
}

func (f *Failing) call(fn func() error) error {
	before, after := f.fails()
	if before != nil {
		return before
	}
	return errors.Join(fn(), after)
}

// Get implements [store.Store].
func (f *Failing) Get(ctx context.Context, key string) (data []byte, err error) {
	err = f.call(func() (err error) {
		data, err = f.Store.Get(ctx, key)
		return err
	})
	return data, err
}

// Put implements [store.Store].
func (f *Failing) Put(ctx context.Context, key string, data []byte) error {
	return f.call(func() error { return f.Store.Put(ctx, key, data) })
}

// Start implements [store.Store]. If wait fails, it does so after everything was done.
func (f *Failing) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	before, after := f.fails()
	if before != nil {
		return nil, before
	}
	put, err := f.Store.Start(ctx, key, data)
	if err != nil {
		return nil, errors.Join(err, after)
	}
	return func() error { return errors.Join(put(), after) }, nil
}

// Room implements [store.Store].
func (f *Failing) Room(ctx context.Context) (bytes int64, err error) {
	err = f.call(func() (err error) {
		bytes, err = f.Store.Room(ctx)
		return err
	})
	return bytes, err
}

// Delete implements [store.Store]. If it fails, it may have deleted some objects.
func (f *Failing) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := f.call(func() error { return f.Store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}

// List implements [store.Store]. It is one call, which fails at its beginning or at its end.
func (f *Failing) List(ctx context.Context, dir string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		before, after := f.fails()
		if before != nil {
			yield(store.Object{}, before)
			return
		}
		for o, err := range f.Store.List(ctx, dir) {
			if !yield(o, err) || err != nil {
				return
			}
		}
		if after != nil {
			yield(store.Object{}, after)
		}
	}
}
