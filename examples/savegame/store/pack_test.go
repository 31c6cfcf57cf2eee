package store_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
)

// A gated is a file system in which nothing new is created while its gate is closed.
type gated struct {
	store.Files

	mu    sync.Mutex
	gate  chan struct{} // closed when it is opened; nil: it is open
	made  atomic.Int32  // files
	names []string      // of those
}

func (g *gated) Create(name string) (store.File, error) {
	g.made.Add(1)
	g.mu.Lock()
	gate := g.gate
	g.names = append(g.names, path.Base(name))
	g.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return g.Files.Create(name)
}

// shut closes the gate until the function that it returns is called.
func (g *gated) shut() (open func()) {
	gate := make(chan struct{})
	g.set(gate)
	return func() {
		g.set(nil)
		close(gate)
	}
}

func (g *gated) set(gate chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate = gate
}

// putTogether puts objects while another one, first, is made durable, so that they are
// put in one batch, and returns their errors and that of first. It runs in a bubble.
func putTogether(ctx context.Context, s *store.Folder, files *gated, first string, data map[string][]byte) map[string]error {
	errs := make(map[string]error)
	type answer struct {
		key string
		err error
	}
	answers := make(chan answer)
	put := func(key string) {
		go func() { answers <- answer{key, s.Put(ctx, key, data[key])} }()
		synctest.Wait()
	}
	open := files.shut()
	put(first)
	for _, key := range sortedKeys(data) {
		if key != first {
			put(key)
		}
	}
	open()
	for range data {
		a := <-answers
		errs[a.key] = a.err
	}
	return errs
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// some are objects of a folder a, except one that is put first.
func some(n int) map[string][]byte {
	data := map[string][]byte{"first": []byte("first")}
	for i := range n {
		data[fmt.Sprintf("a/%d", i)] = fmt.Appendf(nil, "object %d", i)
	}
	return data
}

func requireHas(t *testing.T, s *store.Folder, data map[string][]byte) {
	t.Helper()
	require.Equal(t, sortedKeys(data), keys(t, s, ""))
	for key, want := range data {
		got, err := s.Get(t.Context(), key)
		require.NoError(t, err, key)
		require.Equal(t, want, got, key)
	}
	for o := range s.List(t.Context(), "") {
		require.EqualValues(t, len(data[o.Key]), o.Size, o.Key)
	}
}

// filesIn returns the files of a folder of objects.
func filesIn(t *testing.T, files store.Files, folder string) (names []string) {
	entries, err := files.ReadDir(path.Join("objects", folder))
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// packed returns a store with 5 objects of one folder in a pack, and another one.
func packed(t *testing.T) (s *store.Folder, files *gated, data map[string][]byte) {
	files, data = &gated{Files: storetest.NewForgetful(nil)}, some(5)
	s, err := store.OpenOn(files)
	require.NoError(t, err)
	for _, err := range putTogether(t.Context(), s, files, "first", data) {
		require.NoError(t, err)
	}
	require.Len(t, filesIn(t, files, "a"), 1)
	return s, files, data
}

func TestWhatIsPutTogetherIsOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, files, data := packed(t)
		requireHas(t, s, data)
		require.ErrorIs(t, s.Put(t.Context(), "a/3", []byte("another")), fs.ErrExist)
		data["a/25"] = []byte("alone")
		require.NoError(t, s.Put(t.Context(), "a/25", data["a/25"]))
		require.Len(t, filesIn(t, files, "a"), 2)
		requireHas(t, s, data)
		s, err := store.OpenOn(files)
		require.NoError(t, err)
		requireHas(t, s, data)
		require.ErrorIs(t, s.Put(t.Context(), "a/3", []byte("another")), fs.ErrExist)
	})
}

func TestOfTwoPutsInABatchOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &gated{Files: storetest.NewForgetful(nil)}
		s, err := store.OpenOn(files)
		require.NoError(t, err)
		open := files.shut()
		errs := make(chan error, 4)
		for _, key := range []string{"first", "a/1", "a/1", "a/2"} {
			go func() { errs <- s.Put(t.Context(), key, []byte(key)) }()
			synctest.Wait()
		}
		open()
		lost := 0
		for range 4 {
			if err := <-errs; err != nil {
				require.ErrorIs(t, err, fs.ErrExist)
				lost++
			}
		}
		require.Equal(t, 1, lost)
		requireHas(t, s, map[string][]byte{"first": []byte("first"), "a/1": []byte("a/1"), "a/2": []byte("a/2")})
	})
}

func TestDeletedPartOfAPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, files, data := packed(t)
		before := files.made.Load()
		require.NoError(t, s.Delete(t.Context(), "a/1", "a/never", "a/3"))
		require.Equal(t, before+1, files.made.Load(), "the pack is written again once")
		delete(data, "a/1")
		delete(data, "a/3")
		requireHas(t, s, data)
		_, err := s.Get(t.Context(), "a/1")
		require.ErrorIs(t, err, fs.ErrNotExist)
		s, err = store.OpenOn(files)
		require.NoError(t, err)
		requireHas(t, s, data)

		data["a/1"] = []byte("again")
		require.NoError(t, s.Put(t.Context(), "a/1", data["a/1"]))
		requireHas(t, s, data)
		require.NoError(t, s.Delete(t.Context(), "a/0", "a/1", "a/2", "a/4"))
		require.Empty(t, filesIn(t, files, "a"))
		require.Equal(t, []string{"first"}, filesIn(t, files, ""))
		requireHas(t, s, map[string][]byte{"first": []byte("first")})
	})
}

// An unreadable is a file system of which no file can be read.
type unreadable struct{ store.Files }

func (u unreadable) Open(name string) (store.OpenFile, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// What cannot be read now may be good, so it is not reported as missing.
func TestPackThatCanNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, files, _ := packed(t)
		_, err := store.OpenOn(unreadable{files})
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}

// A full is a file system that has room for a hundred bytes more at a time.
type full struct{ store.Files }

func (f full) Create(name string) (store.File, error) {
	file, err := f.Files.Create(name)
	return fullFile{file}, err
}

type fullFile struct{ store.File }

func (f fullFile) Write(p []byte) (int, error) {
	if len(p) > 100 {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(p)
}

// What has no room does not exist, and leaves nothing behind.
func TestPackThatHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, size := range map[string]int{"its end": 0, "an object": 2 << 20} {
			t.Log("#", name)
			disk := storetest.NewForgetful(nil)
			files, data := &gated{Files: full{disk}}, some(5)
			data["a/2"] = make([]byte, size)
			s, err := store.OpenOn(files)
			require.NoError(t, err)
			for key, err := range putTogether(t.Context(), s, files, "first", data) {
				if key != "first" {
					require.ErrorIs(t, err, syscall.ENOSPC, key)
				}
			}
			require.Equal(t, []string{"first"}, keys(t, s, ""))
			waiting, err := disk.ReadDir("waiting")
			require.NoError(t, err)
			require.Empty(t, waiting)
			require.NoError(t, s.Put(t.Context(), "a/3", data["a/3"]))
		}
	})
}

// onDisk makes a store's folder on this machine's disk, with a pack of that name.
func onDisk(t *testing.T) (dir, name string) {
	_, files, _ := packed(t)
	file := path.Join("objects", "a", filesIn(t, files, "a")[0])
	in, err := files.Open(file)
	require.NoError(t, err)
	bytes, err := io.ReadAll(io.NewSectionReader(in, 0, 1<<20))
	require.NoError(t, err)
	dir = t.TempDir()
	name = filepath.Join(dir, filepath.FromSlash(file))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, bytes, 0o600))
	return dir, name
}

func TestPackIsAnArchiveThatOthersRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, name := onDisk(t)
		archive, err := zip.OpenReader(name)
		require.NoError(t, err)
		defer archive.Close()
		require.Len(t, archive.File, 5)
		got, err := fs.ReadFile(archive, "3")
		require.NoError(t, err)
		require.Equal(t, "object 3", string(got))
	})
}

// What a damaged pack contained is missing, and may be put again. The pack
// stays, and is listed under its own name.
func TestDamagedPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, name := onDisk(t)
		require.NoError(t, os.Truncate(name, 100))
		s, err := store.Open(dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		_, err = s.Get(t.Context(), "a/3")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, s.Put(t.Context(), "a/3", []byte("object 3")))
		require.Equal(t, []string{"a/" + filepath.Base(name), "a/3"}, keys(t, s, ""))
		require.True(t, store.IsPack(keys(t, s, "")[0]))
	})
}

// TestPackOfManyBlocks: what is begun one after the other is read as it was put, even from a
// disk that takes whole blocks past its pages, and the caller may change its bytes at once.
func TestPackOfManyBlocks(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	require.NoError(t, err)
	noise, r := make([]byte, 400_000), testkit.Rand(t)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	data, waits, buffer := make(map[string][]byte), []func() error(nil), make([]byte, 300_000)
	for i := range 40 {
		from := r.IntN(100_000)
		key, object := fmt.Sprintf("a/%d", i), noise[from:from+r.IntN(len(buffer))]
		data[key] = object
		wait, err := s.Start(t.Context(), key, buffer[:copy(buffer, object)])
		require.NoError(t, err)
		waits = append(waits, wait)
	}
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	requireHas(t, s, data)
	require.NoError(t, s.Close())
	s, err = store.Open(dir)
	require.NoError(t, err)
	requireHas(t, s, data)
	require.NoError(t, s.Close())
}

