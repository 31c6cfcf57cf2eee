package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream"
)

func TestTrim(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	for i, key := range []string{"oldest", "kept", "newer"} {
		store(t, s, mine, key, make([]byte, 10))
		age(t, dir, "", time.Duration(1+i)*time.Minute)
	}
	require.NoError(t, s.Trim("somebody else", 0, 0))
	require.NoError(t, s.Trim(mine, -1, -1))
	require.Len(t, listing(t, dir), 3)
	age(t, dir, "", time.Hour)
	load(t, s, mine, "newer")

	require.NoError(t, s.Trim(mine, 10, 5, "kept"))
	requireMissing(t, s, mine, "oldest")
	load(t, s, mine, "newer")
	load(t, s, mine, "kept")

	t.Log("# what is being written stays, and is counted by what was announced")
	p := openTestPart(t, s, mine, "part", 50)
	writeAll(t, p, make([]byte, 20))
	require.ErrorIs(t, s.Trim(mine, 49, -1, "kept"), stream.ErrPartBusy)
	requireMissing(t, s, mine, "newer")
	require.NoError(t, s.Trim(mine, 0, 0, "kept", "part"))
	require.NoError(t, p.Close())
	require.NoError(t, s.Trim(mine, -1, 0, "kept"))
	require.Len(t, listing(t, dir), 1)
}

func TestRemoveLeavesWhatAnotherProcessWrites(t *testing.T) {
	dir := t.TempDir()
	p := openTestPart(t, New(dir), mine, "k", 10)
	writeAll(t, p, make([]byte, 5))
	require.ErrorIs(t, New(dir).Remove(mine, "k"), stream.ErrPartBusy)
	writeAll(t, p, make([]byte, 5))
	require.NoError(t, p.Commit(stream.BLAKE3.Of(make([]byte, 10))))
}

// storeScript does at random what transfers, crashes and disks do to a store,
// and remembers what must be in it.
type storeScript struct {
	t     *testing.T
	rnd   *rand.Rand
	dir   string
	store *Store
	open  []*part
}

const (
	scriptIdentities    = 4
	scriptIdentityBytes = 300
	scriptBytes         = 700
	scriptFiles         = 6
)

// content returns the content of a key, the same for all identities, so that a
// resumed part can be checked.
func (s *storeScript) content(key string) []byte {
	return bytes.Repeat([]byte(key), 150)[:10+20*int(key[0]-'a')]
}

// restart kills the process, and opens the store in the state in which that leaves it.
func (s *storeScript) restart() {
	for _, p := range s.open {
		_ = p.file.Close()
	}
	s.open = nil
	s.store = New(s.dir)
	s.store.MaxBytes, s.store.MaxIdentityBytes, s.store.MaxIdentityFiles = scriptBytes, scriptIdentityBytes, scriptFiles
}

func (s *storeScript) step() {
	identity := string(rune('0' + s.rnd.IntN(scriptIdentities)))
	key := string(rune('a' + s.rnd.IntN(8)))
	others := s.others(identity)
	switch s.rnd.IntN(12) {
	case 0:
		s.restart()
	case 1:
		s.damage()
		return // of anybody
	case 2:
		if err := s.store.Remove(identity, key); err != nil {
			require.ErrorIs(s.t, err, stream.ErrPartBusy)
		}
	case 3:
		if c, err := s.store.Lookup(identity, key); err == nil {
			require.NoError(s.t, c.Close())
		} else {
			require.ErrorIs(s.t, err, fs.ErrNotExist)
		}
	default:
		s.transfer(identity, key)
	}
	require.Equal(s.t, others, s.others(identity), "what others store")
}

