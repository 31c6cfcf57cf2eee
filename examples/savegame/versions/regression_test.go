package versions

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// A put of a content with a damaged manifest was acknowledged, and nobody could get it.
func TestPutMendsADamagedManifest(t *testing.T) {
	for name, reopen := range map[string]bool{"found by a get": false, "found when the store is read": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, Config{})
			u, ctx, s := p.user("alice"), t.Context(), saveOf("one", "two")
			v := p.put(u, Request{Name: "world"}, s)
			p.store.(*storetest.Memory).Damage(u.key(cdc.Chunk{Digest: v.Content}))
			if reopen {
				p.open(Config{})
				u = p.user("alice")
			}
			_, err := get(ctx, u, "world", 0)
			require.ErrorIs(t, err, ErrDamaged)
			p.put(u, Request{Name: "world", Seen: v.Ref()}, s)
			p.requireContent(u, "world", 0, s)
			p.put(u, Request{Name: "copy"}, s)
			p.requireContent(u, "copy", 0, s)
			require.Empty(t, p.requireSound())
		})
	}
}

// A put that had found no room forgot that when its other chunks, which it
// ends, failed for another reason: what had arrived took up room.
func TestNoRoomIsNotForgotten(t *testing.T) {
	p := newPlace(t, Config{})
	put, err := p.user("alice").Begin(t.Context(), Request{Name: "world", Machine: "pc"})
	require.NoError(t, err)
	defer put.Abandon()
	require.Error(t, put.fails(new(Full)))
	require.Error(t, put.fails(context.Canceled))
	require.True(t, put.full.Load())
}

// What the record of a kept conflict displaced was reported to nobody.
func TestWhatAKeptConflictDisplacedIsTold(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes
	p := newPlace(t, Config{Quota: 3*one - recordBytes})
	u := p.user("alice")
	first := p.put(u, Request{Name: "world"}, saveOf(noise(1, size)))
	p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf(noise(2, size)))
	v := p.put(u, Request{Name: "world", Mode: KeepBoth}, saveOf(noise(3, size)))
	require.NotEqual(t, "world", v.Name)
	require.Equal(t, []string{"world@2 put"}, p.history(u, "world"))
	require.Equal(t, []string{"world@1"}, u.Displaced())
}

// What a get had found damaged counted as there again once the store was read
// again, as it is when a client disconnects during a chunk.
func TestWhatIsDamagedStaysSoUntilItIsPut(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx, s := p.user("alice"), t.Context(), saveOf("one", "two")
	v := p.put(u, Request{Name: "world"}, s)
	p.store.(*storetest.Memory).Damage(u.key(s.manifest.Chunks()[0]))
	_, err := get(ctx, u, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	u.stale.Store(true)
	p.put(u, Request{Name: "world", Seen: v.Ref()}, s)
	p.requireContent(u, "world", 0, s)
	require.Empty(t, p.requireSound())
}

// Records of the trash were counted as versions that are kept, in the place of
// some that a player wants.
func TestTheLastVersionsStay(t *testing.T) {
	p := newPlace(t, Config{Keep: 2, KeepFor: time.Hour})
	u := p.user("alice")
	for i := range uint64(3) {
		p.put(u, Request{Name: "world", Mode: Force}, saveOf(noise(i, 1000)))
	}
	for range 2 {
		_, err := u.Remove(t.Context(), "world", "m", Ref{})
		require.NoError(t, err)
		_, _, err = u.Restore(t.Context(), "world", 0, "m")
		require.NoError(t, err)
	}
	p.put(u, Request{Name: "world", Mode: Force}, saveOf(noise(3, 1000)))
	_, err := u.Remove(t.Context(), "world", "m", Ref{})
	require.NoError(t, err)
	p.put(u, Request{Name: "world", Mode: Force}, saveOf(noise(4, 1000)))
	p.now = p.now.Add(100 * time.Hour)
	p.collect()
	require.Equal(t, []string{"world@8 put", "world@9 trash", "world@10 put"}, p.history(u, "world"))
}

// If the clock was set back, what an abandoned put had left was younger than
// now: old versions were deleted in its place.
func TestWhatWasNeverFinishedGoesFirstWhateverTheClockSays(t *testing.T) {
	const size = 100_000
	p := newPlace(t, Config{Quota: 3*(store.Occupied(size+1)+2*recordBytes) + 10_000})
	u, ctx := p.user("alice"), t.Context()
	first := p.put(u, Request{Name: "world"}, saveOf(noise(1, size)))
	second := p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf(noise(2, size)))
	cut := begin2(t, u, saveOf(noise(3, size)))
	_, err := cut.Lacks(ctx, saveOf(noise(3, size)).bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(ctx, cut, 0, cdc.Pack(nil, []byte(noise(3, size)))))
	cut.Abandon()

	p.now = p.now.Add(-time.Hour)
	p.put(u, Request{Name: "world", Seen: second.Ref()}, saveOf(noise(4, size)))
	require.Equal(t, []string{"world@1 put", "world@2 put", "world@3 put"}, p.history(u, "world"))
	require.Empty(t, u.Displaced())
}

