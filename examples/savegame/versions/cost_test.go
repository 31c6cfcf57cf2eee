package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// allocated returns how many bytes a run of do allocates, as a measure of its
// work: what is looked at there is copied, sorted or recorded in maps.
func allocated(do func()) int {
	const runs = 10
	var before, after runtime.MemStats
	do()
	runtime.ReadMemStats(&before)
	for range runs {
		do()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}

// Each get parsed the manifest again, before the memory for it was reserved, and all
// other users waited for their turn to parse: a quarter of a second and 355 MB of garbage
// for a request of 50 bytes, for a version that holds a million empty files and no chunk.
func TestOpenDoesNotParse(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	m := &manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.Dir}}}
	for i := range 10_000 {
		m.Entries = append(m.Entries, manifest.Entry{Path: fmt.Sprintf("%06d", i), Kind: manifest.File})
	}
	s := save{bytes: m.Append(nil), manifest: m}
	p.put(u, Request{Name: "world"}, s)
	require.Less(t, allocated(func() {
		c, err := u.Open(t.Context(), "world", 0)
		require.NoError(t, err)
		require.EqualValues(t, len(s.bytes), c.ManifestSize())
		c.Close()
	}), 10_000)
	p.requireContent(u, "world", 0, s)
}

// Manifests are parsed one at a time, and a user that sent several at once of a
// million folders each made all others wait for every one of them: four of one
// user delayed the puts of others by a second.
func TestOneUserTakesOneTurnToParse(t *testing.T) {
	p := newPlace(t, Config{})
	alice, bob := p.user("alice"), p.user("bob")
	large := manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.Dir}}}
	for i := range 100_000 {
		large.Entries = append(large.Entries, manifest.Entry{Path: fmt.Sprintf("%06d", i), Kind: manifest.Dir})
	}
	lacks := func(u *User, name string, b []byte) error {
		put, err := u.Begin(t.Context(), Request{Name: name, Machine: "pc", Content: cdc.Sum(b)})
		if err == nil {
			defer put.Abandon()
			_, err = put.Lacks(t.Context(), b)
		}
		return err
	}
	b, done, ended := large.Append(nil), atomic.Int32{}, make(chan error, 8)
	p.all.parsing.Lock() // by somebody else
	for i := range cap(ended) {
		go func() {
			err := lacks(alice, fmt.Sprint("world ", i), b)
			done.Add(1)
			ended <- err
		}()
	}
	time.Sleep(100 * time.Millisecond)                // all of them wait
	time.AfterFunc(time.Second, p.all.parsing.Unlock) // bob waits by then
	require.NoError(t, lacks(bob, "world", saveOf("one").bytes))
	require.Less(t, done.Load(), int32(cap(ended)/2))
	for range cap(ended) {
		require.NoError(t, <-ended)
	}
}

// Puts that were abandoned kept their manifests while they waited for one that
// the store was slow with.
func TestAbandonedPutsKeepNoManifest(t *testing.T) {
	p := newPlace(t, Config{})
	u, s := p.user("alice"), saveOf(noise(1, cdc.MaxChunk))
	begun := begin2(t, u, s)
	_, err := begun.Lacks(t.Context(), s.bytes)
	require.NoError(t, err)
	u.records.Lock() // by who makes a version
	gone, ended := make(chan struct{}), make(chan struct{})
	runtime.AddCleanup(&begun.bytes[0], func(gone chan struct{}) { close(gone) }, gone)
	s.bytes = nil
	go func() {
		begun.Abandon()
		close(ended)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}, 5*time.Second, 10*time.Millisecond)
	u.records.Unlock()
	<-ended
}

// Each page of a list sorted the names of all saves: 21 ms for a request of 30
// bytes if there are 100,000.
func TestPagesDoNotSortAllNames(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	for i := range 5_000 {
		p.put(u, Request{Name: fmt.Sprintf("world %05d", i)}, saveOf("one"))
	}
	require.Less(t, allocated(func() {
		page, err := u.List(t.Context(), "world 02500", 64)
		require.NoError(t, err)
		require.Len(t, page, 64)
		require.Equal(t, "world 02501", page[0].Name)
	}), 50_000)

	p.put(u, Request{Name: "world 02500 b"}, saveOf("one"))
	require.NoError(t, u.Erase(t.Context(), "world 02501", "desktop", Ref{}, true))
	page, err := u.List(t.Context(), "world 02500", 64)
	require.NoError(t, err)
	require.Equal(t, "world 02500 b", page[0].Name)
	require.Equal(t, "world 02502", page[1].Name)
	for after, want := range map[string]int{"": 64, "world 04998": 1, "world 04998 b": 1, "world 04999": 0, "z": 0} {
		page, err := u.List(t.Context(), after, 64)
		require.NoError(t, err)
		require.Len(t, page, want, after)
	}
}

