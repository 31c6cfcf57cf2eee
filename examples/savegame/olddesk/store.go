package desk

import (
	"io/fs"
	"sync"

	"github.com/quivernet/quiver/stream"
)

// swapStore is the store of the content that is being fetched; each goes to a folder of its own choice, and what goes
// into a pipe to none.
type swapStore struct {
	mu    sync.Mutex
	store stream.Store // nil: none
}

func (s *swapStore) set(store stream.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
}

func (s *swapStore) get() stream.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// Open fails with ErrStoreFull where there is no store: the transfer goes on without.
func (s *swapStore) Open(identity, key string, size int64) (stream.Part, error) {
	if store := s.get(); store != nil {
		return store.Open(identity, key, size)
	}
	return nil, stream.ErrStoreFull
}

func (s *swapStore) Lookup(identity, key string) (stream.Content, error) {
	if store := s.get(); store != nil {
		return store.Lookup(identity, key)
	}
	return nil, fs.ErrNotExist
}

func (s *swapStore) Remove(identity, key string) error {
	if store := s.get(); store != nil {
		return store.Remove(identity, key)
	}
	return nil
}

var _ stream.Store = (*swapStore)(nil)
