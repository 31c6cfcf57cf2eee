package versions

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

func TestPutAndGet(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	first, second := saveOf("one", "two", "one"), saveOf("two", "three")
	_, err := u.History(ctx, "World 1", 0, 1<<20)
	require.ErrorIs(t, err, ErrNoSave)

	v, sent, err := put(ctx, u, Request{Name: "World 1"}, first)
	require.NoError(t, err)
	require.Equal(t, 2, sent)
	want := Version{Name: "World 1", Number: 1, Kind: Stored, Content: first.digest(), Size: 9, Files: 1, Time: p.now, Machine: "desktop"}
	require.Equal(t, want, v)

	p.now = p.now.Add(time.Minute)
	v, sent, err = put(ctx, u, Request{Name: "World 1", Seen: v.Ref()}, second)
	require.NoError(t, err)
	require.Equal(t, 1, sent, "the user has the other one")
	require.Equal(t, 2, v.Number)
	require.Equal(t, 1, v.Base)

	p.open(Config{}) // another process finds the same
	u = p.user("alice")
	p.requireContent(u, "World 1", 0, second)
	p.requireContent(u, "World 1", 1, first)
	_, err = u.Open(ctx, "World 1", 3)
	require.ErrorIs(t, err, ErrNoVersion)
	list, err := u.List(ctx, "", 1<<20)
	require.NoError(t, err)
	require.Equal(t, []Version{v}, list)
	require.Empty(t, p.requireSound())
}

// Putting the same again costs nothing and makes no version. So does a put
// whose answer was lost: it conflicts with nothing.
func TestPutOfTheSame(t *testing.T) {
	p := newPlace(t, Config{})
	u := p.user("alice")
	first := p.put(u, Request{Name: "world"}, saveOf("one"))
	for _, seen := range []Ref{{}, first.Ref(), {Number: 7}} {
		v, sent, err := put(t.Context(), u, Request{Name: "world", Seen: seen, Machine: "laptop"}, saveOf("one"))
		require.NoError(t, err)
		require.Equal(t, first, v)
		require.Zero(t, sent)
	}
}

func TestConflicts(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	first := p.put(u, Request{Name: "world"}, saveOf("one"))
	second := p.put(u, Request{Name: "world", Seen: first.Ref(), Machine: "laptop"}, saveOf("two"))
	for name, seen := range map[string]Ref{"an older one": first.Ref(), "none": {}, "another second": {2, first.Content}} {
		_, _, err := put(ctx, u, Request{Name: "world", Seen: seen}, saveOf("three"))
		var conflict *Conflict
		require.ErrorAs(t, err, &conflict, name)
		require.Equal(t, Conflict{Latest: second, Seen: seen, Newest: second}, *conflict)
	}
	_, _, err := put(ctx, u, Request{Name: "world", Seen: first.Ref()}, saveOf("three"))
	require.EqualError(t, err, `version 2 of "world", 3 B, put by laptop on 2026-01-02 03:04 UTC, is newer than version 1, the last one seen here`)

	third := p.put(u, Request{Name: "world", Seen: first.Ref(), Mode: Force}, saveOf("three"))
	require.Equal(t, 3, third.Number)
	require.Equal(t, 1, third.Base)
	p.requireContent(u, "world", 2, saveOf("two")) // nothing is lost

	kept := p.put(u, Request{Name: "world", Seen: second.Ref(), Mode: KeepBoth, Machine: "laptop"}, saveOf("four"))
	require.Equal(t, "world (conflict laptop 2026-01-02 03.04.08)", kept.Name)
	require.Equal(t, 1, kept.Number)
	require.Equal(t, kept, p.put(u, Request{Name: "world", Seen: second.Ref(), Mode: KeepBoth, Machine: "laptop"}, saveOf("four")), "its answer was lost")
	p.now = kept.Time
	other := p.put(u, Request{Name: "world", Mode: KeepBoth, Machine: "laptop"}, saveOf("five"))
	require.Equal(t, "world (conflict laptop 2026-01-02 03.04.09)", other.Name, "in the same second")
	fifth := p.put(u, Request{Name: "world", Seen: third.Ref(), Mode: KeepBoth}, saveOf("six"))
	require.Equal(t, "world", fifth.Name, "no conflict")
	require.Equal(t, []string{"world@1 put", "world@2 put", "world@3 put", "world@4 put"}, p.history(u, "world"))
}

