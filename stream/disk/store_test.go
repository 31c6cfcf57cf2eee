package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

const mine = "player-1"

func openTestPart(t *testing.T, s stream.Store, identity, key string, size int64) stream.Part {
	p, err := s.Open(identity, key, size)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func writeAll(t *testing.T, p stream.Part, data []byte) {
	n, err := p.Write(data)
	require.NoError(t, err)
	require.Equal(t, len(data), n)
}

// store makes data the complete content of identity's key.
func store(t *testing.T, s stream.Store, identity, key string, data []byte) {
	p := openTestPart(t, s, identity, key, int64(len(data)))
	writeAll(t, p, data)
	require.NoError(t, p.Commit(stream.BLAKE3.Of(data)))
	require.NoError(t, p.Close())
}

func load(t *testing.T, s stream.Store, identity, key string) []byte {
	c, err := s.Lookup(identity, key)
	require.NoError(t, err)
	defer c.Close()
	data, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, int64(len(data)), c.Size())
	require.Equal(t, stream.BLAKE3.Of(data), c.Digest())
	return data
}

func requireMissing(t *testing.T, s stream.Store, identity, key string) {
	_, err := s.Lookup(identity, key)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// listing returns every file below dir.
func listing(t *testing.T, dir string) (files []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func age(t *testing.T, dir, suffix string, by time.Duration) {
	for _, path := range listing(t, dir) {
		if strings.HasSuffix(path, suffix) {
			then := time.Now().Add(-by)
			require.NoError(t, os.Chtimes(path, then, then))
		}
	}
}

func TestPartBecomesContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	s := New(dir)
	requireMissing(t, s, mine, "save")

	data := bytes.Repeat([]byte("abc"), 1000)
	p := openTestPart(t, s, mine, "save", int64(len(data)))
	require.Zero(t, p.Offset())
	writeAll(t, p, data[:1000])
	requireMissing(t, s, mine, "save")
	writeAll(t, p, data[1000:])
	require.Equal(t, int64(3000), p.Offset())
	requireMissing(t, s, mine, "save")
	require.NoError(t, p.Commit(stream.BLAKE3.Of(data)))

	t.Log("# committed: visible at once, still readable through the part, and ended")
	require.Equal(t, data, load(t, s, mine, "save"))
	got := make([]byte, 10)
	_, err := p.ReadAt(got, 1)
	require.NoError(t, err)
	require.Equal(t, data[1:11], got)
	_, err = p.Write([]byte("more"))
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, p.Commit(stream.BLAKE3.Of(data)), fs.ErrClosed)
	require.ErrorIs(t, p.Delete(), fs.ErrClosed)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())

	t.Log("# it is there for another process, and no part is left")
	require.Equal(t, data, load(t, New(dir), mine, "save"))
	files := listing(t, dir)
	require.Len(t, files, 1)
	require.True(t, strings.HasSuffix(files[0], blobSuffix))
}

func TestContentKeepsItsDigest(t *testing.T) {
	s := New(t.TempDir())
	data := []byte("abc")
	for _, a := range []stream.Algorithm{stream.SHA256, stream.BLAKE3} {
		p := openTestPart(t, s, mine, a.String(), 3)
		writeAll(t, p, data)
		require.ErrorContains(t, p.Commit(stream.Digest{}), "it has no digest")
		require.NoError(t, p.Commit(a.Of(data)))
		require.NoError(t, p.Close())
		c, err := s.Lookup(mine, a.String())
		require.NoError(t, err)
		require.Equal(t, a.Of(data), c.Digest())
		require.NoError(t, c.Close())
	}
}

func TestPartIsResumed(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	p := openTestPart(t, New(dir), mine, "k", int64(len(data)))
	writeAll(t, p, data[:600_000])
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Commit(stream.BLAKE3.Of(data)), fs.ErrClosed)

	p = openTestPart(t, New(dir), mine, "k", int64(len(data)))
	require.Equal(t, int64(600_000), p.Offset())
	prefix := make([]byte, 600_000)
	_, err := p.ReadAt(prefix, 0)
	require.NoError(t, err)
	require.Equal(t, data[:600_000], prefix)
	writeAll(t, p, data[600_000:])
	require.NoError(t, p.Commit(stream.BLAKE3.Of(data)))
	require.Equal(t, data, load(t, New(dir), mine, "k"))
}

