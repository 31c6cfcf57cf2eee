package storetest

import (
	"context"
	"io/fs"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Memory is a store in memory. It is for concurrent use; its zero value is empty.
type Memory struct {
	Now func() time.Time // nil: time.Now

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	data []byte
	time time.Time
}

var _ store.Store = (*Memory)(nil)

// Get implements [store.Store].
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return nil, &fs.PathError{Op: "get", Path: key, Err: fs.ErrNotExist}
	}
	return slices.Clone(o.data), context.Cause(ctx)
}

// Put implements [store.Store].
func (m *Memory) Put(ctx context.Context, key string, data []byte) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return &fs.PathError{Op: "put", Path: key, Err: fs.ErrExist}
	}
	if m.objects == nil {
		m.objects = make(map[string]object)
	}
	m.objects[key] = object{slices.Clone(data), now()}
	return context.Cause(ctx)
}

// List implements [store.Store].
func (m *Memory) List(ctx context.Context, dir string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		m.mu.Lock()
		objects := maps.Clone(m.objects)
		m.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			o := objects[key]
			if (dir == "" || strings.HasPrefix(key, dir+"/")) && !yield(store.Object{Key: key, Size: int64(len(o.data)), Time: o.time}, context.Cause(ctx)) {
				return
			}
		}
	}
}

// Delete implements [store.Store].
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.objects, key)
	}
	return context.Cause(ctx)
}

// Room implements [store.Store].
func (m *Memory) Room(context.Context) (int64, error) { return math.MaxInt64, nil }

// Damage changes a byte of an object.
func (m *Memory) Damage(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.objects[key].data
	data[len(data)/2] ^= 1
}
