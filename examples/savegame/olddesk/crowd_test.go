package desk

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream"
)

// crowd runs fn with so many clients at once, all with one token. They connect one after the other: handshakes all at
// once are another matter, and under the race detector slow enough to time out.
func (p *pair) crowd(t *testing.T, clients int, fn func(i int, c *Client)) {
	t.Helper()
	crowd := make([]*Client, clients)
	for i := range crowd {
		c, err := Dial(t.Context(), p.config)
		require.NoError(t, err)
		crowd[i] = c
	}
	var group sync.WaitGroup
	for i, c := range crowd {
		group.Go(func() {
			fn(i, c)
			c.Close()
		})
	}
	group.Wait()
}

const crowdSize = 50

// A few of fifty puts failed: contents that had come were deleted for others that began, before they were saves.
func TestManyClientsPutAtOnce(t *testing.T) {
	seed := testkit.Seed(t)
	p := newPair(t)
	sources := make([]*vault.Source, crowdSize)
	for i := range sources {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		content := make([]byte, rnd.IntN(100_000))
		for i := range content {
			content[i] = byte(rnd.Uint32())
		}
		sources[i] = newSource(t, content)
	}
	p.crowd(t, crowdSize, func(i int, c *Client) {
		_, err := c.Put(t.Context(), fmt.Sprintf("save%02d", i), sources[i])
		assert.NoError(t, err)
	})
	saves, err := p.folder.List()
	require.NoError(t, err)
	require.Len(t, saves, crowdSize)
	for i, s := range saves {
		had, err := p.folder.Has(t.Context(), s.Name, sources[i].Digest, sources[i].Size)
		require.NoError(t, err)
		require.True(t, had, s.Name)
	}
}

func TestManyClientsPutTheSameContent(t *testing.T) {
	p := newPair(t)
	content := make([]byte, 300_000)
	sources := make([]*vault.Source, crowdSize)
	for i := range sources {
		sources[i] = newSource(t, content)
	}
	sent := make(chan string, crowdSize)
	p.crowd(t, crowdSize, func(i int, c *Client) {
		had, err := c.Put(t.Context(), fmt.Sprintf("save%02d", i%10), sources[i])
		assert.NoError(t, err)
		if !had {
			sent <- fmt.Sprint(i)
		}
	})
	require.Len(t, sent, 1, "it was sent once")
	saves, err := p.folder.List()
	require.NoError(t, err)
	require.Len(t, saves, 10)
}

// Those who fetched the same save into one folder took the content from each other.
func TestManyClientsGetAtOnce(t *testing.T) {
	p := newPair(t)
	content := make([]byte, 100_000)
	_, err := p.client.Put(t.Context(), "x", newSource(t, content))
	require.NoError(t, err)
	dir := t.TempDir()
	p.crowd(t, 12, func(i int, c *Client) {
		target, err := vault.OpenTarget(filepath.Join(dir, fmt.Sprint(i/2)), "x")
		if !assert.NoError(t, err) {
			return
		}
		_, _, err = c.Get(t.Context(), "x", target)
		assert.NoError(t, err)
		had, err := target.Has(t.Context(), stream.BLAKE3.Of(content), int64(len(content)))
		assert.NoError(t, err)
		assert.True(t, had)
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 6, "no parts are left")
}

// onDisk is what lies in a folder.
func onDisk(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// stuckDisk is a store that takes three quarters of each content, and nothing more before the client has left: a client
// that leaves in time could else find its upload complete.
type stuckDisk struct {
	stream.Store
	left   atomic.Pointer[chan struct{}] // closed when the client has left
	stored atomic.Int64                  // bytes of the latest content
}

func (d *stuckDisk) Open(identity, key string, size int64) (stream.Part, error) {
	p, err := d.Store.Open(identity, key, size)
	left := d.left.Load()
	if err != nil || left == nil {
		return p, err
	}
	d.stored.Store(0)
	return stuckPart{p, size * 3 / 4, *left, &d.stored}, nil
}

type stuckPart struct {
	stream.Part
	most   int64
	left   <-chan struct{}
	stored *atomic.Int64
}

func (p stuckPart) Write(b []byte) (int, error) {
	if p.Offset()+int64(len(b)) <= p.most {
		n, err := p.Part.Write(b)
		p.stored.Add(int64(n))
		return n, err
	}
	<-p.left
	return 0, errLeft
}

// Sixteen uploads that never ended took sixteen times the quota.
func TestUploadsThatNeverEnd(t *testing.T) {
	const quota = 1 << 20
	disk := &stuckDisk{}
	p := newPairWith(t, vault.Limits{Quota: quota}, func(s stream.Store) stream.Store {
		disk.Store = s
		return disk
	})
	for i := range 6 {
		left := make(chan struct{})
		disk.left.Store(&left)
		disk.stored.Store(0)
		c, err := Dial(t.Context(), p.config)
		require.NoError(t, err)
		content := make([]byte, quota)
		content[0] = byte(i)
		src := newSource(t, content)
		ctx, cancel := context.WithCancelCause(t.Context())
		c.config.Watch = func(_ string, tracker Tracker) (stop func()) {
			ended := make(chan struct{})
			var group sync.WaitGroup
			group.Go(func() {
				for tracker.Progress().Sent < quota/2 || disk.stored.Load() < quota/4 {
					select {
					case <-ended:
						return
					case <-time.After(time.Millisecond):
					}
				}
				if _, isTransfer := tracker.(*stream.Transfer); isTransfer {
					cancel(errLeft)
				}
			})
			return func() {
				close(ended)
				group.Wait()
			}
		}
		_, err = c.Put(ctx, fmt.Sprint(i), src)
		close(left)
		require.ErrorIs(t, err, errLeft)
		require.LessOrEqual(t, onDisk(filepath.Join(p.dir, "parts")), int64(quota))
		c.Close()
	}
	disk.left.Store(nil)
	require.Positive(t, onDisk(filepath.Join(p.dir, "parts")))
	_, err := p.client.Put(t.Context(), "whole", newSource(t, make([]byte, quota)))
	require.NoError(t, err)
	require.Equal(t, int64(quota), onDisk(filepath.Join(p.dir, "parts"))+onDisk(filepath.Join(p.dir, "saves")))
}