// A killed process runs no Close; the bytes that it has written are still there.
func TestPartSurvivesWithoutClose(t *testing.T) {
	dir := t.TempDir()
	p := openTestPart(t, New(dir), mine, "k", -1)
	writeAll(t, p, []byte("half"))
	require.NoError(t, p.(*part).file.Close())

	p = openTestPart(t, New(dir), mine, "k", 8)
	require.Equal(t, int64(4), p.Offset())
}

func TestPartThatDoesNotFitItsSizeStartsAgain(t *testing.T) {
	s := New(t.TempDir())
	p := openTestPart(t, s, mine, "k", 100)
	writeAll(t, p, make([]byte, 50))
	require.NoError(t, p.Close())

	p = openTestPart(t, s, mine, "k", 49)
	require.Zero(t, p.Offset())
	_, err := p.Write(make([]byte, 50))
	require.ErrorIs(t, err, stream.ErrTooLarge)
	require.ErrorContains(t, err, "more than the 49 bytes that were announced")
}

func TestDeleteAndRemove(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	p := openTestPart(t, s, mine, "k", -1)
	writeAll(t, p, []byte("x"))
	require.ErrorIs(t, s.Remove(mine, "k"), stream.ErrPartBusy)
	require.NoError(t, p.Delete())
	require.NoError(t, p.Close())
	require.Empty(t, listing(t, dir))

	p = openTestPart(t, s, mine, "k", -1)
	writeAll(t, p, []byte("x"))
	require.NoError(t, p.Close())
	require.NoError(t, s.Remove(mine, "k"))
	store(t, s, mine, "k", []byte("whole"))
	require.NoError(t, s.Remove(mine, "k"))
	require.NoError(t, s.Remove(mine, "never stored"))
	require.Empty(t, listing(t, dir))
}

func TestEmptyPartsLeaveNoFile(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	require.NoError(t, openTestPart(t, s, mine, "k", 10).Close())
	require.Empty(t, listing(t, dir))
	store(t, s, mine, "k", nil)
	require.Empty(t, load(t, s, mine, "k"))
}

func TestSamePartIsOpenOnce(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	p := openTestPart(t, s, mine, "k", -1)
	_, err := s.Open(mine, "k", -1)
	require.ErrorIs(t, err, stream.ErrPartBusy)
	_, err = New(dir).Open(mine, "k", -1)
	require.ErrorIs(t, err, stream.ErrPartBusy, "another process")

	openTestPart(t, s, mine, "another key", -1)
	openTestPart(t, s, "somebody else", "k", -1)
	require.NoError(t, p.Close())
	openTestPart(t, New(dir), mine, "k", -1)
}

// Identities and keys come from outside.
func TestNamesNeverLeaveTheFolderOrMeet(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "store")
	s := New(dir)
	names := []string{"", ".", "..", "../x", "../../etc/passwd", "a/b", `a\b`, `C:\x`, "a\x00b", "NUL", "A", "a", "a ", "*", "\xff", strings.Repeat("n", 5000)}
	for _, identity := range names {
		for _, key := range names {
			store(t, s, identity, key, fmt.Appendf(nil, "%q %q", identity, key))
		}
	}
	for _, identity := range names {
		for _, key := range names {
			require.Equal(t, fmt.Sprintf("%q %q", identity, key), string(load(t, s, identity, key)))
		}
	}
	entries, err := os.ReadDir(outer)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Len(t, listing(t, dir), len(names)*len(names))
}

func TestNewContentReplacesTheOld(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	store(t, s, mine, "latest", []byte("one"))
	store(t, s, mine, "latest", []byte("two"))
	require.Equal(t, "two", string(load(t, s, mine, "latest")))
	require.Len(t, listing(t, dir), 1)
}

// After a crash between the rename and the removal of the old content, both exist.
func TestNewestOfTwoContentsIsFound(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	for i := range 20 {
		key := fmt.Sprint(i)
		base := s.basePath(mine, key)
		store(t, s, mine, key, []byte("old"+key))
		age(t, dir, blobSuffix, time.Hour)
		fresh := []byte("new" + key)
		require.NoError(t, os.WriteFile(blobName(base, stream.BLAKE3.Of(fresh)), fresh, 0o600))
		require.Equal(t, string(fresh), string(load(t, s, mine, key)))
	}
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := New(t.TempDir())
	s.MaxBytes = 1 << 20
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for j := range 10 {
				data := bytes.Repeat([]byte{byte(i)}, 1000*j)
				p, err := s.Open(fmt.Sprint(i), "k", int64(len(data)))
				if !assert.NoError(t, err) {
					return
				}
				_, err = p.Write(data)
				assert.NoError(t, err)
				assert.NoError(t, p.Commit(stream.BLAKE3.Of(data)))
				assert.NoError(t, p.Close())
				_, err = s.Lookup(fmt.Sprint(i+1), "k")
				assert.True(t, err == nil || errors.Is(err, fs.ErrNotExist), err)
			}
		})
	}
	group.Wait()
}

