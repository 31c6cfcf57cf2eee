package versions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/stream/cdc"
)

// Without a quota the disk is the limit: the oldest versions are deleted first,
// never the newest, and nothing for a put that does not fit anyway.
func TestTheDiskIsAQuota(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes
	p := newPlace(t, Config{})
	p.store = &storetest.Small{Store: p.store, Space: 4*one - 10_000}
	p.open(Config{Reserve: -1})
	u, seen := p.user("alice"), Ref{}
	other := p.put(u, Request{Name: "other"}, saveOf(noise(100, size)))
	for i := range uint64(5) {
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(i, size))).Ref()
	}
	require.Equal(t, []string{"world@4 put", "world@5 put"}, p.history(u, "world"))
	require.Equal(t, []string{"3 versions from world@1 to @3"}, u.Displaced())
	p.requireContent(u, "other", other.Number, saveOf(noise(100, size)))

	_, _, err := put(t.Context(), u, Request{Name: "world", Seen: seen}, saveOf(noise(6, size), noise(7, size), noise(8, size)))
	require.ErrorAs(t, err, new(*Full))
	require.Equal(t, []string{"world@4 put", "world@5 put"}, p.history(u, "world"))
	p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(6, size), noise(7, size)[:size/2]))
	require.Equal(t, []string{"world@5 put", "world@6 put"}, p.history(u, "world"))
	require.Empty(t, p.requireSound())
}

// On a disk that is full to the last block a save can be deleted permanently, which frees its room.
func TestAFullDiskIsEmptied(t *testing.T) {
	p := newPlace(t, Config{})
	small := &storetest.Small{Store: p.store, Space: 1 << 30}
	p.store = small
	p.open(Config{Reserve: -1})
	u, ctx := p.user("alice"), t.Context()
	p.put(u, Request{Name: "world"}, saveOf(noise(1, 100_000)))
	small.Space = 0
	_, err := u.Remove(ctx, "world", "m", Ref{})
	require.ErrorIs(t, err, syscall.ENOSPC, "the trash's record has no room")
	require.NoError(t, u.Erase(ctx, "world", "m", Ref{}, true))
	require.ErrorIs(t, u.Erase(ctx, "world", "m", Ref{}, true), ErrNoSave)
	require.Empty(t, p.requireSound())
	small.Space = 1 << 30
	p.put(u, Request{Name: "world"}, saveOf(noise(2, 100_000)))
}

// On a disk that is full except for the reserve a save can be put into the
// trash, and what is there makes room for the next put.
func TestTheTrashHasRoomOnAFullDisk(t *testing.T) {
	p := newPlace(t, Config{})
	small := &storetest.Small{Store: p.store, Space: 1 << 30}
	p.store = small
	p.open(Config{Reserve: 1 << 20})
	u, ctx := p.user("alice"), t.Context()
	p.put(u, Request{Name: "world"}, saveOf(noise(1, 100_000)))
	p.put(u, Request{Name: "other"}, saveOf(noise(2, 100_000)))
	small.Space = u.used.Load() + 1<<20
	_, _, err := put(ctx, u, Request{Name: "third"}, saveOf(noise(3, 50_000)))
	require.ErrorContains(t, err, "disk is full: ")
	require.ErrorContains(t, err, "1.0 MB are free, of which 1.0 MB are reserved")
	_, err = u.Remove(ctx, "world", "m", Ref{})
	require.NoError(t, err)
	p.put(u, Request{Name: "third"}, saveOf(noise(3, 50_000)))
	require.Empty(t, p.history(u, "world"))
	require.Equal(t, []string{"other@1 put"}, p.history(u, "other"))
	require.Empty(t, p.requireSound())
}

// A version that needs nothing new has a record all the same, which the quota limits:
// two contents in turn exceeded it by far. What made room is recorded, but not forever.
func TestRecordsAreOfTheQuota(t *testing.T) {
	p := newPlace(t, Config{Quota: 4*store.Occupied(1001) + 12*recordBytes})
	u := p.user("alice")
	for i := range uint64(maxDisplaced + 50) {
		p.put(u, Request{Name: "world", Mode: Force}, saveOf(noise(i%2, 1000)))
	}
	used := int64(0)
	for o, err := range p.store.List(t.Context(), "") {
		require.NoError(t, err)
		used += store.Occupied(o.Size)
	}
	require.LessOrEqual(t, used, p.all.config.Quota)
	require.Len(t, u.displaced, maxDisplaced)
	require.Empty(t, p.requireSound())
}

