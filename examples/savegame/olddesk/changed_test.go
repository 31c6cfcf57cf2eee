package desk

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
)

// A file that was written to while it was put was "not what was announced".
func TestFileThatChangesDuringAPut(t *testing.T) {
	p := newPair(t)
	for _, content := range []string{"other", "longer than it was", ""} {
		src := newSource(t, []byte("first"))
		p.client.config.Watch = func(string, Tracker) (stop func()) {
			return func() { require.NoError(t, os.WriteFile(src.Name(), []byte(content), 0o600)) }
		}
		_, err := p.client.Put(t.Context(), "x", src)
		require.ErrorIs(t, err, vault.ErrChanged, content)
		require.ErrorContains(t, err, src.Name())
		requireNoSaves(t, p.folder)
	}
}

func TestInterruptedHashing(t *testing.T) {
	p := newPair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLeft)
	_, err := p.client.Put(ctx, "x", newSource(t, []byte("content")))
	require.ErrorIs(t, err, errLeft)
}