// A machine that has seen a content has seen each version that holds it: after
// rm and restore, and after somebody has restored it.
func TestTheContentIsWhatWasSeen(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	seen := p.put(u, Request{Name: "world"}, saveOf("one")).Ref()
	_, err := u.Remove(ctx, "world", "laptop", Ref{})
	require.NoError(t, err)
	restored, _, err := u.Restore(ctx, "world", 0, "laptop")
	require.NoError(t, err)
	require.Equal(t, 3, restored.Number)
	next := p.put(u, Request{Name: "world", Seen: seen}, saveOf("two"))
	require.Equal(t, 4, next.Number)

	_, _, err = u.Restore(ctx, "world", 1, "laptop")
	require.NoError(t, err)
	var conflict *Conflict
	require.ErrorAs(t, u.Erase(ctx, "world", "laptop", seen, false), &conflict, "it never saw version 4, which would go with the others")
}

// The faster one of two puts that have both begun wins, and the other one gets an error.
func TestPutsAtOnce(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	for _, mode := range []Mode{Refuse, Force, KeepBoth} {
		name := fmt.Sprintf("world %d", mode)
		var puts []*Put
		for i := range 2 {
			s := saveOf(fmt.Sprint(i))
			put, err := u.Begin(ctx, Request{Name: name, Machine: fmt.Sprint("m", i), Content: s.digest(), Mode: mode})
			require.NoError(t, err)
			lacks, err := put.Lacks(ctx, s.bytes)
			require.NoError(t, err)
			for _, at := range lacks {
				require.NoError(t, chunk(ctx, put, at, cdc.Pack(nil, s.data[at])))
			}
			puts = append(puts, put)
		}
		v, _, err := puts[1].Commit(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, v.Number)
		v, _, err = puts[0].Commit(ctx)
		switch mode {
		case Refuse:
			var conflict *Conflict
			require.ErrorAs(t, err, &conflict)
		case Force:
			require.Equal(t, 2, v.Number)
		case KeepBoth:
			require.Contains(t, v.Name, "world 2 (conflict m0 ")
		}
		puts[0].Abandon()
		puts[1].Abandon()
		p.requireContent(u, name, 1, saveOf("1"))
	}
	p.requireSound()
}

// 50 clients with one token put 500 times: none fails.
func TestCrowd(t *testing.T) {
	p := newPlace(t, Config{})
	var clients sync.WaitGroup
	for client := range 50 {
		clients.Go(func() {
			name, seen := fmt.Sprintf("world %d", client), Ref{}
			for i := range 10 {
				v, _, err := put(t.Context(), p.user("alice"), Request{Name: name, Seen: seen}, saveOf("common", fmt.Sprint("round ", i), fmt.Sprint(client, " at ", i)))
				if err != nil || v.Number != i+1 {
					t.Errorf("put %d of %d: %v, %v", i, client, v, err)
				}
				seen = v.Ref()
			}
		})
	}
	clients.Wait()
	require.Empty(t, p.requireSound())
}