// A put that waits for room in its user's quota holds nothing that others need:
// many of its chunks wait.
func TestWhoWaitsForRoomHoldsNobodyUp(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = noise(uint64(i), 1000)
	}
	p := newPlace(t, Config{Quota: 67*store.Occupied(1001) + 4*recordBytes})
	alice, ctx := p.user("alice"), t.Context()
	p.put(alice, Request{Name: "old"}, saveOf(many...))
	p.put(alice, Request{Name: "old", Mode: Force}, saveOf("small"))
	for i := range many {
		many[i] = noise(uint64(1000+i), 1000)
	}
	next := saveOf(many...)
	waits, err := alice.Begin(ctx, Request{Name: "new", Machine: machine, Content: next.digest()})
	require.NoError(t, err)
	lacks, err := waits.Lacks(ctx, next.bytes)
	require.NoError(t, err)
	alice.records.Lock() // as while she displaces
	var chunks sync.WaitGroup
	for _, i := range lacks {
		chunks.Go(func() { assert.NoError(t, chunk(ctx, waits, i, cdc.Pack(nil, next.data[i]))) })
	}
	time.Sleep(10 * time.Millisecond)
	p.put(p.user("bob"), Request{Name: "world"}, saveOf(noise(1, 1000))) // else it never returns
	alice.records.Unlock()
	chunks.Wait()
	_, _, err = waits.Commit(ctx)
	require.NoError(t, err)
}

// An object that cannot be read for a moment is not replaced: when the
// replacement failed too, an acknowledged version had lost it.
func TestWhatCanNotBeReadStays(t *testing.T) {
	p, deaf := newDeafPlace(t, Config{})
	u, s := p.user("alice"), saveOf(noise(1, 1000))
	v := p.put(u, Request{Name: "world"}, s)
	c := s.manifest.Chunks()[0]
	u.gone(u.object(c)) // as after a call whose answer was lost
	deaf.key = u.key(c)
	_, _, err := put(t.Context(), u, Request{Name: "other"}, s)
	require.ErrorIs(t, err, storetest.ErrFailing)
	deaf.key = ""
	p.requireContent(u, "world", v.Number, s)
}

// newDeafPlace returns a place whose store is a deaf one.
func newDeafPlace(t *testing.T, config Config) (*place, *deaf) {
	p := newPlace(t, config)
	d := &deaf{Store: p.store}
	p.store = d
	p.open(config)
	return p, d
}

// A deaf is a store that cannot read one object, and put none.
type deaf struct {
	store.Store
	key string
}

func (d *deaf) Get(ctx context.Context, key string) ([]byte, error) {
	if key == d.key {
		return nil, storetest.ErrFailing
	}
	return d.Store.Get(ctx, key)
}

func (d *deaf) Put(ctx context.Context, key string, data []byte) error {
	err := d.Store.Put(ctx, key, data)
	if key == d.key && err == nil {
		err = errors.Join(storetest.ErrFailing, d.Store.Delete(ctx, key))
	}
	return err
}

func (d *deaf) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	err = d.Put(ctx, key, data)
	return done, err
}

// A put that was interrupted has made room all the same, and the put that continues reports that.
func TestWhatACutOffPutDisplacedIsTold(t *testing.T) {
	const size = 100_000
	p := newPlace(t, Config{Quota: 2*(store.Occupied(size+1)+2*recordBytes) + 10_000})
	u, ctx := p.user("alice"), t.Context()
	first := p.put(u, Request{Name: "world"}, saveOf(noise(1, size)))
	second := p.put(u, Request{Name: "world", Seen: first.Ref()}, saveOf(noise(2, size)))
	next := saveOf(noise(3, size))
	cut, err := u.Begin(ctx, Request{Name: "world", Machine: machine, Seen: second.Ref(), Content: next.digest()})
	require.NoError(t, err)
	_, err = cut.Lacks(ctx, next.bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(ctx, cut, 0, cdc.Pack(nil, next.data[0])))
	cut.Abandon()

	p.put(u, Request{Name: "world", Seen: second.Ref()}, next)
	require.Equal(t, []string{"world@1"}, u.Displaced())
	require.Empty(t, u.Displaced())
}

