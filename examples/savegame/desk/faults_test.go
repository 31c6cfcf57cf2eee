package desk

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
)

// A ledger is what was acknowledged: the content of each version.
type ledger struct {
	mu       sync.Mutex
	versions map[string]map[int][]byte
}

func (l *ledger) acknowledged(v versions.Version, content []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.versions == nil {
		l.versions = make(map[string]map[int][]byte)
	}
	if l.versions[v.Name] == nil {
		l.versions[v.Name] = make(map[int][]byte)
	}
	l.versions[v.Name][v.Number] = content
}

// require asserts that everything acknowledged is there, and that everything
// that is there is complete.
func (l *ledger) require(t *testing.T, h *host) versions.Report {
	report, err := h.all.Check(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	c := h.dial()
	for name, contents := range l.versions {
		for number, content := range contents {
			require.True(t, string(content) == string(get(t, c, name, number)), "%s@%d", name, number)
		}
	}
	return report
}

// inhabit puts versions of a save until an error is not one after which to try
// again, or until all are put.
func (l *ledger) inhabit(t *testing.T, c *Client, r *rand.Rand, name string, puts int, again func(error) bool) {
	for range puts {
		content := append(noise(uint64(r.IntN(3)), 200_000), noise(r.Uint64(), r.IntN(300_000))...)
		for {
			s, err := put(t, c, versions.Request{Name: name, Mode: versions.Force}, content)
			if err == nil {
				l.acknowledged(s.Version, content)
				break
			}
			if !again(err) {
				return
			}
		}
	}
}

// TestFailingStore: one call of the store in twenty fails, and clients that are told so try again.
func TestFailingStore(t *testing.T) {
	failing := storetest.NewFailing(storetest.NewMemory(nil), testkit.Rand(t), 0)
	h := newHost(t, versions.Config{}, func(store.Store) store.Store { return failing })
	failing.Fail(20)
	l, seed := &ledger{}, testkit.Seed(t)
	var clients sync.WaitGroup
	for i := range uint64(4) {
		c, r := h.dial(), rand.New(rand.NewPCG(seed, i))
		clients.Go(func() {
			l.inhabit(t, c, r, fmt.Sprint("save ", i), 10, func(error) bool { return c.Conn().Err() == nil })
		})
	}
	clients.Wait()
	failing.Fail(0)
	require.Equal(t, 40, l.require(t, h).Versions, "none lost, and none twice")
}

// TestPowerCut: the power is cut while clients put, and what is on the disk
// then is what was flushed.
func TestPowerCut(t *testing.T) {
	seed := testkit.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	files, l := storetest.NewForgetful(r), &ledger{}
	for life := range uint64(12) {
		t.Run(fmt.Sprint("life ", life), func(t *testing.T) {
			h := newHost(t, versions.Config{}, func(store.Store) store.Store {
				folder, err := store.OpenOn(files)
				require.NoError(t, err)
				return folder
			})
			l.require(t, h)
			files.CutAt(1 + r.IntN(150))
			var clients sync.WaitGroup
			for i := range uint64(2) {
				c, r := h.dial(), rand.New(rand.NewPCG(seed, 2+2*life+i))
				clients.Go(func() {
					l.inhabit(t, c, r, fmt.Sprint("save ", i), 1<<20, func(err error) bool {
						require.True(t, files.Dead(), err)
						return false
					})
				})
			}
			clients.Wait()
		})
		files.Reboot(r.IntN(3) == 0)
	}
}

// TestFullDisk: clients that are refused leave room for others.
func TestFullDisk(t *testing.T) {
	h := newHost(t, versions.Config{}, func(store.Store) store.Store {
		return &storetest.Small{Store: storetest.NewMemory(nil), Space: 1 << 20}
	})
	c := h.dial()
	_, err := put(t, c, versions.Request{Name: "large"}, noise(1, 2<<20))
	require.ErrorIs(t, err, ErrFull)
	require.False(t, Transient(err))
	s, err := put(t, c, versions.Request{Name: "small"}, noise(2, 700_000))
	require.NoError(t, err)
	l := &ledger{}
	l.acknowledged(s.Version, noise(2, 700_000))
	require.Equal(t, 1, l.require(t, h).Versions)
}