// After a request for an edit that was canceled at once it was unknown whether
// it was done, and everything that the user has was read from the store for the
// next request: 140 ms for two requests of 100 bytes if there are 20,000
// chunks, while all others wait for a lock that the reading holds.
func TestCanceledEditsHaveNothingRead(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	p.put(u, Request{Name: "world"}, saveOf(manyChunks(0, 2_000)...))
	p.put(u, Request{Name: "world", Mode: Force}, saveOf("one"))
	p.put(u, Request{Name: "gone"}, saveOf("two"))
	_, err := u.Remove(t.Context(), "gone", machine, Ref{})
	require.NoError(t, err)
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("nobody waits"))
	edits := map[string]func() error{
		"remove":                     func() error { _, err := u.Remove(ended, "world", machine, Ref{}); return err },
		"restore":                    func() error { _, _, err := u.Restore(ended, "world", 1, machine); return err },
		"erase":                      func() error { return u.Erase(ended, "world", machine, Ref{}, true) },
		"erase what is in the trash": func() error { return u.Erase(ended, "gone", machine, Ref{}, true) },
	}
	for what, edit := range edits {
		require.Less(t, allocated(func() {
			require.ErrorContains(t, edit(), "nobody waits", what)
			_, err := u.List(t.Context(), "", 64)
			require.NoError(t, err)
		}), 100_000, what)
	}
	history, err := u.History(t.Context(), "world", 0, 64)
	require.NoError(t, err)
	require.Len(t, history, 2)
}

// For a save with 5,000 conflicts that were kept within seconds, a put that
// keeps one more tried 5,000 names, both when it began and when it ended: 6 ms
// for a request of 200 bytes, and more with each.
func TestKeptConflictsDoNotTryAllNames(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	p.put(u, Request{Name: "world"}, saveOf("one"))
	for i := range 5_000 {
		u.names[asideAt("world", machine, p.now.Add(time.Duration(i)*time.Second))] = []Version{{Number: 1, Kind: Stored}}
	}
	u.sorted = slices.Sorted(maps.Keys(u.names))
	r := Request{Name: "world", Machine: machine, Mode: KeepBoth, Content: cdc.Sum(nil)}
	require.Less(t, allocated(func() {
		_, err := u.Begin(t.Context(), r)
		require.NoError(t, err)
	}), 50_000)
	name, o := u.aside(r)
	require.Equal(t, Added, o)
	require.Empty(t, u.names[name])
}

// A put that was abandoned caused all chunks of all versions to be looked at:
// 154 ms for a request of 150 bytes if 2,000 versions have 10,000 each.
func TestAbandonedPutsDoNotLookAtEverything(t *testing.T) {
	const chunks = 4_000
	const everything = 16 * chunks // a map of them takes twice as much; the race detector empties the pools of regexp, 37 KB each
	p := newPlace(t, Config{})
	u := p.user("alice")
	p.put(u, Request{Name: "world"}, saveOf(manyChunks(0, chunks)...))
	request := Request{Name: "other", Machine: machine}
	require.Less(t, allocated(func() {
		begun, err := u.Begin(t.Context(), request)
		require.NoError(t, err)
		begun.Abandon()
	}), everything, "its manifest has not come")

	begin := func(s save) *Put {
		request.Content = s.digest()
		begun, err := u.Begin(t.Context(), request)
		require.NoError(t, err)
		_, err = begun.Lacks(t.Context(), s.bytes)
		require.NoError(t, err)
		return begun
	}
	var small []*Put
	for i := range 11 {
		small = append(small, begin(saveOf(fmt.Sprint("small ", i))))
	}
	require.Less(t, allocated(func() {
		small[0].Abandon()
		small = small[1:]
	}), everything, "its manifest names one chunk")
	for i := range 50 {
		begin(saveOf(manyChunks(i+1, 100)...)).Abandon()
		require.Less(t, len(u.objects), chunks*3/2, "what never came is forgotten, though not at once")
	}
	require.Empty(t, p.requireSound())
}

// Each put caused all chunks of all newest versions to be looked at, to find out
// what must be kept: 23 ms for a request of 150 bytes if 500 have 3,000 each.
func TestPutsDoNotLookAtEverything(t *testing.T) {
	const chunks = 4_000
	p := newPlace(t, Config{})
	u := p.user("alice")
	p.put(u, Request{Name: "world"}, saveOf(manyChunks(0, chunks)...))
	small := saveOf("small")
	request := Request{Name: "other", Machine: machine, Content: small.digest()}
	require.Less(t, allocated(func() {
		begun, err := u.Begin(t.Context(), request)
		require.NoError(t, err)
		_, err = begun.Lacks(t.Context(), small.bytes)
		require.NoError(t, err)
		begun.end()
	}), 16*chunks)
	require.Empty(t, p.requireSound())
}

