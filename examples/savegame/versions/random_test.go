package versions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream/cdc"
)

// A world is a program of random operations, and what must be there after them.
type world struct {
	*place
	r       *rand.Rand
	config  Config
	files   *storetest.Forgetful // nil: the store is in memory
	failing *storetest.Failing

	contents map[cdc.Digest]save
	acked    map[string][]Version // of each save, by user and name
	did      map[string]int       // how often what was done
}

const machine = "desktop"

func newWorld(t *testing.T, r *rand.Rand, c Config, forgetful bool) *world {
	w := &world{place: newPlace(t, c), r: r, config: c, contents: make(map[cdc.Digest]save), acked: make(map[string][]Version), did: make(map[string]int)}
	if forgetful {
		w.files = storetest.NewForgetful(r)
		w.files.Now = func() time.Time { return w.now }
	}
	w.reopen()
	return w
}

// reopen starts another process.
func (w *world) reopen() {
	base := w.store
	if w.files != nil {
		folder, err := store.OpenOn(w.files)
		require.NoError(w.t, err)
		base = folder
	} else if w.failing != nil {
		base = w.failing.Store
	}
	w.failing = storetest.NewFailing(base, w.r, 0)
	w.store = w.failing
	w.open(w.config)
}

func (w *world) dead() bool { return w.files != nil && w.files.Dead() }

// content makes a save of some of a few chunks, so that saves share them.
func (w *world) content() save {
	var chunks []string
	for range 1 + w.r.IntN(4) {
		seed := w.r.Uint64N(12)
		chunks = append(chunks, noise(seed, 50+int(seed)*1000))
	}
	s := saveOf(chunks...)
	w.contents[s.digest()] = s
	return s
}

// operate does something. What must be there then is what was acknowledged, and
// perhaps what was not.
func (w *world) operate(one int) {
	u, err := w.all.User(w.t.Context(), fmt.Sprintf("user %d", w.r.IntN(2)))
	if err != nil {
		w.excuse(err)
		return
	}
	w.failing.Fail(one)
	name, ctx := fmt.Sprintf("World %d", w.r.IntN(2)), w.t.Context()
	w.now = w.now.Add(time.Duration(w.r.IntN(3)) * time.Hour)
	switch w.r.IntN(12) {
	default:
		w.randomPut(u, name)
		return
	case 0:
		v, err := u.Remove(ctx, name, machine, Ref{})
		w.answered("rm", u, v, Version{Name: name, Kind: Trash}, err)
	case 1:
		var v, want Version
		if acked := w.acked[u.name+"/"+name]; len(acked) > 0 {
			want = acked[w.r.IntN(len(acked))]
		}
		v, _, err = u.Restore(ctx, name, want.Number, machine)
		w.answered("restore", u, v, Version{Name: name, Kind: Stored, Content: v.Content}, err)
	case 2:
		err := u.Erase(ctx, name, machine, Ref{}, true)
		if w.excuse(err); err == nil {
			delete(w.acked, u.name+"/"+name)
			w.did["erase"]++
		}
		w.verify(u, name, Version{Name: name, Kind: Trash}, true)
	case 3:
		c, err := w.all.Collect(ctx)
		w.excuse(err)
		w.did["collected"] += c.Objects
	case 4:
		w.abandonedPut(u, name)
	}
}

// excuse fails the test unless an error is one that may be.
func (w *world) excuse(err error) {
	var conflict *Conflict
	var full *Full
	switch {
	case err == nil, errors.Is(err, storetest.ErrFailing), w.dead(), errors.As(err, &conflict), errors.As(err, &full),
		errors.Is(err, ErrNoSave), errors.Is(err, ErrTrash), errors.Is(err, ErrNoVersion):
	default:
		require.NoError(w.t, err)
	}
}

func (w *world) randomPut(u *User, name string) {
	s := w.content()
	r := Request{Name: name, Machine: machine, Mode: Mode(w.r.IntN(3))}
	if acked := w.acked[u.name+"/"+name]; len(acked) > 0 && w.r.IntN(3) > 0 {
		r.Seen = acked[len(acked)-1].Ref()
	}
	v, _, err := put(w.t.Context(), u, r, s)
	if v.Name == "" {
		v.Name = name
	}
	w.answered("put", u, v, Version{Name: v.Name, Kind: Stored, Content: s.digest()}, err)
}

// abandonedPut sends some chunks.
func (w *world) abandonedPut(u *User, name string) {
	s := w.content()
	p, err := u.Begin(w.t.Context(), Request{Name: name, Machine: machine, Content: s.digest(), Mode: Force})
	if err != nil {
		w.excuse(err)
		return
	}
	defer p.Abandon()
	lacks, err := p.Lacks(w.t.Context(), s.bytes)
	w.excuse(err)
	for _, i := range lacks {
		w.excuse(chunk(w.t.Context(), p, i, cdc.Pack(nil, s.data[i])))
	}
	w.did["abandoned"]++
}

// answered records what a call has made, or may have made.
func (w *world) answered(what string, u *User, v, perhaps Version, err error) {
	w.excuse(err)
	key := u.name + "/" + v.Name
	if err == nil {
		if newest := w.acked[key]; len(newest) == 0 || newest[len(newest)-1] != v {
			w.acked[key] = append(newest, v)
		}
		w.did[what]++
	} else {
		w.did["failed"]++
	}
	w.verify(u, perhaps.Name, perhaps, false)
}