// Beside a damaged record nothing can be freed: versions were deleted one after
// the other, to no avail.
func TestNothingIsDisplacedInVain(t *testing.T) {
	const size = 100_000
	p := newPlace(t, Config{Quota: 3 * store.Occupied(size+1)})
	u, seen := p.user("alice"), Ref{}
	for i := range uint64(2) {
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(i, size))).Ref()
	}
	require.NoError(t, p.store.Put(t.Context(), u.recordKey("damaged", 1), []byte("{}")))
	p.open(Config{Quota: 3 * store.Occupied(size+1)})
	u = p.user("alice")
	_, _, err := put(t.Context(), u, Request{Name: "world", Seen: seen}, saveOf(noise(3, size)))
	full, is := errors.AsType[*Full](err)
	require.True(t, is, err)
	require.Equal(t, "quota", full.Setting)
	require.Equal(t, []string{"world@1 put", "world@2 put"}, p.history(u, "world"))
}

// A tight is a store that has no room to remove some objects from the files
// that they share with others.
type tight struct {
	store.Store
	shared map[string]bool
}

func (s *tight) Delete(ctx context.Context, keys ...string) error {
	own := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return s.shared[key] })
	if err := s.Store.Delete(ctx, own...); err != nil || len(own) == len(keys) {
		return err
	}
	return syscall.ENOSPC
}

// If one delete had no room, a put failed although others would have made some;
// a save that was erased was reported to exist.
func TestADeleteWithoutRoomIsNotTheEnd(t *testing.T) {
	const size = 100_000
	one := store.Occupied(size+1) + 2*recordBytes
	p := newPlace(t, Config{})
	store := &tight{p.store, make(map[string]bool)}
	p.store = store
	p.open(Config{Quota: 4 * one})
	u, ctx := p.user("alice"), t.Context()
	seen := Ref{}
	for i := range uint64(3) {
		seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(i, size))).Ref()
	}
	given := saveOf(noise(3, size))
	abandoned := begin2(t, u, given)
	_, err := abandoned.Lacks(ctx, given.bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(ctx, abandoned, 0, cdc.Pack(nil, given.data[0])))
	abandoned.Abandon()
	store.shared[u.key(given.manifest.Chunks()[0])] = true

	t.Log("# what was never finished cannot go, and the oldest version can")
	seen = p.put(u, Request{Name: "world", Seen: seen}, saveOf(noise(4, size))).Ref()
	require.Equal(t, []string{"world@2 put", "world@3 put", "world@4 put"}, p.history(u, "world"))

	t.Log("# where no version makes room no more than one goes")
	store.shared[u.key(saveOf(noise(1, size)).manifest.Chunks()[0])] = true
	store.shared[u.key(saveOf(noise(2, size)).manifest.Chunks()[0])] = true
	p.open(Config{Quota: 4 * one, Grace: 1})
	u = p.user("alice")
	store.shared[u.key(cdc.Chunk{Digest: saveOf(noise(1, size)).digest()})] = true
	_, _, err = put(ctx, u, Request{Name: "world", Seen: seen}, saveOf(noise(5, size)))
	require.ErrorAs(t, err, new(*Full))
	require.Equal(t, []string{"world@3 put", "world@4 put"}, p.history(u, "world"))
	require.Equal(t, []string{"world@2"}, u.Displaced())

	t.Log("# what is erased is gone, and its chunks when there is room")
	require.NoError(t, u.Erase(ctx, "world", "m", Ref{}, true))
	require.Empty(t, p.history(u, "world"))
	require.NotEmpty(t, p.requireSound())
	clear(store.shared)
	p.collect()
	require.Empty(t, p.requireSound())
	require.Zero(t, u.used.Load())
}

// If no delete had room, all versions of a save but the newest were deleted one after the other,
// to no avail: deleting what only one of them needed was not tried, because that was little.
func TestOneVersionGoesInVain(t *testing.T) {
	const size = 100_000
	p := newPlace(t, Config{})
	crowded := &tight{p.store, make(map[string]bool)}
	p.store = crowded
	p.open(Config{Quota: 20 * (store.Occupied(size+1) + 2*recordBytes)})
	u, seen := p.user("alice"), Ref{}
	for i := range uint64(19) {
		s := saveOf(noise(i, size))
		crowded.shared[u.key(s.manifest.Chunks()[0])], crowded.shared[u.key(cdc.Chunk{Digest: s.digest()})] = true, true
		seen = p.put(u, Request{Name: "world", Seen: seen}, s).Ref()
	}
	require.Empty(t, u.Displaced())
	_, _, err := put(t.Context(), u, Request{Name: "world", Seen: seen}, saveOf(noise(100, size), noise(101, size), noise(102, size)))
	require.True(t, isFull(err), "%v", err)
	require.Equal(t, []string{"world@1"}, u.Displaced())
}