func manyChunks(seed, n int) (chunks []string) {
	for i := range n {
		chunks = append(chunks, fmt.Sprint("chunk ", seed, " ", i))
	}
	return chunks
}

// Many versions of one content count as one when looking for what versions need.
func TestNeededLooksAtEachContentOnce(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	var chunks []cdc.Chunk
	for i := range 1000 {
		chunks = append(chunks, cdc.Chunk{Digest: cdc.Sum(fmt.Append(nil, i)), Size: 1})
	}
	c := u.know(cdc.Sum(nil), chunks)
	for i := range 3 {
		u.names["world"] = append(u.names["world"], Version{Name: "world", Number: i + 1, Kind: Stored, Content: c.id.Digest})
	}
	require.Len(t, u.needed(false), 1001)
}

// Each save that was erased made the store write again everything that shared a file with its
// chunks: 8 MiB for a request of 100 bytes, or 256 MiB of 32 packs, while everybody's puts waited.
func TestLittleIsNotDeletedAtOnce(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	chunks := manyChunks(1, 100)
	p.put(u, Request{Name: "rest"}, saveOf(chunks[60:]...))
	for i := range 60 {
		p.put(u, Request{Name: fmt.Sprint("one ", i)}, saveOf(chunks[i]))
	}
	erase := func(name string) {
		require.NoError(t, u.Erase(t.Context(), name, "desktop", Ref{}, true))
	}
	used, deletions := u.used.Load(), 0
	for i := range 30 {
		before := u.freed.Objects
		erase(fmt.Sprint("one ", i))
		if u.freed.Objects > before {
			deletions++
		}
	}
	require.InDelta(t, 2, deletions, 1, "of 30")
	require.Less(t, u.used.Load(), used*3/4)
	_, err := p.all.Collect(t.Context())
	require.NoError(t, err)
	require.Len(t, u.objects, 1+40+2*30, "Collect deletes what is left")

	before := u.freed.Objects
	erase("rest")
	require.Greater(t, u.freed.Objects, before, "much goes at once")
	require.Empty(t, p.requireSound())
}

// history adds to a user a save of many versions, each of another content, of
// which the store knows nothing.
func history(u *User, name string, count int) []Version {
	for i := range count {
		content := cdc.Sum(fmt.Append(nil, i))
		u.know(content, nil)
		u.names[name] = append(u.names[name], Version{Name: name, Number: i + 1, Kind: Stored, Content: content})
	}
	return u.names[name]
}

// Each page of a history, and each get of an old version, looked at all versions from
// the first on: a tenth of a millisecond for a request of 30 bytes if there are 20,000.
func TestPagesDoNotLookAtAllVersions(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	all := history(u, "world", 1000)
	all[3].Number, all[4].Number = 2000, 900 // which does not happen: who looks at them finds them
	page, err := u.History(t.Context(), "world", 500, 64)
	require.NoError(t, err)
	require.Len(t, page, 64)
	require.Equal(t, 501, page[0].Number)
	v, err := u.find("world", 900)
	require.NoError(t, err)
	require.Equal(t, all[899], v)
	for after, want := range map[int]int{-1: 64, 936: 64, 999: 1, 1000: 0, 3000: 0} {
		page, err := u.History(t.Context(), "world", after, 64)
		require.NoError(t, err)
		require.Len(t, page, want, after)
	}
}

// An erase of what the machine had not seen compared each version that was new to
// it with each that it knew, and one of many versions each of those with each that
// was there: a request of 100 bytes took 36 s of a processor where there were
// 100,000 versions, and 50 a second may come. These would take two minutes so.
func TestErasesCompareNoVersionWithAllOthers(t *testing.T) {
	const count = 100_000
	p := newPlace(t, Config{})
	u := p.user("alice")
	all := history(u, "world", count)
	seen := all[count/2].Ref()
	require.ErrorIs(t, u.Erase(t.Context(), "world", "desktop", seen, false), ErrConflict)
	require.Equal(t, all[count-1], u.unseen("world", seen))
	for i := count/2 + 1; i < count; i++ {
		all[i].Content = all[i-count/2].Content // they are returns to what was seen
	}
	require.Zero(t, u.unseen("world", seen))
	require.NoError(t, u.forget(t.Context(), "world", all[:count-1], 1<<62))
	require.Equal(t, all[count-1:], u.names["world"])
}
