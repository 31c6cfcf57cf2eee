package stream

import "sync"

// storeKey names content in a store.
type storeKey struct{ identity, key string }

// writers is who writes what in the stores of a world. It is safe from any goroutine.
type writers struct {
	mu    sync.Mutex
	parts map[storeKey]*incoming
}

func (w *writers) set(key storeKey, in *incoming) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parts == nil {
		w.parts = make(map[storeKey]*incoming)
	}
	w.parts[key] = in
}

// of returns who writes what has that key, and how much of it has arrived there in order; nil when nobody does.
func (w *writers) of(key storeKey) (in *incoming, arrived int64) {
	w.mu.Lock()
	in = w.parts[key]
	w.mu.Unlock()
	if in != nil {
		arrived = in.arrival.inOrder()
	}
	return in, arrived
}

// drop forgets that in writes what has that key.
func (w *writers) drop(key storeKey, in *incoming) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parts[key] == in {
		delete(w.parts, key)
	}
}