func TestAPutMustBeWhatItSays(t *testing.T) {
	p := newPlace(t, Config{MaxSize: 100})
	u, ctx := p.user("alice"), t.Context()
	s := saveOf("one", "two")
	for _, r := range []Request{{Name: "../x", Machine: "m"}, {Name: "x", Machine: ""}} {
		_, err := u.Begin(ctx, r)
		require.ErrorIs(t, err, users.ErrName)
	}
	begin := func(s save) *Put {
		put, err := u.Begin(ctx, Request{Name: "world", Machine: "m", Content: s.digest()})
		require.NoError(t, err)
		return put
	}
	put := begin(s)
	require.ErrorIs(t, chunk(ctx, put, 0, nil), cdc.ErrChunk, "before the manifest")
	_, _, err := put.Commit(ctx)
	require.ErrorIs(t, err, ErrLacks)
	_, err = put.Lacks(ctx, saveOf("other").bytes)
	require.ErrorIs(t, err, manifest.ErrManifest)
	lacks, err := put.Lacks(ctx, s.bytes)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, lacks)
	_, err = put.Lacks(ctx, s.bytes)
	require.Error(t, err)
	for _, i := range []int{-1, 2} {
		require.ErrorIs(t, chunk(ctx, put, i, cdc.Pack(nil, s.data[0])), cdc.ErrChunk)
	}
	require.ErrorIs(t, chunk(ctx, put, 0, cdc.Pack(nil, s.data[1])), cdc.ErrChunk)
	require.ErrorIs(t, chunk(ctx, put, 0, nil), cdc.ErrChunk)
	require.NoError(t, chunk(ctx, put, 0, cdc.Pack(nil, s.data[0])))
	_, _, err = put.Commit(ctx)
	require.ErrorIs(t, err, ErrLacks)
	require.ErrorContains(t, err, "1 of 2")
	require.NoError(t, chunk(ctx, put, 1, cdc.Pack(nil, s.data[1])))
	_, _, err = put.Commit(ctx)
	require.NoError(t, err)
	_, _, err = put.Commit(ctx)
	require.Error(t, err, "twice")
	put.Abandon()

	large := saveOf(strings.Repeat("x", 101))
	put = begin2(t, u, large)
	_, err = put.Lacks(ctx, large.bytes)
	require.ErrorIs(t, err, manifest.ErrManifest)
	put.Abandon()

	lie := saveOf("one", "two")
	lie.manifest.Entries = []manifest.Entry{{Path: ".", Kind: manifest.Dir},
		{Path: "a", Kind: manifest.File, Size: 3, Chunks: []cdc.Chunk{{Digest: cdc.Sum([]byte("one")), Size: 3}}},
		{Path: "b", Kind: manifest.File, Size: 4, Chunks: []cdc.Chunk{{Digest: cdc.Sum([]byte("one")), Size: 4}}}}
	lie.bytes = lie.manifest.Append(nil)
	put = begin2(t, u, lie)
	_, err = put.Lacks(ctx, lie.bytes)
	require.ErrorIs(t, err, manifest.ErrManifest, "one digest, two sizes")
	put.Abandon()
	p.requireSound()
}

func begin2(t *testing.T, u *User, s save) *Put {
	put, err := u.Begin(t.Context(), Request{Name: "other", Machine: "m", Content: s.digest()})
	require.NoError(t, err)
	return put
}

// Knowing a digest proves nothing: what another user has must be sent.
func TestUsersShareNothing(t *testing.T) {
	p := newPlace(t, Config{})
	alice, bob := p.user("alice"), p.user("bob")
	p.put(alice, Request{Name: "world"}, saveOf("secret"))
	put, err := bob.Begin(t.Context(), Request{Name: "world", Machine: "m", Content: saveOf("secret").digest()})
	require.NoError(t, err)
	lacks, err := put.Lacks(t.Context(), saveOf("secret").bytes)
	require.NoError(t, err)
	require.Equal(t, []int{0}, lacks)
	_, _, err = put.Commit(t.Context())
	require.ErrorIs(t, err, ErrLacks)
	put.Abandon()
	_, err = bob.Open(t.Context(), "world", 0)
	require.ErrorIs(t, err, ErrNoSave)
	p.requireSound()
}

func TestPutGoesOn(t *testing.T) {
	p := newPlace(t, Config{})
	s := saveOf("one", "two", "three")
	put := begin2(t, p.user("alice"), s)
	_, err := put.Lacks(t.Context(), s.bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(t.Context(), put, 1, cdc.Pack(nil, s.data[1])))
	put.Abandon()
	put.Abandon()
	require.Len(t, p.requireSound(), 1)

	p.now = p.now.Add(23 * time.Hour) // within the grace
	p.collect()
	p.open(Config{})
	put = begin2(t, p.user("alice"), s)
	lacks, err := put.Lacks(t.Context(), s.bytes)
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, lacks)
	p.now = p.now.Add(2 * time.Hour)
	require.Zero(t, p.collect(), "it belongs to a put that runs")
	put.Abandon()
	require.Equal(t, Collected{Objects: 1, Bytes: store.Occupied(4)}, p.collect())
	require.Empty(t, p.requireSound())
	put = begin2(t, p.user("alice"), s)
	lacks, err = put.Lacks(t.Context(), s.bytes)
	require.NoError(t, err)
	require.Len(t, lacks, 3)
	put.Abandon()
}

