package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestFolderHasOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "store")
	s, err := store.Open(dir)
	require.NoError(t, err)
	_, err = store.Open(dir)
	require.ErrorIs(t, err, store.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("folder %s is in use by another process: pid %d on ", dir, os.Getpid()))

	require.NoError(t, s.Close())
	s, err = store.Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestStoreOfAnotherFormat: what a newer program has written is refused, and
// not considered damaged.
func TestStoreOfAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	mark := filepath.Join(dir, "format 1")
	for _, older := range []func() error{func() error { return nil }, func() error { return os.Mkdir(mark, 0o700) }} { // which made none, or an empty folder
		require.FileExists(t, mark)
		require.NoError(t, os.Remove(mark))
		require.NoError(t, older())
		s, err = store.Open(dir)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	says, err := os.ReadFile(mark) // what copies a folder leaves out empty folders, and some of it empty files
	require.NoError(t, err)
	require.Equal(t, "a savegame store of format 1\n", string(says))
	other := filepath.Join(dir, "format 2")
	require.NoError(t, os.Rename(mark, other))
	for range 2 {
		_, err = store.Open(dir)
		require.ErrorContains(t, err, dir+": store has format 2, of a newer program; this one supports format 1")
		require.NoFileExists(t, mark)
		require.NoError(t, os.Remove(other))
		require.NoError(t, os.Mkdir(other, 0o700)) // as a program from in between marks it
	}
}

func TestFolderSaysWhatRoomThereIs(t *testing.T) {
	files := storetest.NewForgetful(testkit.Rand(t))
	s, err := store.OpenOn(files)
	require.NoError(t, err)
	files.Space = 12345
	room, err := s.Room(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 12345, room)
}

func TestFolderShowsWhatIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Put(t.Context(), "a/b", nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects", "a", ".DS_Store"), nil, 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "objects", "link")))
	require.NoError(t, s.Close())
	s, err = store.Open(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"a/.DS_Store", "a/b", "link"}, keys(t, s, ""))
	require.ErrorIs(t, s.Delete(t.Context(), "a/.DS_Store"), store.ErrKey)
	for _, bad := range []string{"..", "../waiting", "A", "a/..", "a/"} {
		for _, err := range s.List(t.Context(), bad) {
			require.ErrorIs(t, err, store.ErrKey)
		}
	}
	require.ErrorIs(t, s.Put(t.Context(), "a", nil), store.ErrKey, "a folder of others")
	require.NoError(t, s.Delete(t.Context(), "a"), "no object")
	require.Equal(t, []string{"a/.DS_Store", "a/b", "link"}, keys(t, s, ""))
}

// After a flush of a folder has failed it is unknown what is on the disk, so
// nothing may be answered from memory.
func TestFolderIsBrokenByAFailedFlush(t *testing.T) {
	files := &unflushable{Forgetful: storetest.NewForgetful(testkit.Rand(t))}
	s, err := store.OpenOn(files)
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "a/b", nil))
	files.failing = errors.New("input/output error")
	require.ErrorIs(t, s.Put(t.Context(), "a/c", nil), files.failing)
	failed := files.failing
	files.failing = nil
	_, err = s.Get(t.Context(), "a/b")
	require.ErrorIs(t, err, store.ErrBroken)
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, s.Put(t.Context(), "a/c", nil), store.ErrBroken)
	require.ErrorIs(t, s.Delete(t.Context(), "a/b"), store.ErrBroken)
	for _, err := range s.List(t.Context(), "") {
		require.ErrorIs(t, err, store.ErrBroken)
	}
	s, err = store.OpenOn(files)
	require.NoError(t, err)
	require.Contains(t, keys(t, s, ""), "a/b")
}

type unflushable struct {
	*storetest.Forgetful
	failing error
}

func (u *unflushable) SyncDir(name string) error {
	if u.failing != nil {
		return u.failing
	}
	return u.Forgetful.SyncDir(name)
}

func BenchmarkPut(b *testing.B) {
	s, err := store.Open(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	data := make([]byte, 128<<10)
	for _, atOnce := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d at once", atOnce), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			slots := make(chan struct{}, atOnce)
			var running sync.WaitGroup
			for i := range b.N {
				slots <- struct{}{}
				running.Go(func() {
					key := fmt.Sprintf("b/%02x/%d-%d-%d", i%256, atOnce, b.N, i)
					if err := s.Put(b.Context(), key, data); err != nil {
						b.Error(err)
					}
					<-slots
				})
			}
			running.Wait()
		})
	}
}
