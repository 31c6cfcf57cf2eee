package versions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// save is a content as a client has it.
type save struct {
	bytes    []byte // of the manifest
	manifest *manifest.Manifest
	data     [][]byte // of its chunks
}

func (s save) digest() cdc.Digest { return cdc.Sum(s.bytes) }

// saveOf returns a save of one file, with those chunks.
func saveOf(chunks ...string) save {
	var s save
	e := manifest.Entry{Path: manifest.Root, Kind: manifest.File, Mode: 0o600}
	for _, c := range chunks {
		e.Chunks = append(e.Chunks, cdc.Chunk{Digest: cdc.Sum([]byte(c)), Size: uint32(len(c))})
		e.Size += int64(len(c))
	}
	s.manifest = &manifest.Manifest{Entries: []manifest.Entry{e}}
	s.bytes = s.manifest.Append(nil)
	for _, c := range s.manifest.Chunks() {
		for _, text := range chunks {
			if c.Digest == cdc.Sum([]byte(text)) {
				s.data = append(s.data, []byte(text))
				break
			}
		}
	}
	return s
}

// noise returns a chunk that does not compress.
func noise(seed uint64, size int) string {
	b, r := make([]byte, size), rand.New(rand.NewPCG(seed, 9))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// chunk passes a chunk to a put, and returns when it is stored.
func chunk(ctx context.Context, p *Put, index int, packed []byte) error {
	stored, err := p.Chunk(ctx, index, packed)
	if err == nil {
		err = stored()
	}
	return err
}

// A place is where a test keeps saves.
type place struct {
	t     *testing.T
	now   time.Time
	store store.Store
	all   *Versions
}

func newPlace(t *testing.T, c Config) *place {
	p := &place{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.store = storetest.NewMemory(func() time.Time { return p.now })
	p.open(c)
	return p
}

func (p *place) open(c Config) {
	c.Now = func() time.Time { return p.now }
	all, err := Open(p.t.Context(), p.store, c)
	require.NoError(p.t, err)
	p.all = all
}

func (p *place) user(name string) *User {
	u, err := p.all.User(p.t.Context(), name)
	require.NoError(p.t, err)
	return u
}

// put does a whole put, and reports how many chunks were sent.
func put(ctx context.Context, u *User, r Request, s save) (v Version, sent int, err error) {
	r.Content = s.digest()
	if r.Machine == "" {
		r.Machine = "desktop"
	}
	p, err := u.Begin(ctx, r)
	if err != nil {
		return v, 0, err
	}
	defer p.Abandon()
	lacks, err := p.Lacks(ctx, s.bytes)
	if err != nil {
		return v, 0, err
	}
	for _, i := range lacks {
		if err := chunk(ctx, p, i, cdc.Pack(nil, s.data[i])); err != nil {
			return v, sent, err
		}
		sent++
	}
	v, _, err = p.Commit(ctx)
	return v, sent, err
}

func (p *place) put(u *User, r Request, s save) Version {
	p.t.Helper()
	v, _, err := put(p.t.Context(), u, r, s)
	require.NoError(p.t, err)
	p.now = p.now.Add(time.Second)
	return v
}

// get reads a version and returns its content.
func get(ctx context.Context, u *User, name string, number int) (s save, err error) {
	c, err := u.Open(ctx, name, number)
	if err != nil {
		return s, err
	}
	defer c.Close()
	if s.bytes, err = c.Manifest(ctx); err != nil {
		return s, err
	}
	if s.manifest, err = manifest.Parse(s.bytes, 0); err != nil {
		return s, err
	}
	for i, id := range s.manifest.Chunks() {
		packed, err := c.Chunk(ctx, i)
		if err != nil {
			return s, err
		}
		data, err := cdc.Unpack(nil, packed, id)
		if err != nil {
			return s, err
		}
		s.data = append(s.data, data)
	}
	return s, nil
}

func (p *place) requireContent(u *User, name string, number int, want save) {
	p.t.Helper()
	s, err := get(p.t.Context(), u, name, number)
	require.NoError(p.t, err)
	require.Equal(p.t, want.data, s.data)
	require.Equal(p.t, want.bytes, s.bytes)
}

// requireSound checks the store, and that what is known about it is correct; it
// returns the keys of what no version has.
func (p *place) requireSound() (orphans []string) {
	p.t.Helper()
	r, err := p.all.Check(p.t.Context(), false)
	require.NoError(p.t, err)
	require.Empty(p.t, r.Findings)
	require.Zero(p.t, p.all.held.Load())
	var used int64
	for _, u := range p.all.users {
		used += u.used.Load()
		needed := u.needed(false)
		for id, o := range u.objects {
			if o.there && !needed[o] {
				orphans = append(orphans, u.key(id))
			}
		}
		for _, c := range u.contents {
			require.Zero(p.t, c.running.Load())
			require.Same(p.t, u.objects[c.id], c.object)
		}
	}
	require.Equal(p.t, r.Bytes, used)
	return orphans
}

func (p *place) collect() Collected {
	p.t.Helper()
	c, err := p.all.Collect(p.t.Context())
	require.NoError(p.t, err)
	return c
}

func numbers(versions []Version) (list []string) {
	for _, v := range versions {
		list = append(list, fmt.Sprintf("%s@%d %s", v.Name, v.Number, v.Kind))
	}
	return list
}

func (p *place) history(u *User, name string) []string {
	p.t.Helper()
	versions, err := u.History(p.t.Context(), name, 0, 1<<20)
	if err != nil {
		require.ErrorIs(p.t, err, ErrNoSave)
	}
	return numbers(versions)
}

// A slow is a store whose calls take some time, so that others run in between.
type slow struct{ store.Store }

func (s *slow) Put(ctx context.Context, key string, data []byte) error {
	runtime.Gosched()
	err := s.Store.Put(ctx, key, data)
	runtime.Gosched()
	return err
}

func (s *slow) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	runtime.Gosched()
	put, err := s.Store.Start(ctx, key, data)
	if err != nil {
		return nil, err
	}
	return func() error {
		runtime.Gosched()
		err := put()
		runtime.Gosched()
		return err
	}, nil
}

func (s *slow) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		runtime.Gosched()
		if err := s.Store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
