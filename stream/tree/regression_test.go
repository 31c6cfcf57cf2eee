package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// A restore that ends removes the lock of its folder. A restore that had opened the lock
// file before, and locked it then, held nothing, and another one could lock a new file.
func TestOneAtATimeHasTheWorkFolder(t *testing.T) {
	target := filepath.Join(t.TempDir(), "world")
	end := time.Now().Add(time.Second)
	var running sync.WaitGroup
	var holders, had atomic.Int32
	for range 4 {
		running.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				w, err := openWork(target)
				if err != nil {
					continue // busy, or just removed
				}
				if w.root.Mkdir(workNew, 0o700) == nil {
					had.Add(1)
					assert.LessOrEqual(t, holders.Add(1), int32(1))
					time.Sleep(10 * time.Microsecond)
					holders.Add(-1)
				} else if _, err := w.root.Lstat(workNew); err == nil {
					assert.Fail(t, "another one is in the folder")
				}
				_ = w.discard()
			}
		})
	}
	running.Wait()
	t.Log(had.Load(), "had it")
}

// unchanged is a look that knows one state of what it looks at.
func unchanged(t *testing.T, path string, before cdc.Digest) error {
	if scanned(t, ScanOptions{}, path).Manifest.Digest() != before {
		return errors.New("it has changed")
	}
	return nil
}

// gameSaves has a game write to a file of the target right before that is
// replaced, in one step or not, until stop.
func gameSaves(t *testing.T, file string, exchanges bool) (stop func()) {
	real := exchange
	stop = func() { exchange = real }
	t.Cleanup(stop)
	exchange = func(ready, target string) error {
		require.NoError(t, os.WriteFile(filepath.Join(target, file), []byte("the game saves"), 0o600))
		if exchanges {
			return real(ready, target)
		}
		return fs.ErrInvalid
	}
	return stop
}

// killed returns a restore that was killed in its commit, by a panic. It has
// the work folder until that is released.
func killed(t *testing.T, from *Source, target string, mayReplace func(context.Context, string) error) *Restore {
	r := begun(t, from.Manifest, target, RestoreOptions{Local: from, MayReplace: mayReplace})
	require.Panics(t, func() { _ = r.Commit(t.Context()) })
	return r
}

func requireKept(t *testing.T, err error, file string) {
	kept, is := errors.AsType[*KeptError](err)
	require.True(t, is)
	content, err := os.ReadFile(filepath.Join(kept.Path, file))
	require.NoError(t, err)
	require.Equal(t, "the game saves", string(content))
}

// What was written to the target between the last look and the exchange was lost.
func TestWhatIsWrittenAtTheLastMomentIsKept(t *testing.T) {
	for name, saved := range map[string]string{"file": "", "folder": "level"} {
		for _, exchanges := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := folder(t)
				write(t, dir, map[string]string{filepath.Join("new", saved): "new", filepath.Join("target", saved): "old"})
				target := filepath.Join(dir, "target")
				before := scanned(t, ScanOptions{}, target).Manifest.Digest()
				look := func(_ context.Context, path string) error { return unchanged(t, path, before) }
				gameSaves(t, saved, exchanges)
				from := scanned(t, ScanOptions{}, filepath.Join(dir, "new"))
				r := begun(t, from.Manifest, target, RestoreOptions{Local: from, MayReplace: look})
				requireKept(t, r.Commit(t.Context()), saved)
				requireSame(t, from, target)
				requireTidy(t, target)
			})
		}
	}
}

// What was replaced could not be moved to a name of its own, and the error did
// not say that the target is as it should be, nor what else was kept.
func TestWhatCannotBeKept(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, "target")
	write(t, dir, map[string]string{"new/level": "new", "target/level": "old"})
	from := scanned(t, ScanOptions{}, filepath.Join(dir, "new"))
	look := func(_ context.Context, path string) error {
		if path == target {
			return nil
		}
		return errors.Join(errors.New("it has changed"), os.RemoveAll(path)) // so that the rename fails
	}
	r := begun(t, from.Manifest, target, RestoreOptions{Local: from, MayReplace: look})
	err := r.Commit(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, target+": it is restored, but: ")
	require.False(t, errors.As(err, new(*KeptError)), "it is not kept")
	requireSame(t, from, target)
}