func TestTrash(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	_, err := u.Remove(ctx, "world", "m", Ref{})
	require.ErrorIs(t, err, ErrNoSave)
	_, _, err = u.Restore(ctx, "world", 0, "m")
	require.ErrorIs(t, err, ErrNoSave)
	first := p.put(u, Request{Name: "world"}, saveOf("one"))
	second := p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("two"))
	v, err := u.Remove(ctx, "world", "laptop", Ref{})
	require.NoError(t, err)
	require.Equal(t, Version{Name: "world", Number: 3, Kind: Trash, Time: p.now, Machine: "laptop"}, v)
	_, err = u.Remove(ctx, "world", "laptop", Ref{})
	require.ErrorIs(t, err, ErrTrash)
	_, err = u.Open(ctx, "world", 0)
	require.ErrorIs(t, err, ErrTrash)
	require.EqualError(t, err, `save is in the trash: "world", since 2026-01-02 03:04 UTC`)
	p.requireContent(u, "world", 2, saveOf("two"))

	v, _, err = u.Restore(ctx, "world", 0, "laptop")
	require.NoError(t, err)
	require.Equal(t, 4, v.Number)
	require.Equal(t, second.Content, v.Content)
	v, _, err = u.Restore(ctx, "world", 1, "laptop")
	require.NoError(t, err)
	again, _, err := u.Restore(ctx, "world", 1, "laptop")
	require.NoError(t, err)
	require.Equal(t, v, again)
	p.requireContent(u, "world", 0, saveOf("one"))
	_, _, err = u.Restore(ctx, "world", 3, "laptop")
	require.ErrorIs(t, err, ErrTrash)
	_, _, err = u.Restore(ctx, "world", 9, "laptop")
	require.ErrorIs(t, err, ErrNoVersion)

	_, err = u.Remove(ctx, "world", "laptop", Ref{})
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	v = p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf("three"))
	require.Equal(t, 7, v.Number)

	require.NoError(t, u.Erase(ctx, "world", "m", Ref{}, true))
	require.ErrorIs(t, u.Erase(ctx, "world", "m", Ref{}, true), ErrNoSave)
	require.Empty(t, p.history(u, "world"))
	require.Empty(t, p.requireSound())
	require.Zero(t, u.used.Load(), "nothing is left")
	p.put(u, Request{Name: "world"}, saveOf("new"))
	_, _, err = put(ctx, u, Request{Name: "world", Seen: first.Ref()}, saveOf("four"))
	require.ErrorContains(t, err, "does not follow version 1, the last one seen here", "numbers began again")
}

func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	p := newPlace(t, Config{Keep: 3, KeepFor: 7 * day})
	u, seen := p.user("alice"), Ref{}
	for i := range 10 {
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf("common", fmt.Sprint(i))).Ref()
	}
	require.Len(t, p.history(u, "world"), 10, "all are young")
	p.now = p.now.Add(7*day - 10*time.Second)
	require.Zero(t, p.collect().Versions)
	p.now = p.now.Add(10 * time.Second)
	require.Equal(t, 7, p.collect().Versions)
	require.Equal(t, []string{"world@8 put", "world@9 put", "world@10 put"}, p.history(u, "world"))
	require.Empty(t, p.requireSound(), "what only they needed is gone with them")
	p.now = p.now.Add(100 * day)
	require.Zero(t, p.collect().Versions, "the last three stay")

	for i := range 9 { // of which none is 7 days old
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf("common", "daily", fmt.Sprint(i))).Ref()
		p.now = p.now.Add(day)
		p.collect()
	}
	require.Equal(t, "world@14 put", p.history(u, "world")[0], "the days between versions count")
	_, err := u.Remove(t.Context(), "world", "m", Ref{})
	require.NoError(t, err)
	p.now = p.now.Add(7 * day)
	p.collect()
	p.requireContent(u, "world", seen.Number, saveOf("common", "daily", "8"))
	p.now = p.now.Add(1)
	require.Equal(t, 4, p.collect().Versions, "the last three, and the record of the trash")
	require.Empty(t, p.history(u, "world"))
	require.Zero(t, u.used.Load())
}