// transfer opens a part, and mostly ends it.
func (s *storeScript) transfer(identity, key string) {
	data := s.content(key)
	size := int64(len(data))
	if s.rnd.IntN(4) == 0 {
		size = -1
	}
	opened, err := s.store.Open(identity, key, size)
	if err != nil {
		require.True(s.t, isOneOf(err, stream.ErrPartBusy, stream.ErrStoreFull), err)
		return
	}
	p := opened.(*part)
	rest := data[p.Offset():]
	if n, err := p.Write(rest[:s.rnd.IntN(len(rest)+1)]); err != nil {
		require.ErrorIs(s.t, err, stream.ErrStoreFull)
		require.Zero(s.t, n)
	}
	switch s.rnd.IntN(4) {
	case 0:
		s.open = append(s.open, p)
	case 1:
		require.NoError(s.t, p.Close())
	default:
		s.commit(p, identity, key)
	}
}

func (s *storeScript) commit(p *part, identity, key string) {
	data := s.content(key)
	_, err := p.Write(data[p.Offset():])
	if err == nil && !bytes.Equal(data, s.read(p)) { // damaged
		require.NoError(s.t, p.Delete())
		return
	}
	if err == nil {
		err = p.Commit(stream.BLAKE3.Of(data))
	}
	require.NoError(s.t, p.Close())
	if err != nil {
		require.ErrorIs(s.t, err, stream.ErrStoreFull)
		return
	}
	require.Equal(s.t, data, load(s.t, s.store, identity, key))
}

func (s *storeScript) read(p *part) []byte {
	stored := make([]byte, p.Offset())
	_, err := p.ReadAt(stored, 0)
	require.NoError(s.t, err)
	return stored
}

// damage cuts or changes a part, as a power failure may.
func (s *storeScript) damage() {
	for _, path := range listing(s.t, s.dir) {
		data, err := os.ReadFile(path)
		if filepath.Ext(path) != partSuffix || err != nil || len(data) == 0 || s.isOpen(path) {
			continue
		}
		at := s.rnd.IntN(len(data))
		if s.rnd.IntN(2) == 0 {
			data = data[:at]
		} else {
			data[at] ^= 1
		}
		require.NoError(s.t, os.WriteFile(path, data, 0o600))
		return
	}
}

func (s *storeScript) isOpen(path string) bool {
	for _, p := range s.open {
		if p.path == path {
			return true
		}
	}
	return false
}

// others lists what all but one identity store.
func (s *storeScript) others(identity string) (files []string) {
	for _, path := range listing(s.t, s.dir) {
		if filepath.Base(filepath.Dir(path)) == hashName(identity) {
			continue
		}
		info, err := os.Stat(path)
		require.NoError(s.t, err)
		files = append(files, fmt.Sprint(path, info.Size()))
	}
	return files
}

// check counts what lies on the disk.
func (s *storeScript) check() {
	total, each := int64(0), make(map[string]int64)
	for _, path := range listing(s.t, s.dir) {
		info, err := os.Stat(path)
		require.NoError(s.t, err)
		total += info.Size()
		each[filepath.Dir(path)] += info.Size()
	}
	require.LessOrEqual(s.t, total, int64(scriptBytes))
	for _, bytes := range each {
		require.LessOrEqual(s.t, bytes, int64(scriptIdentityBytes))
	}
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

func TestStoreThroughCrashes(t *testing.T) {
	s := &storeScript{t: t, rnd: testkit.Rand(t), dir: filepath.Join(t.TempDir(), "store")}
	require.NoError(t, os.Mkdir(s.dir, 0o700))
	s.restart()
	for range 150 {
		s.step()
		s.check()
	}
	s.restart()
}

// TestEvictWhatIsGone: a file that another process has removed meanwhile makes
// room, too; one that cannot be removed is an error.
func TestEvictWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	for _, blob := range []bool{true, false} {
		require.NoError(t, storedFile{path: filepath.Join(dir, "gone"), blob: blob}.evict())
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o700))
	require.ErrorContains(t, storedFile{path: filepath.Join(dir, "folder"), blob: true}.evict(), "folder")
}