// verify compares a save with what was acknowledged, and records what happened
// to calls that may have been carried out. It reads everything.
func (w *world) verify(u *User, name string, perhaps Version, erased bool) {
	if w.dead() {
		w.reboot()
		u = w.user(u.name)
		defer func() { w.files.CutAt(1 + w.r.IntN(200)) }()
	}
	w.failing.Fail(0)
	names, err := u.List(w.t.Context(), "", 1<<20)
	require.NoError(w.t, err)
	for _, v := range names {
		if v.Name == name || len(w.acked[u.name+"/"+v.Name]) == 0 { // one kept aside without an answer
			w.compare(u, v.Name, perhaps, erased)
		}
	}
	w.compare(u, name, perhaps, erased)
}

func (w *world) compare(u *User, name string, perhaps Version, erased bool) {
	key := u.name + "/" + name
	there, err := u.History(w.t.Context(), name, 0, 1<<20)
	if err != nil {
		require.ErrorIs(w.t, err, ErrNoSave)
	}
	acked := w.acked[key]
	if n := len(there); n > 0 && !slices.Contains(acked, there[n-1]) {
		newest := there[n-1]
		require.True(w.t, newest.Kind == perhaps.Kind && (perhaps.Content == newest.Content || perhaps.Content == cdc.Digest{}), "%v, perhaps %v", newest, perhaps)
		acked = append(acked, newest)
		w.did["done without an answer"]++
	}
	left := slices.DeleteFunc(slices.Clone(acked), func(v Version) bool { return !slices.Contains(there, v) })
	require.True(w.t, slices.Equal(left, there), "%v: only versions that were acknowledged, in their order: %v", numbers(there), numbers(acked))
	switch {
	case erased, w.config.Quota > 0 && len(acked) > 0 && acked[len(acked)-1].Kind == Trash:
	case len(acked) > 0:
		require.NotEmpty(w.t, there, "%s is lost", key)
		require.Equal(w.t, acked[len(acked)-1], there[len(there)-1], "the newest stays")
		require.True(w.t, w.config.Quota > 0 || len(acked) == len(there), "nothing is lost")
	}
	if w.acked[key] = there; len(there) == 0 {
		delete(w.acked, key)
	}
	for _, v := range there {
		if v.Kind == Stored {
			w.requireContent(u, name, v.Number, w.contents[v.Content])
		}
	}
}

// requireSoundNow checks the store: every version is complete and verified, and
// the rest is explained.
func (w *world) requireSoundNow() {
	w.failing.Fail(0)
	r, err := w.all.Check(w.t.Context(), false)
	require.NoError(w.t, err)
	require.Empty(w.t, r.Findings)
}

// finish collects everything, after which nothing is left over.
func (w *world) finish() {
	w.failing.Fail(0)
	for key, acked := range w.acked {
		user, name := key[:6], key[7:]
		w.compare(w.user(user), name, acked[len(acked)-1], false)
	}
	w.now = w.now.Add(w.all.config.Grace + time.Hour)
	w.collect()
	for range 2 {
		require.Empty(w.t, w.requireSound())
		w.reopen()
		w.user("user 0")
		w.user("user 1")
	}
}

func configs() map[string]Config {
	const forever = 1e6 * time.Hour
	return map[string]Config{
		"all stay":    {KeepFor: forever},
		"quota":       {KeepFor: forever, Quota: 120_000},
		"total quota": {KeepFor: forever, Quota: 120_000, TotalQuota: 180_000},
	}
}

// With a store of which one call in twenty fails every version listed is
// complete, and nothing acknowledged is lost.
func TestRandomOperationsOnAFailingStore(t *testing.T) {
	for name, config := range configs() {
		t.Run(name, func(t *testing.T) {
			r := testkit.Rand(t)
			for range 5 {
				w := newWorld(t, r, config, false)
				for range 80 {
					w.operate(20)
				}
				w.finish()
				t.Log(w.did)
			}
		})
	}
}

// The power is cut, or the process killed, at every point, and what was not flushed is forgotten.
func TestRandomOperationsWithKills(t *testing.T) {
	seed := testkit.Seed(t)
	for name, config := range configs() {
		t.Run(name, func(t *testing.T) {
			total := make(map[string]int)
			for at := 1; at <= 100; at++ {
				w := newWorld(t, rand.New(rand.NewPCG(seed, uint64(at))), config, true)
				w.files.CutAt(at)
				for range 15 {
					w.operate(0)
					if w.dead() { // in what only deletes, or was given up
						w.reboot()
						w.files.CutAt(1 + w.r.IntN(200))
					}
				}
				w.files.CutAt(0)
				w.finish()
				for what, n := range w.did {
					total[what] += n
				}
			}
			t.Log(total)
		})
	}
}

// reboot switches the power on again, and checks what is there.
func (w *world) reboot() {
	w.files.Reboot(w.r.IntN(3) == 0)
	w.reopen()
	w.did["killed"]++
	w.requireSoundNow()
}