// A version that is known to be damaged was restored, and reported to be the newest.
func TestWhatIsDamagedIsNotRestored(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx, s := p.user("alice"), t.Context(), saveOf("one")
	first := p.put(u, Request{Name: "world"}, s)
	p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("two"))
	p.store.(*storetest.Memory).Damage(u.key(s.manifest.Chunks()[0]))
	_, err := get(ctx, u, "world", 1)
	require.ErrorIs(t, err, ErrDamaged)
	_, _, err = u.Restore(ctx, "world", 1, "m")
	require.ErrorIs(t, err, ErrDamaged)
	p.requireContent(u, "world", 0, saveOf("two"))
}

// One manifest in a bad place of the disk made all saves of its user unusable,
// the whole server if there is a total quota, and the check.
func TestWhatCanNotBeReadIsInNobodysWay(t *testing.T) {
	p, deaf := newDeafPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	v := p.put(u, Request{Name: "world"}, saveOf("one"))
	p.put(u, Request{Name: "other"}, saveOf("two"))
	deaf.key = u.key(cdc.Chunk{Digest: v.Content})

	p.open(Config{TotalQuota: 1 << 30})
	u = p.user("alice")
	p.requireContent(u, "other", 0, saveOf("two"))
	p.put(u, Request{Name: "third"}, saveOf("three"))
	_, err := u.Open(ctx, "world", 0)
	require.ErrorIs(t, err, storetest.ErrFailing)
	p.now = p.now.Add(1000 * time.Hour)
	require.Zero(t, p.collect())
	r, err := p.all.Check(ctx, true)
	require.NoError(t, err)
	require.Len(t, r.Findings, 2, "the manifest, and the version")

	deaf.key = ""
	p.requireContent(u, "world", 0, saveOf("one"))
	r, err = p.all.Check(ctx, true)
	require.NoError(t, err)
	require.True(t, r.Sound(), r.Findings)
}

// One record in a bad place of the disk made all saves of its user unusable.
func TestARecordThatCanNotBeReadIsInNobodysWay(t *testing.T) {
	config := Config{Keep: 1, KeepFor: time.Hour}
	p, deaf := newDeafPlace(t, config)
	u, ctx := p.user("alice"), t.Context()
	first := p.put(u, Request{Name: "world"}, saveOf("one"))
	second := p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("two"))
	p.put(u, Request{Name: "other"}, saveOf("three"))
	deaf.key = u.recordKey("world", 2)

	config.TotalQuota = 1 << 30
	p.open(config)
	u = p.user("alice")
	p.requireContent(u, "other", 0, saveOf("three"))
	p.requireContent(u, "world", 1, saveOf("one"))
	require.Equal(t, []string{"world@1 put", "world@2 damaged"}, p.history(u, "world"))
	_, _, err := put(ctx, u, Request{Name: "world", Seen: first.Ref()}, saveOf("four"))
	require.ErrorAs(t, err, new(*Conflict))
	p.now = p.now.Add(1000 * time.Hour)
	require.Zero(t, p.collect())
	p.requireContent(u, "world", 1, saveOf("one")) // as long as nobody can get the newest

	deaf.key = ""
	p.requireContent(u, "world", 0, saveOf("two"))
	p.put(u, Request{Name: "world", Seen: second.Ref()}, saveOf("four"))
	require.Empty(t, p.requireSound())
}

