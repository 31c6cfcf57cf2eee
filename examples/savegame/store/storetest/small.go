package storetest

import (
	"context"
	"syscall"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Small is a store on a disk that is soon full.
type Small struct {
	store.Store
	Space int64 // bytes, as store.Occupied counts them
}

// Room implements [store.Store].
func (s *Small) Room(ctx context.Context) (int64, error) {
	free := s.Space
	for o := range s.List(ctx, "") {
		free -= store.Occupied(o.Size)
	}
	return free, nil
}

// Put fails as on a full disk if the object does not fit beside those that are there.
func (s *Small) Put(ctx context.Context, key string, data []byte) error {
	if !s.fits(ctx, data) {
		return syscall.ENOSPC
	}
	return s.Store.Put(ctx, key, data)
}

// Start fails as Put does.
func (s *Small) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	if !s.fits(ctx, data) {
		return nil, syscall.ENOSPC
	}
	return s.Store.Start(ctx, key, data)
}

func (s *Small) fits(ctx context.Context, data []byte) bool {
	free, err := s.Room(ctx)
	return err == nil && store.Occupied(int64(len(data))) <= free
}
