package store_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
)

// stores calls fn with every kind of store.
func stores(t *testing.T, fn func(t *testing.T, s store.Store)) {
	t.Run("folder", func(t *testing.T) {
		s, err := store.Open(t.TempDir())
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		fn(t, s)
	})
	t.Run("forgetful", func(t *testing.T) {
		s, err := store.OpenOn(storetest.NewForgetful(testkit.Rand(t)))
		require.NoError(t, err)
		fn(t, s)
	})
	t.Run("memory", func(t *testing.T) { fn(t, storetest.NewMemory(nil)) })
}

func keys(t *testing.T, s store.Store, dir string) (keys []string) {
	t.Helper()
	for o, err := range s.List(t.Context(), dir) {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		ctx, before := t.Context(), time.Now()
		_, err := s.Get(ctx, "a/b")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, keys(t, s, ""))
		require.NoError(t, s.Delete(ctx, "a/b", "c"))

		require.NoError(t, s.Put(ctx, "a/b", []byte("first")))
		require.ErrorIs(t, s.Put(ctx, "a/b", []byte("second")), fs.ErrExist)
		got, err := s.Get(ctx, "a/b")
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
		require.NoError(t, s.Put(ctx, "empty", nil))

		for o, err := range s.List(ctx, "a") {
			require.NoError(t, err)
			require.Equal(t, int64(5), o.Size)
			require.WithinDuration(t, before, o.Time, time.Hour)
		}
		require.NoError(t, s.Delete(ctx, "a/b", "empty", "never"))
		_, err = s.Get(ctx, "a/b")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, keys(t, s, ""))
		require.NoError(t, s.Put(ctx, "a/b", []byte("third")))
	})
}

func TestListIsOfAFolderInOrder(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		all := []string{"a/a", "a/b/c", "a/b/d", "a/b/e0", "a/b0", "a/ba/x", "b/c", "b/d"}
		for i := range all {
			require.NoError(t, s.Put(t.Context(), all[len(all)-1-i], nil))
		}
		require.Equal(t, all, keys(t, s, ""))
		require.Equal(t, all[:6], keys(t, s, "a"))
		require.Equal(t, all[1:4], keys(t, s, "a/b"))
		require.Equal(t, all[5:6], keys(t, s, "a/ba"))
		require.Empty(t, keys(t, s, "c"))
		require.Empty(t, keys(t, s, "a/c/d"))
		for o := range s.List(t.Context(), "") { // may be left early
			require.Equal(t, all[0], o.Key)
			break
		}
	})
}

// Two puts of one key conflict by construction: that is why versions never overwrite each other.
func TestOnePutOfAKeyWins(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		for round := range 20 {
			var won atomic.Int32
			var putting sync.WaitGroup
			for i := range 8 {
				putting.Go(func() {
					if s.Put(t.Context(), fmt.Sprintf("k/%d", round), []byte{byte(i)}) == nil {
						won.Store(int32(i) + 1)
					}
				})
				putting.Go(func() { _ = s.Put(t.Context(), fmt.Sprintf("other/%d/%d", round, i), nil) })
			}
			putting.Wait()
			got, err := s.Get(t.Context(), fmt.Sprintf("k/%d", round))
			require.NoError(t, err)
			require.Equal(t, byte(won.Load()-1), got[0])
			require.Len(t, keys(t, s, fmt.Sprintf("other/%d", round)), 8)
		}
	})
}

// TestPutOfWhatIsThereBesideOthers: a put that finds that its object exists
// leaves a batch which is committed meanwhile, for the others or for none. The
// committing goroutine looked at the keys of the batch before all had left.
func TestPutOfWhatIsThereBesideOthers(t *testing.T) {
	s := storetest.NewMemory(nil)
	require.NoError(t, s.Put(t.Context(), "a/there", nil))
	for round := range 200 {
		var putting sync.WaitGroup
		putting.Go(func() { assert.ErrorIs(t, s.Put(t.Context(), "a/there", nil), fs.ErrExist) })
		if round%2 == 0 {
			putting.Go(func() { assert.NoError(t, s.Put(t.Context(), fmt.Sprintf("a/%d", round), nil)) })
		}
		putting.Wait()
	}
	require.Len(t, keys(t, s, "a"), 101)
}

func TestStoreHeedsItsContext(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		require.NoError(t, s.Put(t.Context(), "a", nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Get(ctx, "a")
		require.ErrorIs(t, err, context.Canceled)
		for _, err := range s.List(ctx, "") {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestCheckKey(t *testing.T) {
	for _, good := range []string{"a", "users/a=20b/00000001", "0.._-=x", strings.Repeat("a", store.MaxElement)} {
		require.NoError(t, store.CheckKey(good), good)
	}
	for _, bad := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.b", "b.", "A", "ä", "a b", `a\b`, "a\x00", "\xff",
		strings.Repeat("a", store.MaxElement+1), strings.Repeat("a/", store.MaxKey/2) + "a"} {
		require.ErrorIs(t, store.CheckKey(bad), store.ErrKey, "%.30q", bad)
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"users/a=20b/00000001", "../x", "a//b", "A"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if store.CheckKey(key) == nil {
			require.True(t, fs.ValidPath(key))
			require.Equal(t, strings.ToLower(key), key)
		}
	})
}