// What a game wrote at the last moment was deleted by the next restore when the one
// that replaced it was killed, or when the name of what was to be kept became too long.
func TestWhatIsWrittenAtTheLastMomentOutlivesACrash(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, strings.Repeat("n", 240))
	write(t, dir, map[string]string{"new": "new", "newer": "newer", filepath.Base(target): "old"})
	before := scanned(t, ScanOptions{}, target).Manifest.Digest()
	looks := 0
	look := func(_ context.Context, path string) error {
		if looks++; looks == 2 {
			panic("killed") // the save is in its place
		}
		return unchanged(t, path, before)
	}
	stop := gameSaves(t, "", true)
	from := scanned(t, ScanOptions{}, filepath.Join(dir, "new"))
	r := killed(t, from, target, look)
	require.NoError(t, r.work.release())

	stop()
	later := scanned(t, ScanOptions{}, filepath.Join(dir, "newer"))
	before = from.Manifest.Digest()
	next := begun(t, later.Manifest, target, RestoreOptions{Local: later, MayReplace: look})
	before = scanned(t, ScanOptions{}, target).Manifest.Digest()
	requireKept(t, next.Commit(t.Context()), "")
	requireSame(t, later, target)
	requireTidy(t, target)
}

// A restore whose context ended while it asked about what the one before had replaced deleted that.
func TestWhatWasReplacedOutlivesACanceledRestore(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, "target")
	write(t, dir, map[string]string{"target": "new", "newer": "newer"})
	work, err := openWork(target)
	require.NoError(t, err)
	write(t, work.path, map[string]string{workReady: "the game saves"})
	require.NoError(t, work.release())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from := scanned(t, ScanOptions{}, filepath.Join(dir, "newer"))
	look := func(ctx context.Context, _ string) error { return ctx.Err() }
	_, err = NewRestore(ctx, from.Manifest, target, RestoreOptions{MayReplace: look})
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, filepath.Join(work.path, workReady))
}

// What the restore before had replaced was kept, and nobody heard of it, unless
// the restore that kept it was committed.
func TestWhatIsKeptIsTold(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, "target")
	write(t, dir, map[string]string{"target": "new"})
	file := scanned(t, ScanOptions{}, target).Manifest
	tooLong := &manifest.Manifest{Entries: []manifest.Entry{{Path: ".", Kind: manifest.Dir}, {Path: strings.Repeat("x", 256), Kind: manifest.File}}}
	look := func(context.Context, string) error { return errors.New("it has changed") }
	for name, m := range map[string]*manifest.Manifest{"closed": file, "failed": tooLong} {
		t.Run(name, func(t *testing.T) {
			work, err := openWork(target)
			require.NoError(t, err)
			write(t, work.path, map[string]string{workReady: "the game saves"})
			require.NoError(t, work.release())
			r, err := NewRestore(t.Context(), m, target, RestoreOptions{MayReplace: look})
			if name == "closed" {
				require.NoError(t, err)
				err = r.Close()
				require.NoError(t, r.Close(), "it was told")
			}
			requireKept(t, err, "")
		})
	}
}

// A restore that was killed while it removed what it had replaced once left a
// part of that, which the next one took for what a game had written.
func TestKilledWhileItRemovesWhatWasReplaced(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, "target")
	write(t, dir, map[string]string{"new/a": "new", "target/a": "old", "target/b": "old"})
	before, from := scanned(t, ScanOptions{}, target).Manifest.Digest(), scanned(t, ScanOptions{}, filepath.Join(dir, "new"))
	look := func(_ context.Context, path string) error {
		if unchanged(t, path, from.Manifest.Digest()) == nil {
			return nil
		}
		return unchanged(t, path, before)
	}
	real := removeAllIn
	t.Cleanup(func() { removeAllIn = real })
	removeAllIn = func(root *os.Root, name string) error {
		if root.Remove(path.Join(name, "b")) == nil {
			panic("killed")
		}
		return real(root, name)
	}
	r := killed(t, from, target, look)
	require.NoError(t, r.work.release())

	next := begun(t, from.Manifest, target, RestoreOptions{Local: from, MayReplace: look})
	require.NoError(t, next.Commit(t.Context()))
	requireSame(t, from, target)
	requireTidy(t, target)
}