func TestQuota(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes // a chunk of noise, its manifest and its version
	p := newPlace(t, Config{Quota: 3*one + one/2})
	u, seen := p.user("alice"), Ref{}
	other := p.put(u, Request{Name: "other"}, saveOf(noise(100, size)))
	for i := range uint64(5) {
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(i, size))).Ref()
		require.LessOrEqual(t, u.used.Load(), 3*one)
	}
	require.Equal(t, []string{"world@4 put", "world@5 put"}, p.history(u, "world"), "the oldest went")
	require.Equal(t, []string{"3 versions from world@1 to @3"}, u.Displaced())
	p.requireContent(u, "other", other.Number, saveOf(noise(100, size)))

	_, _, err := put(t.Context(), u, Request{Name: "world", Seen: seen}, saveOf(noise(6, size), noise(7, size), noise(8, size)))
	var full *Full
	require.ErrorAs(t, err, &full)
	require.Equal(t, Full{Setting: "quota", Limit: 3*one + one/2, Kept: 2 * one, Needs: 3*store.Occupied(size+1) + store.Occupied(200) + recordBytes}, *full)
	require.Len(t, p.history(u, "world"), 2, "nothing goes for a put that does not fit")

	_, err = u.Remove(t.Context(), "other", "m", Ref{}) // what is in the trash is no newest version any more
	require.NoError(t, err)
	p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(6, size), noise(7, size)))
	require.Equal(t, []string{"world@5 put", "world@6 put"}, p.history(u, "world"))
	require.Empty(t, p.history(u, "other"))
	require.Equal(t, []string{"other (in the trash, 1 version)", "world@4"}, u.Displaced())
	require.Empty(t, p.requireSound())
	require.NoError(t, u.Erase(t.Context(), "world", "m", Ref{}, true))
	require.Zero(t, u.used.Load())
}

func TestTotalQuota(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes
	p := newPlace(t, Config{})
	p.put(p.user("alice"), Request{Name: "world"}, saveOf(noise(1, size)))
	p.open(Config{TotalQuota: 3 * one})
	bob := p.user("bob")
	first := p.put(bob, Request{Name: "world"}, saveOf(noise(1, size)))
	second := p.put(bob, Request{Name: "world", Seen: first.Ref()}, saveOf(noise(2, size)))
	p.put(bob, Request{Name: "world", Seen: second.Ref()}, saveOf(noise(3, size)))
	require.Equal(t, []string{"world@2 put", "world@3 put"}, p.history(bob, "world"), "his own goes, nobody else's")
	_, _, err := put(t.Context(), bob, Request{Name: "two"}, saveOf(noise(4, size), noise(5, size)))
	var full *Full
	require.ErrorAs(t, err, &full)
	require.Equal(t, "total quota", full.Setting)
	require.Equal(t, 2*one, full.Kept)
	p.requireSound()
}

// Puts that run at the same time do not take each other's room.
func TestRunningPutsHaveTheirRoom(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes
	p := newPlace(t, Config{Quota: one + one/2})
	u, ctx := p.user("alice"), t.Context()
	first, second := saveOf(noise(1, size)), saveOf(noise(2, size))
	a := begin2(t, u, first)
	_, err := a.Lacks(ctx, first.bytes)
	require.NoError(t, err)
	b := begin2(t, u, second)
	_, err = b.Lacks(ctx, second.bytes)
	var full *Full
	require.ErrorAs(t, err, &full)
	require.Equal(t, one-recordBytes, full.Kept, "the version itself is not there yet")
	a.Abandon()
	_, err = b.Lacks(ctx, second.bytes)
	require.NoError(t, err)
	b.Abandon()
	p.requireSound()
}

// A get continues to its end, whatever happens to its version.
func TestGetWhileItIsErased(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	p.put(u, Request{Name: "world"}, saveOf("one", "two"))
	c, err := u.Open(ctx, "world", 0)
	require.NoError(t, err)
	require.NoError(t, u.Erase(ctx, "world", "m", Ref{}, true))
	p.now = p.now.Add(1000 * time.Hour)
	p.collect()
	packed, err := c.Chunk(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, cdc.Pack(nil, []byte("two")), packed)
	_, err = c.Chunk(ctx, 2)
	require.ErrorIs(t, err, cdc.ErrChunk)
	c.Close()
	require.Equal(t, 3, p.collect().Objects)
	require.Zero(t, u.used.Load())
}

