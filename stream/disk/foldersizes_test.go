package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// Each part that was opened used to look at each file of all identities, under the store's
// lock: an identity with a thousand files made all others wait for a thousand looks.
func TestPartsTakeNoLooksAtOthersFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a second never passes
		const files = 2000
		dir := t.TempDir()
		s := New(dir)
		store(t, s, "first", "k", []byte("x"))
		folder := filepath.Join(dir, hashName("mallory"))
		require.NoError(t, os.Mkdir(folder, 0o700))
		for i := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, hashName(fmt.Sprint(i))+partSuffix), []byte("x"), 0o600))
		}
		opened := 0
		require.Less(t, testing.AllocsPerRun(20, func() {
			require.NoError(t, openTestPart(t, s, mine, fmt.Sprint(opened), 10).Close())
			opened++
		}), files/4.0)
	})
}

// Each part that was opened used to look at the folder of each identity, under
// the store's lock: with thousands of them, one client that began transfers and
// gave them up kept a processor busy, and all others waiting.
func TestPartsTakeNoLooksAtOtherFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a second never passes
		const identities = 2000
		dir := t.TempDir()
		s := New(dir)
		for i := range identities {
			folder := filepath.Join(dir, hashName(fmt.Sprint(i)))
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, hashName("k")+partSuffix), []byte("x"), 0o600))
		}
		s.MaxBytes = identities + 10
		require.NoError(t, openTestPart(t, s, mine, "first", 10).Close())
		opened := 0
		require.Less(t, testing.AllocsPerRun(20, func() {
			require.NoError(t, openTestPart(t, s, fmt.Sprint("mallory ", opened%2), fmt.Sprint(opened), 10).Close())
			opened++
		}), identities/4.0)
		_, err := s.Open(mine, "k", 11)
		require.ErrorIs(t, err, stream.ErrStoreFull, "all count")
	})
}

// Each write to a part of unknown size once looked twice at all files of its identity,
// under the store's lock, if less than growBytes was left: a byte of an identity with
// a thousand files took two thousand looks, for which all others waited.
func TestWritesNearALimitTakeNoLooks(t *testing.T) {
	const files, limit = 2000, 100_000
	for _, set := range []func(s *Store){func(s *Store) { s.MaxIdentityBytes = limit }, func(s *Store) { s.MaxBytes = limit }} {
		dir := t.TempDir()
		s := New(dir)
		s.MaxIdentityFiles = -1
		set(s)
		p := openTestPart(t, s, mine, "k", -1)
		for i := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, hashName(mine), hashName(fmt.Sprint(i))+partSuffix), nil, 0o600))
		}
		require.Less(t, testing.AllocsPerRun(100, func() {
			_, err := p.Write([]byte("x"))
			require.NoError(t, err)
		}), files/4.0)
		_, err := p.Write(make([]byte, limit-p.Offset()))
		require.NoError(t, err, "nothing is kept from the part itself")
		_, err = p.Write([]byte("x"))
		require.ErrorIs(t, err, stream.ErrStoreFull)
		require.NoError(t, p.Close())
	}
}

// Each write waited for the store's lock, under which the parts of others look
// at the disk, though room for it was counted before.
func TestWritesWaitForNoLooks(t *testing.T) {
	s := New(t.TempDir())
	for _, size := range []int64{10, -1} {
		p := openTestPart(t, s, mine, fmt.Sprint(size), size)
		_, err := p.Write([]byte("x"))
		require.NoError(t, err)
		s.mu.Lock() // as during a look
		_, err = p.Write([]byte("y"))
		s.mu.Unlock()
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
}

// Files of other identities count as soon as this process changes them, or
// finds what another process has named.
func TestOthersFilesCountWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	s.MaxBytes = 100
	store(t, s, "other", "k", make([]byte, 50))
	require.NoError(t, openTestPart(t, s, mine, "fits", 50).Close())
	p := openTestPart(t, s, "other", "part", -1)
	_, err := p.Write(make([]byte, 30))
	require.NoError(t, err)
	_, err = s.Open(mine, "k", 21)
	require.ErrorIs(t, err, stream.ErrStoreFull, "while it is written")
	require.NoError(t, p.Close())
	_, err = s.Open(mine, "k", 21)
	require.ErrorIs(t, err, stream.ErrStoreFull, "and afterwards")
	require.NoError(t, openTestPart(t, s, mine, "k", 20).Close())
	require.NoError(t, s.Remove("other", "part"))
	require.NoError(t, openTestPart(t, s, mine, "k", 50).Close())

	store(t, New(dir), "another", "k", make([]byte, 30))
	s.sizes.listed = time.Time{} // a second later
	_, err = s.Open(mine, "k", 21)
	require.ErrorIs(t, err, stream.ErrStoreFull, "as what another process stores")
}

// TestOthersFoldersStay: a store may be at the top of a disk, beside a folder
// lost+found, which is empty and which only root can read.
func TestOthersFoldersStay(t *testing.T) {
	dir := t.TempDir()
	empty, full := filepath.Join(dir, "lost+found"), filepath.Join(dir, "maps")
	require.NoError(t, os.Mkdir(empty, 0))
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(full, "k"+partSuffix), make([]byte, 50), 0o600))
	s := New(dir)
	s.MaxBytes = 10
	store(t, s, mine, "k", make([]byte, 10))
	require.DirExists(t, empty)
	require.FileExists(t, filepath.Join(full, "k"+partSuffix))
}