// What was in a pack that somebody removed was there and not there, until the
// store was opened again: no put brought it back.
func TestPackThatVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, look := range map[string]func(s *store.Folder){
			"found by a get":    func(s *store.Folder) { _, _ = s.Get(t.Context(), "a/3") },
			"found by a delete": func(s *store.Folder) { _ = s.Delete(t.Context(), "a/3") },
		} {
			t.Log("#", name)
			s, files, data := packed(t)
			require.NoError(t, files.Remove(path.Join("objects", "a", filesIn(t, files, "a")[0])))
			look(s)
			left := map[string][]byte{"first": data["first"]}
			requireHas(t, s, left)
			_, err := s.Get(t.Context(), "a/1")
			require.ErrorIs(t, err, fs.ErrNotExist)
			left["a/1"] = []byte("again")
			require.NoError(t, s.Put(t.Context(), "a/1", left["a/1"]))
			requireHas(t, s, left)
		}
	})
}

// An object in a pack was not considered a file that is in the way, and so its key became a folder.
func TestWhatIsInAPackIsNoFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, data := packed(t)
		require.ErrorIs(t, s.Put(t.Context(), "a/3/b", nil), store.ErrKey)
		require.ErrorIs(t, s.Put(t.Context(), "a/3/b/c", nil), store.ErrKey)
		require.ErrorIs(t, s.Put(t.Context(), "first/b", nil), store.ErrKey)
		requireHas(t, s, data)
	})
}

// A crammed is a file system that has room for one more file for each that is removed or replaced.
type crammed struct {
	store.Files
	room int
}

func (c *crammed) Create(name string) (store.File, error) {
	if c.room == 0 {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	c.room--
	return c.Files.Create(name)
}

func (c *crammed) Rename(from, to string) error {
	if _, err := c.Stat(to); err == nil {
		c.room++
	}
	return c.Files.Rename(from, to)
}

func (c *crammed) Remove(name string) error {
	err := c.Files.Remove(name)
	if err == nil && path.Ext(name) == ".zip" {
		c.room++
	}
	return err
}

// On a full disk what remains of a pack had no room, although other packs were deleted as a whole.
func TestAFullDiskLosesWholePacksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &gated{Files: storetest.NewForgetful(nil)}
		s, err := store.OpenOn(files)
		require.NoError(t, err)
		for _, first := range []string{"1", "2", "3", "4"} {
			data := map[string][]byte{first: nil, "a/" + first + "0": nil, "a/" + first + "1": nil, "a/" + first + "2": nil}
			for _, err := range putTogether(t.Context(), s, files, first, data) {
				require.NoError(t, err)
			}
		}
		s, err = store.OpenOn(&crammed{Files: files})
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), "a/10", "a/20", "a/30", "a/31", "a/32", "a/40"))
		require.Equal(t, []string{"1", "2", "3", "4", "a/11", "a/12", "a/21", "a/22", "a/41", "a/42"}, keys(t, s, ""))
	})
}

// A Delete of an object of each of many packs delayed all puts until 32 of them
// were written again, of 8 MiB each at least.
func TestPutsGoBetweenPacksThatAreWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &gated{Files: storetest.NewForgetful(nil)}
		s, err := store.OpenOn(files)
		require.NoError(t, err)
		var deleted []string
		for _, folder := range []string{"a", "b", "c"} {
			data := map[string][]byte{folder: nil, folder + "s/1": nil, folder + "s/2": make([]byte, 8<<20)}
			for key, err := range putTogether(t.Context(), s, files, folder, data) {
				require.NoError(t, err, key)
			}
			deleted = append(deleted, folder+"s/1")
		}
		files.names = nil
		open, errs := files.shut(), make(chan error, 2)
		go func() { errs <- s.Delete(t.Context(), deleted...) }()
		synctest.Wait()
		go func() { errs <- s.Put(t.Context(), "put", nil) }()
		synctest.Wait()
		open()
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		var numbers []int
		for _, name := range files.names {
			n, err := strconv.Atoi(name)
			require.NoError(t, err)
			numbers = append(numbers, n)
		}
		require.Len(t, numbers, 4)
		require.IsIncreasing(t, numbers, "the put, whose file was the second one that had a number, waits for one pack")
	})
}
