package desk

import (
	"errors"
	"sync"

	"github.com/quivernet/quiver/stream"
)

// swapStore is the store of the content that is being fetched; each goes to a folder of its own choice.
type swapStore struct {
	mu sync.Mutex
	stream.Store
}

func (s *swapStore) set(store stream.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = store
}

func (s *swapStore) get() (stream.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Store == nil {
		return nil, errors.New("no content is being fetched")
	}
	return s.Store, nil
}

func (s *swapStore) Open(identity, key string, size int64) (stream.Part, error) {
	store, err := s.get()
	if err != nil {
		return nil, err
	}
	return store.Open(identity, key, size)
}

func (s *swapStore) Lookup(identity, key string) (stream.Content, error) {
	store, err := s.get()
	if err != nil {
		return nil, err
	}
	return store.Lookup(identity, key)
}

func (s *swapStore) Remove(identity, key string) error {
	store, err := s.get()
	if err != nil {
		return err
	}
	return store.Remove(identity, key)
}

var _ stream.Store = (*swapStore)(nil)
