package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"

	"github.com/quivernet/quiver/stream"
)

var bob = IdentityOf([]byte("bob"))

// atOnce is a context for those who do not wait.
func atOnce(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	return ctx
}

func reserve(t *testing.T, f *Folder, name string, size int64) (release func()) {
	t.Helper()
	release, err := f.Reserve(t.Context(), name, name, size)
	require.NoError(t, err)
	return release
}

func TestReserve(t *testing.T) {
	v := openVault(t, Limits{MaxBytes: 60, Quota: 100})
	f := v.Folder(alice)
	_, err := f.Reserve(t.Context(), "x", "key", 61)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "61 bytes, the server's limit is 60")

	save(t, v, alice, "x", bytes.Repeat([]byte("x"), 50))
	_, err = f.Reserve(t.Context(), "x", "key", 51)
	require.ErrorIs(t, err, ErrQuota)
	require.ErrorContains(t, err, "50 bytes are stored and 51 more do not fit into 100 (--quota); a save that is replaced counts")

	t.Log("# what would fit, were it not for another upload, waits for that")
	release := reserve(t, f, "y", 50)
	_, err = f.Reserve(atOnce(t), "z", "z", 1)
	require.ErrorIs(t, err, ErrQuota)
	require.ErrorIs(t, err, errStop)
	require.ErrorContains(t, err, "1 other uploads of 50 bytes go on")
	got := make(chan func())
	go func() { got <- reserve(t, f, "z", 1) }()
	release()
	(<-got)()
	require.Empty(t, v.accounts)

	t.Log("# identities do not share")
	release = reserve(t, f, "y", 50)
	reserve(t, v.Folder(bob), "y", 60)()
	release()
}

// leave leaves an unfinished upload behind.
func leave(t *testing.T, v *Vault, identity, key string, size int) {
	t.Helper()
	part, err := v.Parts().Open(identity, key, int64(size)+1)
	require.NoError(t, err)
	_, err = part.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, part.Close())
}

func stored(t *testing.T, v *Vault) (bytes int64) {
	t.Helper()
	for _, folder := range []string{savesFolder, partsFolder} {
		_ = filepath.WalkDir(filepath.Join(v.dir, folder), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil
			}
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}

// With a quota of 100 bytes, uploads that were begun and never finished took as much as anybody liked.
func TestUnfinishedUploadsCount(t *testing.T) {
	v := openVault(t, Limits{Quota: 100})
	f := v.Folder(alice)
	save(t, v, alice, "x", make([]byte, 40))
	for i := range 10 {
		key := fmt.Sprint(i)
		release := reserve(t, f, key, 31)
		leave(t, v, alice, key, 30)
		release()
		require.LessOrEqual(t, stored(t, v), int64(100))
	}
	t.Log("# nobody else's go for it")
	leave(t, v, bob, "his", 50)
	reserve(t, f, "more", 60)()
	require.Equal(t, int64(90), stored(t, v))
}

func TestUnfinishedUploadsAreFew(t *testing.T) {
	v := openVault(t, Limits{})
	for i := range maxParts + 5 {
		leave(t, v, alice, fmt.Sprint(i), 1)
	}
	reserve(t, v.Folder(alice), "x", 1)()
	require.Equal(t, int64(maxParts), stored(t, v))
}

// What was complete was deleted to make room for what came, before it had become a save.
func TestWhatIsReservedIsNotDeleted(t *testing.T) {
	v := openVault(t, Limits{Quota: 100})
	f := v.Folder(alice)
	content := make([]byte, 50)
	digest := stream.BLAKE3.Of(content)
	release, err := f.Reserve(t.Context(), "x", digest.String(), 50)
	require.NoError(t, err)
	key := arrive(t, v.Parts(), alice, content)
	reserve(t, f, "y", 50)()
	require.NoError(t, f.Adopt(alice, key, "x"))
	release()
	require.Equal(t, int64(50), stored(t, v))
}

// A part that a transfer is just giving up counts until it can be deleted.
func TestReserveWaitsForAnEndingTransfer(t *testing.T) {
	v := openVault(t, Limits{Quota: 100})
	part, err := v.Parts().Open(alice, "old", 60)
	require.NoError(t, err)
	_, err = part.Write(make([]byte, 10))
	require.NoError(t, err)
	f := v.Folder(alice)
	_, err = f.Reserve(atOnce(t), "x", "new", 41)
	require.ErrorIs(t, err, errStop)
	got := make(chan func())
	go func() { got <- reserve(t, f, "x", 41) }()
	require.NoError(t, part.Close())
	(<-got)()
}

// uploader stores, replaces, removes and gives up at random. No two contents are the same: the server lets uploads of one
// content take turns. Whoever counts the bytes meanwhile holds still what changes them, for a walk is no instant.
func uploader(t *testing.T, v *Vault, identity string, rnd *rand.Rand, still *sync.RWMutex) {
	f := v.Folder(identity)
	for i := range 20 {
		name, content := fmt.Sprint(rnd.IntN(4)), make([]byte, 8+rnd.IntN(42))
		for i := range content {
			content[i] = byte(rnd.Uint32())
		}
		if rnd.IntN(3) == 0 {
			still.RLock()
			if err := f.Remove(name); err != nil {
				assert.ErrorIs(t, err, ErrNoSave)
			}
			still.RUnlock()
		}
		digest := stream.BLAKE3.Of(content)
		key := digest.String()
		release, err := f.Reserve(t.Context(), name, key, int64(len(content)))
		if err != nil {
			assert.ErrorIs(t, err, ErrQuota)
			continue
		}
		still.RLock()
		part, err := v.Parts().Open(identity, key, int64(len(content)))
		if assert.NoError(t, err) {
			_, err = part.Write(content[:rnd.IntN(len(content)+1)])
			assert.NoError(t, err)
		}
		if i%3 > 0 {
			_, err = part.Write(content[part.Offset():])
			assert.NoError(t, errors.Join(err, part.Commit(digest), part.Close(), f.Adopt(identity, key, name)))
		} else {
			assert.NoError(t, part.Close())
		}
		still.RUnlock()
		release()
	}
}

func TestQuotaUnderConcurrency(t *testing.T) {
	seed := testkit.Seed(t)
	const quota = 200
	v := openVault(t, Limits{Quota: quota})
	identities := []string{alice, bob}
	var (
		group sync.WaitGroup
		still sync.RWMutex
	)
	for i := range 8 {
		group.Go(func() { uploader(t, v, identities[i%2], rand.New(rand.NewPCG(seed, uint64(i))), &still) })
	}
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			require.LessOrEqual(t, stored(t, v), int64(quota*len(identities)))
			require.Empty(t, v.accounts)
			return
		default:
			still.Lock()
			bytes := stored(t, v)
			still.Unlock()
			require.LessOrEqual(t, bytes, int64(quota*len(identities)))
		}
	}
}