// A restore that was killed after the save was in its place had left what it
// replaced. A program that found the save in its place had nothing to restore,
// and a later restore, which could no longer know that, kept it.
func TestTidy(t *testing.T) {
	dir := folder(t)
	target := filepath.Join(dir, "target")
	write(t, dir, map[string]string{"new/a": "new", "target/a": "old"})
	require.NoError(t, Tidy(t.Context(), target, nil), "nothing was begun")
	looks, from := 0, scanned(t, ScanOptions{}, filepath.Join(dir, "new"))
	look := func(context.Context, string) error {
		if looks++; looks == 2 {
			panic("killed") // the save is in its place
		}
		return nil
	}
	r := killed(t, from, target, look)
	require.NoError(t, Tidy(t.Context(), target, look), "another process restores")
	require.Equal(t, 2, looks)
	require.NoError(t, r.work.release())
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Tidy(canceled, target, func(ctx context.Context, _ string) error { return ctx.Err() }), context.Canceled)
	require.NoError(t, Tidy(t.Context(), target, nil), "and nothing was taken for a game's")
	require.Equal(t, 2, looks, "nobody wants to be asked")
	requireSame(t, from, target)
	requireTidy(t, target)
}

// A get that had nothing to do failed where somebody else's file had the name of a work folder.
func TestTidyLeavesWhatIsForeign(t *testing.T) {
	target := filepath.Join(folder(t), "target")
	resolved, err := resolve(target)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(workPath(resolved), nil, 0o600))
	require.NoError(t, Tidy(t.Context(), target, nil))
	require.FileExists(t, workPath(resolved))
}

// Onto FAT, and what else keeps no modes, nothing could be restored.
func TestWhereNoModesAreKept(t *testing.T) {
	from, target := scanned(t, ScanOptions{}, game(t)), filepath.Join(folder(t), "target")
	real := chmodIn
	t.Cleanup(func() { chmodIn = real })
	chmodIn = func(*os.Root, string, fs.FileMode) error { return syscall.EPERM }
	r := begun(t, from.Manifest, target, RestoreOptions{})
	fetch(t, r, from, 1)
	require.NoError(t, os.Chmod(r.work.path, 0o755))
	require.NoError(t, r.Close())
	r = begun(t, from.Manifest, target, RestoreOptions{Local: from})
	require.NoError(t, r.Commit(t.Context()))
	require.FileExists(t, filepath.Join(target, "config"))
}

// Where the file system has no locks, another process was said to restore there.
func TestWhereThereAreNoLocks(t *testing.T) {
	t.Cleanup(func() { tryLock = files.TryLock })
	tryLock = func(*os.File) error { return syscall.ENOTSUP }
	_, err := openWork(filepath.Join(t.TempDir(), "world"))
	require.ErrorIs(t, err, syscall.ENOTSUP)
	require.NotErrorIs(t, err, ErrBusy)
}

// What was replaced and what was moved aside were kept under one name, where
// both were found in one millisecond: the second took the place of the first.
func TestBothThatAreKeptHaveNames(t *testing.T) {
	for range 20 {
		dir := folder(t)
		target := filepath.Join(dir, "target")
		work, err := openWork(target)
		require.NoError(t, err)
		write(t, work.path, map[string]string{workReady: "replaced", workOld: "moved aside"})
		kept, err := work.rescue(t.Context(), target, func(context.Context, string) error { return errors.New("it has changed") })
		require.NoError(t, err)
		require.ErrorAs(t, kept, new(*KeptError))
		require.NoError(t, work.close())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	}
}

// A restore that the disk has no room for wrote until that was full.
func TestRestoreAsksForRoom(t *testing.T) {
	const size = 3 << 20
	dir := t.TempDir()
	p, target := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(p, noise(rand.New(rand.NewPCG(1, 2)), size), 0o600))
	from := scanned(t, ScanOptions{}, p)
	var room int64
	var unknown error
	t.Cleanup(func() { free = files.Free })
	free = func(folder string) (int64, error) {
		require.Equal(t, dir, filepath.Dir(folder))
		return room, unknown
	}
	refused := func(o RestoreOptions) {
		_, err := NewRestore(t.Context(), from.Manifest, target, o)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Regexp(t, regexp.QuoteMeta(target)+`: it needs \d\.\d MB more, and \d\.\d MB are free`, err.Error())
	}
	room = size - 1
	refused(RestoreOptions{})
	requireTidy(t, target)
	refused(RestoreOptions{Local: from}) // whose bytes are copied

	t.Log("# what has arrived needs no more, and waits")
	room = size
	r := begun(t, from.Manifest, target, RestoreOptions{})
	room -= int64(fetch(t, r, from, 2))
	require.NoError(t, r.Close())
	lacks := room
	room--
	refused(RestoreOptions{})
	room += blockBytes // what has arrived may end within one
	require.EqualValues(t, lacks, restored(t, from, target, RestoreOptions{}))

	t.Log("# some systems cannot say, and some say nothing")
	room = 0
	restored(t, from, target, RestoreOptions{})
	room, unknown = 1, errors.ErrUnsupported
	restored(t, from, target, RestoreOptions{})
}

