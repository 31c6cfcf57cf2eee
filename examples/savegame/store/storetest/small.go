package storetest

import (
	"context"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Small is a store on a disk that is soon full.
type Small struct {
	store.Store
	Space int64 // bytes, as store.Occupied counts them
}

// Put fails with a *store.Full when the object does not fit beside those that are there.
func (s *Small) Put(ctx context.Context, key string, data []byte) error {
	free := s.Space
	for o := range s.List(ctx, "") {
		free -= store.Occupied(o.Size)
	}
	if needs := store.Occupied(int64(len(data))); needs > free {
		return &store.Full{Needs: needs, Free: free}
	}
	return s.Store.Put(ctx, key, data)
}