func TestStoreLimits(t *testing.T) {
	tests := map[string]struct {
		set  func(*Store)
		want string
	}{
		"all":      {func(d *Store) { d.MaxBytes = 100 }, "stream: store is full: 60 bytes have to stay and 50 more do not fit into MaxBytes = 100"},
		"identity": {func(d *Store) { d.MaxIdentityBytes = 100 }, "stream: store is full: 60 bytes of one identity have to stay and 50 more do not fit into MaxIdentityBytes = 100"},
		"files":    {func(d *Store) { d.MaxIdentityFiles = 1 }, "stream: store is full: 1 files of one identity have to stay and 1 more do not fit into MaxIdentityFiles = 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := New(dir)
			test.set(s)
			p := openTestPart(t, s, mine, "first", 60)
			writeAll(t, p, make([]byte, 10))
			_, err := s.Open(mine, "second", 50)
			require.ErrorIs(t, err, stream.ErrStoreFull)
			require.ErrorContains(t, err, test.want)
			require.Len(t, listing(t, dir), 1, "no empty file is left")

			t.Log("# what was announced is there for the first, and what it gives back for the second")
			writeAll(t, p, make([]byte, 50))
			require.NoError(t, p.Delete())
			openTestPart(t, s, mine, "second", 50)
		})
	}
}

func TestPartOfUnknownSizeGrowsToTheLimit(t *testing.T) {
	s := New(t.TempDir())
	s.MaxBytes = 1000
	p := openTestPart(t, s, mine, "k", -1)
	for range 10 {
		writeAll(t, p, make([]byte, 100))
	}
	n, err := p.Write([]byte{1})
	require.ErrorIs(t, err, stream.ErrStoreFull)
	require.Zero(t, n)
	require.Equal(t, int64(1000), p.Offset())
}

func TestContentsMakeRoomLeastRecentlyUsedFirst(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	s.MaxBytes = 100
	store(t, s, mine, "a", make([]byte, 40))
	age(t, dir, blobSuffix, 3*time.Hour)
	store(t, s, mine, "b", make([]byte, 40))
	age(t, dir, blobSuffix, 2*time.Hour)
	require.Len(t, load(t, s, mine, "a"), 40, "used now")

	p := openTestPart(t, s, mine, "c", 50)
	requireMissing(t, s, mine, "b")
	load(t, s, mine, "a")
	writeAll(t, p, make([]byte, 50))

	t.Log("# a part that is being written makes no room, and so nothing else goes in vain")
	_, err := s.Open(mine, "d", 60)
	require.ErrorIs(t, err, stream.ErrStoreFull)
	load(t, s, mine, "a")
}

// Five identities, each within its own limit, filled the store and pushed out
// what a sixth had stored.
func TestNobodyMakesRoomForAnother(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	s.MaxBytes, s.MaxIdentityBytes = 100, 25
	store(t, s, "quiet", "content", make([]byte, 10))
	p := openTestPart(t, s, "quiet", "part", 10)
	writeAll(t, p, make([]byte, 5))
	require.NoError(t, p.Close())
	age(t, dir, "", time.Hour)
	for i := range 5 {
		for key := range 4 {
			p, err := s.Open(fmt.Sprint("greedy ", i), fmt.Sprint(key), 20)
			if err != nil {
				require.ErrorIs(t, err, stream.ErrStoreFull)
				require.ErrorContains(t, err, "MaxBytes = 100")
				continue
			}
			writeAll(t, p, make([]byte, 20))
			require.NoError(t, p.Commit(stream.BLAKE3.Of(make([]byte, 20))))
			require.NoError(t, p.Close())
		}
	}
	load(t, s, "quiet", "content")
	require.Equal(t, int64(5), openTestPart(t, s, "quiet", "part", 10).Offset())
}

func TestAbandonedPartsMakeRoom(t *testing.T) {
	s := New(t.TempDir())
	s.MaxIdentityFiles = 2
	abandoned := openTestPart(t, s, mine, "abandoned", 10)
	writeAll(t, abandoned, make([]byte, 5))
	require.NoError(t, abandoned.Close())
	openTestPart(t, s, mine, "open", 10)
	openTestPart(t, s, mine, "third", 10)
	_, err := s.Open(mine, "fourth", 10)
	require.ErrorIs(t, err, stream.ErrStoreFull, "both are being written")
}