func TestCheckAndRepair(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	memory := p.store.(*storetest.Memory)
	s := saveOf("one", "two")
	v := p.put(u, Request{Name: "world"}, s)
	p.put(u, Request{Name: "fine"}, saveOf("two"))
	require.NoError(t, memory.Put(ctx, "junk", nil))
	require.NoError(t, memory.Put(ctx, "users/_alice/junk", nil))
	memory.Damage(u.key(s.manifest.Chunks()[0]))

	r, err := p.all.Check(ctx, true)
	require.NoError(t, err)
	require.False(t, r.Sound())
	found := make(map[string][]string)
	for _, f := range r.Findings {
		problem := strings.SplitN(f, ": ", 3)
		found[problem[0]] = append(found[problem[0]], problem[1])
	}
	require.Equal(t, map[string][]string{"damaged": {u.key(s.manifest.Chunks()[0])}, "incomplete": {"world@1 of alice"}}, found)
	_, err = get(ctx, u, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	p.requireContent(u, "fine", 0, saveOf("two"))

	t.Log("# a put of the same brings it back")
	again, sent, err := put(ctx, u, Request{Name: "world"}, s)
	require.NoError(t, err)
	require.Equal(t, v, again)
	require.Equal(t, 1, sent)
	p.requireContent(u, "world", 0, s)

	t.Log("# a manifest")
	memory.Damage(u.key(cdc.Chunk{Digest: v.Content}))
	p.open(Config{})
	u = p.user("alice")
	_, err = get(ctx, u, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	p.now = p.now.Add(100 * time.Hour)
	require.Zero(t, p.collect(), "nobody knows what it needed, so nothing goes")
	_, err = p.all.Check(ctx, true)
	require.NoError(t, err)
	p.put(u, Request{Name: "world"}, s)
	p.requireContent(u, "world", 0, s)

	t.Log("# a record")
	memory.Damage(u.recordKey("world", 1))
	p.open(Config{})
	u = p.user("alice")
	_, err = u.Open(ctx, "world", 0)
	require.ErrorIs(t, err, ErrDamaged)
	require.Zero(t, p.collect())
	var conflict *Conflict
	_, _, err = put(ctx, u, Request{Name: "world"}, s)
	require.ErrorAs(t, err, &conflict)
	require.ErrorContains(t, err, "version 1 of \"world\" is damaged")
	_, sent, err = put(ctx, u, Request{Name: "world", Mode: Force}, s)
	require.NoError(t, err)
	require.Zero(t, sent)
	require.NoError(t, u.Erase(ctx, "world", "m", Ref{}, true))
	require.Len(t, p.history(u, "fine"), 1)
	p.collect()
	r, err = p.all.Check(ctx, false)
	require.NoError(t, err)
	require.True(t, r.Sound())
}

// A put that continues relies on what an earlier one left behind, so Check reads that too.
func TestCheckVerifiesWhatNoVersionHasYet(t *testing.T) {
	p := newPlace(t, Config{})
	u, ctx := p.user("alice"), t.Context()
	s := saveOf("one")
	put := begin2(t, u, s)
	_, err := put.Lacks(ctx, s.bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(ctx, put, 0, cdc.Pack(nil, s.data[0])))
	put.Abandon()
	p.store.(*storetest.Memory).Damage(u.key(s.manifest.Chunks()[0]))
	r, err := p.all.Check(ctx, true)
	require.NoError(t, err)
	require.False(t, r.Sound())
	p.put(u, Request{Name: "world"}, s)
	p.requireContent(u, "world", 1, s)
}

// TestSettings: with each setting at its extremes, a put works or an error names the setting.
func TestSettings(t *testing.T) {
	for i := range reflect.TypeFor[Config]().NumField() {
		name := reflect.TypeFor[Config]().Field(i).Name
		for _, value := range []int64{0, -1, 1, math.MaxInt64} {
			var c Config
			field := reflect.ValueOf(&c).Elem().Field(i)
			if !field.CanInt() || field.OverflowInt(value) {
				continue
			}
			field.SetInt(value)
			err := tryConfig(t, c)
			if value < 0 && name != "Reserve" {
				require.EqualError(t, err, fmt.Sprintf("versions: Config.%s is %v; it must not be negative", name, field))
			} else if err != nil { // the text for users says quota, total quota, or the limit of a save
				require.Regexp(t, "(?i)"+name+"|total quota|limit of 1 ", err)
			}
		}
	}
}

// tryConfig puts two versions, deletes what is outdated, and requires that the newest one is there.
func tryConfig(t *testing.T, c Config) error {
	p := &place{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.store = storetest.NewMemory(func() time.Time { return p.now })
	c.Now = func() time.Time { return p.now }
	var err error
	if p.all, err = Open(t.Context(), p.store, c); err != nil {
		return err
	}
	u := p.user("alice")
	for _, content := range []save{saveOf("one"), saveOf("two")} {
		if _, _, err := put(t.Context(), u, Request{Name: "world", Mode: Force}, content); err != nil {
			return err
		}
		p.now = p.now.Add(time.Hour)
		if _, err := p.all.Collect(t.Context()); err != nil {
			return err
		}
		p.requireContent(u, "world", 0, content)
	}
	return nil
}
