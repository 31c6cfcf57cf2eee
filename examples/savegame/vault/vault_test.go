package vault

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

var alice = IdentityOf([]byte("alice"))

func openVault(t *testing.T, limits Limits) *Vault {
	t.Helper()
	v, err := Open(t.TempDir(), limits)
	require.NoError(t, err)
	return v
}

// arrive puts content into a store, as a transfer does, and returns its key.
func arrive(t *testing.T, store stream.Store, identity string, content []byte) string {
	t.Helper()
	digest := stream.BLAKE3.Of(content)
	key := digest.String()
	part, err := store.Open(identity, key, int64(len(content)))
	require.NoError(t, err)
	_, err = part.Write(content)
	require.NoError(t, err)
	require.NoError(t, part.Commit(digest))
	require.NoError(t, part.Close())
	return key
}

// save puts a save into the folder of an identity.
func save(t *testing.T, v *Vault, identity, name string, content []byte) {
	t.Helper()
	key := arrive(t, v.Parts(), identity, content)
	require.NoError(t, v.Folder(identity).Adopt(identity, key, name))
}

func TestSaveIsThereWholeAndGone(t *testing.T) {
	v := openVault(t, Limits{})
	f := v.Folder(alice)
	content := []byte("the content")
	save(t, v, alice, "one.sav", content)

	saves, err := f.List()
	require.NoError(t, err)
	require.Len(t, saves, 1)
	require.Equal(t, "one.sav", saves[0].Name)
	require.Equal(t, int64(len(content)), saves[0].Size)

	file, size, digest, err := f.Open(t.Context(), "one.sav")
	require.NoError(t, err)
	require.Equal(t, int64(len(content)), size)
	require.Equal(t, stream.BLAKE3.Of(content), digest)

	require.NoError(t, f.Remove("one.sav"))
	require.ErrorIs(t, f.Remove("one.sav"), ErrNoSave)
	_, _, _, err = f.Open(t.Context(), "one.sav")
	require.ErrorIs(t, err, ErrNoSave)
	if got, err := io.ReadAll(file); err == nil { // an open save stays readable, where the system knows that
		require.Equal(t, content, got)
	}
	require.NoError(t, file.Close())
}

func TestIdentitiesDoNotSeeEachOther(t *testing.T) {
	v := openVault(t, Limits{})
	save(t, v, alice, "one.sav", []byte("hers"))
	saves, err := v.Folder(IdentityOf([]byte("bob"))).List()
	require.NoError(t, err)
	require.Empty(t, saves)
}

func TestAdoptReplaces(t *testing.T) {
	v := openVault(t, Limits{})
	save(t, v, alice, "x", []byte("old"))
	save(t, v, alice, "x", []byte("newer"))
	_, size, digest, err := openAndClose(t, v.Folder(alice), "x")
	require.NoError(t, err)
	require.Equal(t, int64(5), size)
	require.Equal(t, stream.BLAKE3.Of([]byte("newer")), digest)
}

func openAndClose(t *testing.T, f *Folder, name string) (*os.File, int64, stream.Digest, error) {
	file, size, digest, err := f.Open(t.Context(), name)
	if err == nil {
		err = file.Close()
	}
	return file, size, digest, err
}

func TestBadNamesTouchNothing(t *testing.T) {
	v := openVault(t, Limits{})
	f := v.Folder(alice)
	key := arrive(t, v.Parts(), alice, []byte("x"))
	for _, bad := range []string{"", "../x", "a/b"} {
		require.ErrorIs(t, f.Adopt(alice, key, bad), ErrName)
		require.ErrorIs(t, f.Remove(bad), ErrName)
		_, _, _, err := f.Open(t.Context(), bad)
		require.ErrorIs(t, err, ErrName)
		_, err = f.Reserve(t.Context(), bad, "key", 1)
		require.ErrorIs(t, err, ErrName)
	}
}

func TestAdoptOfWhatIsNotComplete(t *testing.T) {
	v := openVault(t, Limits{})
	part, err := v.Parts().Open(alice, "key", 10)
	require.NoError(t, err)
	_, err = part.Write([]byte("half"))
	require.NoError(t, err)
	require.ErrorIs(t, v.Folder(alice).Adopt(alice, "key", "x"), os.ErrNotExist)
	require.NoError(t, part.Close())
	saves, err := v.Folder(alice).List()
	require.NoError(t, err)
	require.Empty(t, saves)
}

