package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a file cannot be created, that is an error of the puts whose objects it
// was for, one or several, and of no others.
func TestPutWhereNoFileCanBeMade(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	f, err := Open(dir)
	require.NoError(t, err)
	waiting := filepath.Join(dir, waitingFolder)
	require.NoError(t, os.Remove(waiting))
	require.ErrorIs(t, f.Put(ctx, "a/alone", []byte{1}), os.ErrNotExist)
	first, err := f.Start(ctx, "a/first", []byte{1})
	require.NoError(t, err)
	second, err := f.Start(ctx, "a/second", []byte{2})
	require.NoError(t, err)
	require.ErrorIs(t, first(), os.ErrNotExist)
	require.ErrorIs(t, second(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(waiting, 0o700))
	require.NoError(t, f.Put(ctx, "a/alone", []byte{1}))
	require.NoError(t, f.Close())
}