// Manifests of very many small entries took 25 times their bytes each, of all
// puts at once: 8 of 12 MB took 1.1 GB.
func TestOneManifestAtATimeIsLarge(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	const entries = 200_000
	m := manifest.Manifest{Entries: []manifest.Entry{{Path: ".", Kind: manifest.Dir}}}
	for i := range entries {
		m.Entries = append(m.Entries, manifest.Entry{Path: fmt.Sprintf("%07x", i), Kind: manifest.File})
	}
	s, p := save{bytes: m.Append(nil)}, newPlace(t, Config{})
	m.Entries = nil
	runtime.GC()
	before, most := heap(), uint64(0)
	var all sync.WaitGroup
	for i := range 8 {
		begun := begin2(t, p.user(fmt.Sprint("user", i)), s)
		all.Go(func() { _, _ = begun.Lacks(t.Context(), s.bytes) })
	}
	parsed := make(chan struct{})
	go func() { all.Wait(); close(parsed) }()
	for running := true; running; {
		most = max(most, max(heap(), before)-before)
		select {
		case <-parsed:
			running = false
		case <-time.After(time.Millisecond): // each look stops all that runs
		}
	}
	require.Less(t, most, 4*entries*uint64(unsafe.Sizeof(manifest.Entry{})))
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// unlisted is a store that cannot list the folder of a user.
type unlisted struct {
	store.Store
	dir string
}

func (s *unlisted) List(ctx context.Context, dir string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for o, err := range s.Store.List(ctx, dir) {
			if s.dir != "" && strings.HasPrefix(o.Key, s.dir) {
				o, err = store.Object{}, storetest.ErrFailing
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// One folder in a bad place of the disk kept what was outdated, for all users,
// and everything was left unchecked.
func TestAFolderThatCanNotBeListedIsItsUsers(t *testing.T) {
	p := newPlace(t, Config{Keep: 1, KeepFor: time.Hour})
	unlisted := &unlisted{Store: p.store}
	p.store = unlisted
	p.open(Config{Keep: 1, KeepFor: time.Hour})
	for _, name := range []string{"alice", "bob", "carol"} {
		u := p.user(name)
		first := p.put(u, Request{Name: "world"}, saveOf("one"))
		p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("two"))
	}
	unlisted.dir = p.user("bob").prefix
	p.now = p.now.Add(2 * time.Hour)
	did, err := p.all.Collect(t.Context())
	require.ErrorIs(t, err, storetest.ErrFailing)
	require.Equal(t, 3, did.Versions, "bob's are known already")

	p.open(Config{})
	_, err = p.all.User(t.Context(), "bob")
	require.ErrorIs(t, err, storetest.ErrFailing)
	p.requireContent(p.user("carol"), "world", 0, saveOf("two"))
	r, err := p.all.Check(t.Context(), false)
	require.ErrorIs(t, err, storetest.ErrFailing)
	require.Equal(t, 2, r.Users)
}

// A pack that is damaged no longer shows which chunks it had, so check has to
// report that it is there.
func TestCheckNamesADamagedPack(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "objects", "users", "_alice"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects", "users", "_alice", "+X.zip"), []byte("no archive"), 0o600))
	folder, err := store.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, folder.Close()) }()
	all, err := Open(ctx, folder, Config{})
	require.NoError(t, err)
	r, err := all.Check(ctx, true)
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0], "damaged: users/_alice/+X.zip: ")
}

// A damaged record was in the way permanently: check --repair left it, said that a put would
// bring it back, and while it was unknown what it needs nothing of its user was freed.
func TestRepairDeletesADamagedRecord(t *testing.T) {
	p, unread := newDeafPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	first := p.put(u, Request{Name: "world"}, saveOf("one"))
	second := p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("two"))
	check := func(repair bool) []string {
		p.open(Config{})
		r, err := p.all.Check(ctx, repair)
		require.NoError(t, err)
		return r.Findings
	}
	key, found := u.recordKey("world", 1), "incomplete: world@1 of alice: damaged: record"
	unread.key = key
	require.Equal(t, []string{found}, check(true), "what cannot be read may be good")
	unread.key = ""
	require.Empty(t, check(false))

	require.NoError(t, p.store.Delete(ctx, key))
	require.NoError(t, p.store.Put(ctx, key, []byte("{}")))
	require.Equal(t, []string{found}, check(false))
	require.Equal(t, []string{found + "; deleted"}, check(true))
	require.Empty(t, check(false))
	u = p.user("alice")
	require.Equal(t, []string{"world@2 put"}, p.history(u, "world"))
	p.put(u, Request{Name: "world", Seen: second.Ref()}, saveOf("three"))
}