// Of a folder of small files a restore counted the bytes, and filled a disk
// that had room for these and not for the blocks.
func TestRestoreAsksForRoomInBlocks(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"from/a": "small", "from/b": "small", "from/c": "another", "from/empty": ""})
	from := scanned(t, ScanOptions{}, filepath.Join(dir, "from"))
	t.Cleanup(func() { free = files.Free })
	free = func(string) (int64, error) { return 3*4096 - 1, nil }
	_, err := NewRestore(t.Context(), from.Manifest, filepath.Join(dir, "to"), RestoreOptions{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	free = func(string) (int64, error) { return 3 * 4096, nil }
	restored(t, from, filepath.Join(dir, "to"), RestoreOptions{})
}

// The errors of a path below a file, and of links in a circle, once did not name the path.
func TestAPathThatCannotBeIsNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"file": "1", "circle": "-> circle"})
	for _, name := range []string{"file/below", "circle", "missing"} {
		p := filepath.Join(dir, name)
		_, err := Scan(t.Context(), []string{p}, ScanOptions{})
		require.ErrorContains(t, err, p)
		_, err = NewRestore(t.Context(), &manifest.Manifest{}, filepath.Join(p, "x"), RestoreOptions{})
		require.ErrorContains(t, err, p)
	}
}

// A folder that was replaced while it was read, as a restore does it and some games do,
// lost what had not been read yet without a word: its files had gone with the old one.
func TestAFolderThatIsReplacedMeanwhile(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"world/a": "1", "world/b": "1", "new/a": "2", "new/b": "2"})
	world := filepath.Join(dir, "world")
	replace := func(int) {
		require.NoError(t, os.RemoveAll(world))
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			require.NoError(t, os.Rename(filepath.Join(dir, "new"), world))
		}
	}
	for _, want := range []error{ErrChanged, fs.ErrNotExist} { // the second time there is no new one
		_, err := Scan(t.Context(), []string{world}, ScanOptions{Read: replace})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, world)
	}
}

// Of a game that saves all the time nothing could be sent: what a scan had read
// was not there any more when it was asked for.
func TestWhatIsWrittenAllTheTime(t *testing.T) {
	dir := folder(t)
	hot, cold := filepath.Join(dir, "hot"), filepath.Join(dir, "cold")
	random := rand.New(rand.NewPCG(1, 2))
	was := noise(random, 300_000)
	require.NoError(t, os.WriteFile(hot, was, 0o600))
	write(t, dir, map[string]string{"cold": "a day old"})
	sees := func(hold int64) error {
		require.NoError(t, os.WriteFile(hot, was, 0o600))
		s := scanned(t, ScanOptions{Hold: hold}, hot)
		require.NoError(t, os.WriteFile(hot, noise(random, 300_000), 0o600))
		var got []byte
		for _, c := range s.Manifest.Entries[0].Chunks {
			data, err := s.Chunk(make([]byte, 0, 1<<20), c)
			if err != nil {
				return err
			}
			got = append(got, data...)
		}
		require.Equal(t, was, got)
		return nil
	}
	require.NoError(t, sees(300_000))
	require.ErrorIs(t, sees(299_999), ErrChanged, "it is bounded")

	s := scanned(t, ScanOptions{Hold: 1 << 20}, dir)
	require.NoError(t, os.RemoveAll(cold))
	_, err := s.Chunk(nil, cdc.Chunk{Digest: cdc.Sum([]byte("a day old")), Size: 9})
	require.ErrorIs(t, err, ErrChanged, "what is not written to needs no memory")
}