func TestOneIdentityCannotPushOutAnother(t *testing.T) {
	s := New(t.TempDir())
	s.MaxIdentityBytes = 100
	store(t, s, "quiet", "a", make([]byte, 80))
	for i := range 10 {
		store(t, s, "greedy", fmt.Sprint(i), make([]byte, 80))
	}
	load(t, s, "quiet", "a")
	load(t, s, "greedy", "9")
	requireMissing(t, s, "greedy", "8")
}

func TestStalePartsExpire(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	for _, key := range []string{"stale", "fresh", "open"} {
		p := openTestPart(t, s, mine, key, -1)
		writeAll(t, p, []byte(key))
		if key != "open" {
			require.NoError(t, p.Close())
		}
	}
	store(t, s, mine, "content", []byte("stays"))
	age(t, dir, "", 8*24*time.Hour)
	p := openTestPart(t, s, mine, "fresh", -1)
	writeAll(t, p, []byte("er"))
	require.NoError(t, p.Close())

	openTestPart(t, s, mine, "new", -1)
	require.Zero(t, openTestPart(t, s, mine, "stale", -1).Offset())
	require.Equal(t, int64(7), openTestPart(t, s, mine, "fresh", -1).Offset())
	require.Equal(t, "stays", string(load(t, s, mine, "content")))
	_, err := s.Open(mine, "open", -1)
	require.ErrorIs(t, err, stream.ErrPartBusy)
}

func TestNegativeLimitsAreNone(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	s.MaxBytes, s.MaxIdentityBytes, s.MaxIdentityFiles, s.PartExpiry = -1, -1, -1, -1
	p := openTestPart(t, s, mine, "old", -1)
	writeAll(t, p, []byte("old"))
	require.NoError(t, p.Close())
	age(t, dir, partSuffix, 1000*time.Hour)
	openTestPart(t, s, mine, "huge", 1<<60)
	require.Equal(t, int64(3), openTestPart(t, s, mine, "old", -1).Offset())
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	store(t, s, mine, "k", []byte("x"))
	foreign := []string{filepath.Join(dir, "notes.txt"), filepath.Join(filepath.Dir(listing(t, dir)[0]), "x.blob")}
	for _, path := range foreign {
		require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o600))
	}
	s.MaxBytes = 10
	store(t, s, mine, "other", make([]byte, 10))
	for _, path := range foreign {
		require.FileExists(t, path)
	}
}

func TestUnusableFolderIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := New(file).Open(mine, "k", 1)
	require.ErrorContains(t, err, "disk: opening a part: ")
	require.ErrorContains(t, err, file)
}

// TestLookupWhileItIsReplaced: a content that is replaced again and again is found at any time.
func TestLookupWhileItIsReplaced(t *testing.T) {
	s, key := New(t.TempDir()), "level"
	store(t, s, mine, key, []byte{0})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			c, err := s.Lookup(mine, key)
			if !assert.NoError(t, err) || !assert.NoError(t, c.Close()) {
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for i := range 200 {
		store(t, s, mine, key, []byte{byte(i)})
	}
	close(stop)
	<-stopped
}

// What a sender says has a part begun under the key of a complete content. That
// stays as it is until the part is committed in its place.
func TestContentStaysUntilAPartReplacesIt(t *testing.T) {
	s := New(t.TempDir())
	old, other := bytes.Repeat([]byte("old"), 100), []byte("other")
	store(t, s, mine, "k", old)
	for i, end := range []func(stream.Part) error{stream.Part.Delete, stream.Part.Close, stream.Part.Delete} {
		p := openTestPart(t, s, mine, "k", 5)
		require.Equal(t, int64(i/2*2), p.Offset())
		writeAll(t, p, other[p.Offset():2+p.Offset()])
		require.Equal(t, old, load(t, s, mine, "k"))
		require.NoError(t, end(p))
		require.Equal(t, old, load(t, s, mine, "k"))
	}
	store(t, s, mine, "k", other)
	require.Equal(t, other, load(t, s, mine, "k"))
}

// TestStoreOfNoFolder: the error says what is missing, and the other end's
// transfer does not meet a panic.
func TestStoreOfNoFolder(t *testing.T) {
	for _, s := range []*Store{{MaxBytes: 1 << 20}, New("")} {
		_, err := s.Lookup(mine, "k")
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = s.Open(mine, "k", 1)
		require.ErrorContains(t, err, "the Store has no folder")
	}
}
