package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
)

// A world is a store that is killed, and what must be in it.
type world struct {
	t     *testing.T
	r     *rand.Rand
	files *storetest.Forgetful
	gate  *gated
	store *store.Folder
	there map[string][]byte // acknowledged
	maybe map[string][]byte // of a call that was not answered: there or not; nil: perhaps deleted
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	w := &world{t: t, r: r, files: storetest.NewForgetful(r), there: make(map[string][]byte), maybe: make(map[string][]byte)}
	w.open()
	return w
}

func (w *world) open() {
	w.gate = &gated{Files: w.files}
	s, err := store.OpenOn(w.gate)
	require.NoError(w.t, err)
	w.store = s
}

// operate does something at random, and records what must be there afterwards.
func (w *world) operate() {
	key := fmt.Sprintf("%c/%c/%d", 'a'+w.r.IntN(2), 'a'+w.r.IntN(2), w.r.IntN(4))
	if w.r.IntN(3) == 0 {
		w.delete(key)
		return
	}
	data := bytes.Repeat([]byte{byte(w.r.Uint32())}, 1+w.r.IntN(100))
	if w.r.IntN(3) > 0 {
		w.put(key, data, w.store.Put(w.t.Context(), key, data))
		return
	}
	all := map[string][]byte{key: data}
	for i := range 2 + w.r.IntN(4) {
		all[fmt.Sprintf("%c/%c/%d", 'a'+w.r.IntN(2), 'a'+w.r.IntN(2), i)] = data[:w.r.IntN(len(data)+1)]
	}
	for key, err := range putTogether(w.t.Context(), w.store, w.gate, key, all) {
		w.put(key, all[key], err)
	}
}

// put records what a put has returned.
func (w *world) put(key string, data []byte, err error) {
	_, had := w.there[key]
	switch {
	case err == nil:
		require.False(w.t, had)
		w.there[key] = data
	case errors.Is(err, fs.ErrExist):
		require.True(w.t, had)
	default:
		require.True(w.t, w.files.Dead(), err)
		if !had {
			w.maybe[key] = data
		}
	}
}

func (w *world) delete(key string) {
	err := w.store.Delete(w.t.Context(), key)
	if err != nil {
		require.True(w.t, w.files.Dead(), err)
		if _, had := w.there[key]; had {
			w.maybe[key] = w.there[key]
		}
	}
	delete(w.there, key)
}

// check compares what is there with what must be, and records what happened to
// calls without an answer.
func (w *world) check() {
	for o, err := range w.store.List(w.t.Context(), "") {
		require.NoError(w.t, err)
		if data, ok := w.maybe[o.Key]; ok {
			w.there[o.Key] = data
		}
	}
	clear(w.maybe)
	var want []string
	for key, data := range w.there {
		want = append(want, key)
		got, err := w.store.Get(w.t.Context(), key)
		require.NoError(w.t, err, key)
		require.Equal(w.t, data, got, key)
	}
	slices.Sort(want)
	require.Equal(w.t, want, keys(w.t, w.store, ""))
}

// Whenever the power is cut or the process killed, everything acknowledged is
// there and complete, and nothing else is.
func TestPowerCutAtEveryPoint(t *testing.T) {
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		for at := 1; at <= 300; at++ {
			r := rand.New(rand.NewPCG(seed, uint64(at)))
			w := newWorld(t, r)
			w.files.CutAt(at)
			for range 2 { // twice: what the first left behind is durable too
				for !w.files.Dead() {
					w.operate()
				}
				w.files.Reboot(r.IntN(3) == 0)
				w.open()
				w.check()
				w.files.CutAt(1 + r.IntN(40))
			}
		}
	})
}

// The power may be cut while a store is opened, as often as it likes.
func TestPowerCutWhileOpening(t *testing.T) {
	r := testkit.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			w := newWorld(t, r)
			w.files.CutAt(30 + r.IntN(30))
			for !w.files.Dead() {
				w.operate()
			}
			for at := 1; ; at++ {
				w.files.Reboot(r.IntN(3) == 0)
				w.files.CutAt(at)
				if _, err := store.OpenOn(w.files); err == nil {
					break
				}
			}
			w.files.CutAt(0)
			w.open()
			w.check()
		}
	})
}