// Nobody compares the held bytes with the file's again, so they are not to be of two saves:
// within a tick of the file system's clock the time of a file that is written to may stay.
func TestWhatIsHeldIsOfOneMoment(t *testing.T) {
	p := filepath.Join(folder(t), "hot")
	random := rand.New(rand.NewPCG(1, 2))
	content, now := noise(random, 300_000), time.Now()
	save := func() {
		require.NoError(t, os.WriteFile(p, content, 0o600))
		require.NoError(t, os.Chtimes(p, now, now))
	}
	save()
	reads := 0
	s := scanned(t, ScanOptions{Hold: 1 << 20, Read: func(int) {
		if reads++; reads == 1 {
			content = noise(random, 300_000)
			save()
		}
	}}, p)
	require.Equal(t, content, read(t, s, 0))
}

// A file that was renamed while its folder was read was once left out silently, by either
// name: for example a save that a game deletes before it renames the new one to that name.
func TestWhatGetsAnotherNameMeanwhile(t *testing.T) {
	for _, in := range []string{"", "deep"} {
		dir := folder(t)
		at := filepath.Join(dir, in)
		write(t, at, map[string]string{"a": "1", "folder/x": "2", "save": "old", "t": "3", "u.tmp": "new"})
		steps := []func() error{
			func() error {
				return errors.Join(os.Rename(filepath.Join(at, "folder"), filepath.Join(at, "Folder2")), os.Remove(filepath.Join(at, "save")))
			},
			func() error { return os.Rename(filepath.Join(at, "u.tmp"), filepath.Join(at, "save")) },
		}
		s := scanned(t, ScanOptions{Read: func(int) {
			if len(steps) > 0 {
				require.NoError(t, steps[0]())
				steps = steps[1:]
			}
		}}, dir)
		want := []string{"."}
		if in != "" {
			want = append(want, in)
		}
		for _, name := range []string{"Folder2", "Folder2/x", "a", "save", "t"} {
			want = append(want, path.Join(in, name))
		}
		require.Equal(t, want, pathsOf(s))
		require.Equal(t, "new", string(read(t, s, len(want)-2)))
	}
}

// A folder whose names change all the time is read nevertheless.
func TestAFolderWhoseNamesChangeAllTheTime(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"a": "1", "0": "0", "z": "1"})
	renames := 0
	s := scanned(t, ScanOptions{Exclude: []string{"[0-9]*"}, Read: func(int) {
		renames++
		write(t, dir, map[string]string{fmt.Sprint("b", renames): "1"})
		_ = os.Remove(filepath.Join(dir, fmt.Sprint("b", renames-1)))
		_ = os.Remove(filepath.Join(dir, "z"))
	}}, dir)
	require.Contains(t, pathsOf(s), "a")
	require.NotContains(t, pathsOf(s), "z")
}

// A folder below the path that another one replaced while it was read was scanned as a
// mixture of both, without a word, and one that went was there with what had been read.
func TestAFolderBelowThatIsReplacedMeanwhile(t *testing.T) {
	for _, name := range []string{"world/region", "world/region/deep", "world"} {
		dir := folder(t)
		write(t, dir, map[string]string{name + "/a": "1", name + "/b": "1", "x": "", "z": ""})
		at := filepath.Join(dir, filepath.FromSlash(name))
		renames, most := 0, 1
		o := ScanOptions{Exclude: []string{"new", "old*"}, SkipUnreadable: true, Read: func(int) {
			if renames++; renames <= most {
				write(t, dir, map[string]string{"new/b": "2", "new/c": "2", fmt.Sprint("new/", renames): "2"})
				require.NoError(t, os.Rename(at, filepath.Join(dir, fmt.Sprint("old", renames))))
				require.NoError(t, os.Rename(filepath.Join(dir, "new"), at))
			}
		}}
		paths := pathsOf(scanned(t, o, dir))
		i := slices.Index(paths, name)
		require.Equal(t, []string{name, name + "/1", name + "/b", name + "/c"}, paths[i:i+4])
		require.NotContains(t, paths, name+"/a")

		most = 1000
		_, err := Scan(t.Context(), []string{dir}, o)
		require.ErrorIs(t, err, ErrChanged, name)
		require.ErrorContains(t, err, at+": in each of 3 reads it changed")

		paths = pathsOf(scanned(t, ScanOptions{Exclude: []string{"new", "old*"}, Read: func(int) { require.NoError(t, os.RemoveAll(at)) }}, dir))
		require.NotContains(t, paths, name)
		require.Contains(t, paths, "z")
	}
}
