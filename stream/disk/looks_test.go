package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// Each part that was opened used to look at each file of all identities, under the store's lock: an identity with a thousand files made
// all others wait for a thousand looks.
func TestPartsTakeNoLooksAtOthersFiles(t *testing.T) {
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
}

// Files of other identities count as soon as this process changes them, or another process names them.
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
	_, err = s.Open(mine, "k", 21)
	require.ErrorIs(t, err, stream.ErrStoreFull, "as what another process stores")
}