func TestCopyOf(t *testing.T) {
	v := openVault(t, Limits{})
	f := v.Folder(alice)
	content := []byte("same")
	save(t, v, alice, "a", content)
	save(t, v, alice, "b", []byte("diff"))
	had, err := f.CopyOf(t.Context(), stream.BLAKE3.Of(content), 4, "c")
	require.NoError(t, err)
	require.True(t, had)
	require.NoError(t, f.Remove("a"))
	_, _, digest, err := openAndClose(t, f, "c")
	require.NoError(t, err)
	require.Equal(t, stream.BLAKE3.Of(content), digest)
	had, err = f.CopyOf(t.Context(), stream.BLAKE3.Of([]byte("else")), 4, "d")
	require.NoError(t, err)
	require.False(t, had)
}

func TestCopyOfItself(t *testing.T) {
	v := openVault(t, Limits{})
	save(t, v, alice, "a", []byte("same"))
	had, err := v.Folder(alice).CopyOf(t.Context(), stream.BLAKE3.Of([]byte("same")), 4, "a")
	require.NoError(t, err)
	require.True(t, had)
}

func TestDigestIsNotStale(t *testing.T) {
	v := openVault(t, Limits{})
	save(t, v, alice, "x", []byte("first"))
	_, _, before, err := openAndClose(t, v.Folder(alice), "x")
	require.NoError(t, err)
	path := filepath.Join(v.dir, savesFolder, alice, "x")
	require.NoError(t, os.WriteFile(path, []byte("second"), 0o600))
	_, _, after, err := openAndClose(t, v.Folder(alice), "x")
	require.NoError(t, err)
	require.NotEqual(t, before, after)
}

func TestOpenSweepsAndHides(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, savesFolder, alice)
	require.NoError(t, os.MkdirAll(folder, 0o700))
	left := filepath.Join(folder, temporary+"x")
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".other"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "save"), nil, 0o600))
	v, err := Open(dir, Limits{})
	require.NoError(t, err)
	require.NoFileExists(t, left)
	saves, err := v.Folder(alice).List()
	require.NoError(t, err)
	require.Len(t, saves, 1)
}

func TestOpenWhereNoFolderCanBe(t *testing.T) {
	path := filepath.Join(writeFile(t, "a file"), "sub")
	_, err := Open(path, Limits{})
	require.ErrorContains(t, err, path)
	require.Equal(t, 0, strings.Count(err.Error(), "\n"))
}

// fullStore is a store on a full disk.
type fullStore struct {
	stream.Store
	err     error
	removed []string
}

func (s *fullStore) Open(string, string, int64) (stream.Part, error) { return nil, s.err }
func (s *fullStore) Remove(_, key string) error {
	s.removed = append(s.removed, key)
	return nil
}

func TestPatientFailsWhereNothingCanBeStored(t *testing.T) {
	_, err := Patient(&fullStore{err: stream.ErrStoreFull}).Open(alice, "key", 1)
	require.Error(t, err)
	require.NotErrorIs(t, err, stream.ErrStoreFull)
}

func TestPatientWaitsForThePart(t *testing.T) {
	store := disk.New(t.TempDir())
	part, err := store.Open(alice, "key", 10)
	require.NoError(t, err)
	opened := make(chan error)
	go func() {
		second, err := Patient(store).Open(alice, "key", 10)
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	require.NoError(t, part.Close())
	require.NoError(t, <-opened)
}

func TestDropIfFull(t *testing.T) {
	s := &fullStore{}
	DropIfFull(s, alice, "key", errors.New("other"))
	require.Empty(t, s.removed)
	DropIfFull(s, alice, "key", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	require.Equal(t, []string{"key"}, s.removed)
}

func TestReason(t *testing.T) {
	err := &os.PathError{Op: "open", Path: "/secret", Err: os.ErrPermission}
	require.Equal(t, os.ErrPermission, Reason(err))
	require.NoError(t, Reason(nil))
}