// A put over a version of which several chunks were damaged reported that it
// had all of it again, and had brought back only the one that a get had met.
func TestPutMendsAllThatIsDamaged(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx, s := p.user("alice"), t.Context(), saveOf("one", "two", "three", "four")
	v := p.put(u, Request{Name: "world"}, s)
	for _, c := range s.manifest.Chunks()[1:] {
		p.store.(*storetest.Memory).Damage(u.key(c))
	}
	_, err := get(ctx, u, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	again, sent, err := put(ctx, u, Request{Name: "world", Seen: v.Ref()}, s)
	require.NoError(t, err)
	require.Equal(t, v.Ref(), again.Ref())
	require.Equal(t, 3, sent)
	p.requireContent(u, "world", 0, s)
	require.Empty(t, p.requireSound())
}

// Each put that was begun over a damaged version, and abandoned, caused all of it to be read.
func TestWhatIsWholeIsNotReadForEachPut(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx, s := p.user("alice"), t.Context(), saveOf("one", "two", "three")
	p.put(u, Request{Name: "world"}, s)
	damage := func(i int) { p.store.(*storetest.Memory).Damage(u.key(s.manifest.Chunks()[i])) }
	lacks := func() int {
		begun := begin2(t, u, s)
		defer begun.Abandon()
		lacks, err := begun.Lacks(ctx, s.bytes)
		require.NoError(t, err)
		return len(lacks)
	}
	damage(0)
	_, err := get(ctx, u, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	require.Equal(t, 1, lacks())
	damage(1)
	require.Equal(t, 1, lacks())
	p.now = p.now.Add(readAgain + time.Second)
	require.Equal(t, 2, lacks())
}

// A server whose clock jumped, or had been in 1970 when a save was put into the
// trash, permanently deleted at the next cleaning what is kept for a week.
func TestAClockThatIsWrong(t *testing.T) {
	const years = 100_000 * time.Hour
	p, wrong := newPlace(t, Config{}), time.Duration(0)
	open := func() *User {
		all, err := Open(t.Context(), p.store, Config{Keep: 2, Now: func() time.Time { return p.now.Add(wrong) }})
		require.NoError(t, err)
		p.all = all
		return p.user("alice")
	}
	u := open()
	stay := func(how string) {
		t.Helper()
		require.Zero(t, p.collect().Versions, how)
	}
	for i := range 5 {
		p.put(u, Request{Name: "world", Mode: Force}, saveOf(fmt.Sprint(i)))
	}
	stay("all are young")

	wrong = years
	u = open()
	stay("a server began with a clock that is ahead")
	p.put(u, Request{Name: "world", Mode: Force}, saveOf("ahead"))
	stay("and a put came then")
	wrong = 0
	p.put(u, Request{Name: "world", Mode: Force}, saveOf("back"))
	stay("and one when it was right again")

	wrong = -years
	_, err := u.Remove(t.Context(), "world", "m", Ref{})
	require.NoError(t, err)
	wrong = 0
	u = open() // for this clock knows no time that passes but its own, as time.Now does
	stay("it was removed while the clock stood in 1970")
	require.Len(t, p.history(u, "world"), 8)

	p.now = p.now.Add(7*24*time.Hour + 1)
	require.Equal(t, 8, p.collect().Versions, "a week passed")

	t.Logf("# a server that is switched off each night empties its trash as well")
	p.put(u, Request{Name: "moon"}, saveOf("1"))
	_, err = u.Remove(t.Context(), "moon", "m", Ref{})
	require.NoError(t, err)
	for range 3 {
		stay("less than a week passed")
		p.now = p.now.Add(3 * 24 * time.Hour)
		u = open()
	}
	require.Equal(t, 2, p.collect().Versions, "nine days passed")
}
