package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
)

// User is the saves of one user. It remembers which objects the store has and who needs them.
type User struct {
	all    *Versions
	name   string
	prefix string // of the keys

	// records is held, also while the store works, by who reads or changes versions, by who takes a reference of a content
	// and by who deletes objects: so nothing that is referred to is ever deleted. Locked first, by lock.
	records sync.Mutex
	names   map[string][]Version // by number; nil: not read yet
	unsure  map[string]struct{}  // saves whose versions must be read again: nobody knows what a failed call did

	// mu is taken last and held briefly.
	mu        sync.Mutex
	contents  map[manifest.Digest]*content
	manifests map[manifest.Digest]store.Object
	chunks    map[manifest.Chunk]*chunk
	used      int64 // bytes in the store
	reserved  int64 // bytes that running puts may still store
	running   int   // puts and gets
	freed     Collected
}

// content is a manifest that versions, puts or gets refer to.
type content struct {
	digest manifest.Digest
	refs   int      // versions, puts and gets
	chunks []*chunk // as manifest.Chunks has them
	broken error    // the store has not the manifest, or another one
}

// chunk is one that is in the store or that contents need. It takes 165 bytes in all, and a user of 10 GB has 80,000.
type chunk struct {
	manifest.Chunk
	there bool  // in the store
	size  int64 // of the object
	time  int64 // when that was stored, in nanoseconds since 1970
	refs  int   // contents
}

// stored notes that the chunk is there.
func (c *chunk) stored(o store.Object) { c.there, c.size, c.time = true, o.Size, o.Time.UnixNano() }

// lock takes records, and reads from the store what is not known.
func (u *User) lock(ctx context.Context) error {
	u.records.Lock()
	err := u.learn(ctx)
	if err != nil {
		u.records.Unlock()
	}
	return err
}

func (u *User) learn(ctx context.Context) error {
	if u.names == nil {
		return u.load(ctx)
	}
	for name := range u.unsure {
		if err := u.reload(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// load reads everything. No put or get may run.
func (u *User) load(ctx context.Context) error {
	u.unsure = make(map[string]struct{})
	u.contents = make(map[manifest.Digest]*content)
	u.manifests = make(map[manifest.Digest]store.Object)
	u.chunks = make(map[manifest.Chunk]*chunk)
	names, used := make(map[string][]Version), int64(0)
	for o, err := range u.all.store.List(ctx, u.prefix) {
		if err != nil {
			return err
		}
		used += store.Occupied(o.Size)
		switch k := u.parseKey(o.Key); k.kind {
		case chunkKey:
			c := &chunk{Chunk: k.chunk}
			c.stored(o)
			u.chunks[k.chunk] = c
		case manifestKey:
			u.manifests[k.chunk.Digest] = o
		case recordKey:
			v, err := u.read(ctx, k)
			if err != nil {
				return err
			}
			names[v.Name] = append(names[v.Name], v)
		}
	}
	for _, versions := range names {
		for _, v := range versions {
			if _, err := u.refer(ctx, v); err != nil {
				return err
			}
		}
	}
	u.names = names
	u.mu.Lock()
	u.charge(used - u.used)
	u.mu.Unlock()
	return nil
}

// reload reads the versions of a save again.
func (u *User) reload(ctx context.Context, name string) error {
	var versions []Version
	for o, err := range u.all.store.List(ctx, u.prefix+"names/"+escape(name)+"/") {
		if err != nil {
			return err
		}
		if k := u.parseKey(o.Key); k.kind == recordKey {
			v, err := u.read(ctx, k)
			if err != nil {
				return err
			}
			versions = append(versions, v)
		}
	}
	for i, v := range versions {
		if _, err := u.refer(ctx, v); err != nil {
			u.unrefer(versions[:i])
			return err
		}
	}
	u.unrefer(u.names[name])
	u.mu.Lock()
	u.charge(recordBytes * int64(len(versions)-len(u.names[name])))
	u.mu.Unlock()
	u.set(name, versions)
	delete(u.unsure, name)
	return nil
}

// set says which versions a save has.
func (u *User) set(name string, versions []Version) {
	if len(versions) == 0 {
		delete(u.names, name)
		return
	}
	u.names[name] = versions
}

// read reads a version.
func (u *User) read(ctx context.Context, k key) (Version, error) {
	b, err := u.all.store.Get(ctx, k.key)
	return decode(k.name, k.number, b), err
}

// refer notes that a version refers to its content, nil where it has none.
func (u *User) refer(ctx context.Context, v Version) (*content, error) {
	if v.Kind != Stored {
		return nil, nil
	}
	u.mu.Lock()
	c := u.contents[v.Content]
	if c != nil {
		c.refs++
	}
	u.mu.Unlock()
	if c != nil {
		return c, nil
	}
	m, _, err := u.manifest(ctx, v.Content)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	c = u.hold(v.Content, m)
	c.broken = err
	return c, nil
}

// manifest reads a manifest. With ErrDamaged the store has none that can be used.
func (u *User) manifest(ctx context.Context, digest manifest.Digest) (*manifest.Manifest, []byte, error) {
	b, err := u.all.store.Get(ctx, u.manifestKey(digest))
	if err == nil && manifest.Sum(b) != digest {
		err = fs.ErrInvalid
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil, fmt.Errorf("%w: manifest %v: %w", ErrDamaged, digest, err)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.Parse(b, manifest.Limits{Bytes: 1 << 62}) // its put was bounded by the limits of that time
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, b, err
}

// hold returns the content of a manifest, with one reference more. Of a nil manifest nothing is known.
func (u *User) hold(digest manifest.Digest, m *manifest.Manifest) *content {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.contents[digest]
	if c == nil {
		c = &content{digest: digest}
		u.contents[digest] = c
	}
	c.refs++
	if m == nil || c.chunks != nil {
		return c
	}
	c.broken = nil
	for _, id := range m.Chunks() {
		known := u.chunks[id]
		if known == nil {
			known = &chunk{Chunk: id}
			u.chunks[id] = known
		}
		known.refs++
		c.chunks = append(c.chunks, known)
	}
	return c
}

// drop takes a reference of a content away.
func (u *User) drop(c *content) {
	if c == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return
	}
	delete(u.contents, c.digest)
	for _, chunk := range c.chunks {
		if chunk.refs--; chunk.refs == 0 && !chunk.there {
			delete(u.chunks, chunk.Chunk)
		}
	}
}

// unrefer takes away the references of versions, and returns their contents.
func (u *User) unrefer(versions []Version) (contents []*content) {
	for _, v := range versions {
		if v.Kind == Stored {
			u.mu.Lock()
			c := u.contents[v.Content]
			u.mu.Unlock()
			u.drop(c)
			contents = append(contents, c)
		}
	}
	return contents
}

// charge counts bytes that came to the store or left it. The caller holds mu.
func (u *User) charge(bytes int64) {
	u.used += bytes
	u.all.total.Add(bytes)
}

// List returns the newest version of each save by name, of those in the trash as well.
func (u *User) List(ctx context.Context) ([]Version, error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	var newest []Version
	for _, name := range slices.Sorted(maps.Keys(u.names)) {
		newest = append(newest, u.newest(name))
	}
	return newest, nil
}

// newest returns the newest version of a save, the zero Version where there is none.
func (u *User) newest(name string) (v Version) {
	if versions := u.names[name]; len(versions) > 0 {
		v = versions[len(versions)-1]
	}
	return v
}

// History returns the versions of a save that are still there, the newest last. It fails with ErrNoSave.
func (u *User) History(ctx context.Context, name string) ([]Version, error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	if len(u.names[name]) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoSave, name)
	}
	return slices.Clone(u.names[name]), nil
}

// find returns a stored version of a save; number 0 is the newest. The caller holds records.
func (u *User) find(name string, number int) (Version, error) {
	versions := u.names[name]
	if len(versions) == 0 {
		return Version{}, fmt.Errorf("%w: %q", ErrNoSave, name)
	}
	at := len(versions) - 1
	if number != 0 {
		at = slices.IndexFunc(versions, func(v Version) bool { return v.Number == number })
	}
	switch {
	case at < 0:
		return Version{}, fmt.Errorf("%w: %d of %q", ErrNoVersion, number, name)
	case versions[at].Kind == Trash:
		return Version{}, fmt.Errorf("%w: %q, since %s", ErrTrash, name, versions[at].Time.Format(time.DateTime))
	case versions[at].Kind == Damaged:
		return Version{}, fmt.Errorf("%w: version %d of %q", ErrDamaged, versions[at].Number, name)
	}
	return versions[at], nil
}

// Usage says what a user takes of the store.
type Usage struct {
	Used     int64 // bytes, of old versions and unfinished puts as well
	Reserved int64 // bytes that running puts may still store
	Quota    int64 // 0: none
}

// Usage returns what the user takes.
func (u *User) Usage() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Usage{u.used, u.reserved, u.all.config.Quota}
}

func (u *User) manifestKey(d manifest.Digest) string { return u.prefix + "manifests/" + d.String() }

func (u *User) chunkKey(c manifest.Chunk) string {
	digest := c.Digest.String()
	return fmt.Sprintf("%schunks/%s/%s.%d", u.prefix, digest[:2], digest, c.Size)
}

func (u *User) recordKey(name string, number int) string {
	return fmt.Sprintf("%snames/%s/%08d", u.prefix, escape(name), number)
}

// keyKind is what an object is.
type keyKind int

const (
	strangeKey keyKind = iota
	chunkKey
	manifestKey
	recordKey
)

// key is what the key of an object says.
type key struct {
	key    string
	kind   keyKind
	chunk  manifest.Chunk // of a manifest only the digest
	name   string
	number int
}

// parseKey reads a key of the user. One that is written in another way is a strange one.
func (u *User) parseKey(s string) key {
	k := key{key: s}
	var digest []byte
	elements := strings.Split(strings.TrimPrefix(s, u.prefix), "/")
	last := elements[len(elements)-1]
	switch elements[0] {
	case "chunks":
		_, _ = fmt.Sscanf(last, "%64x.%d", &digest, &k.chunk.Size)
		copy(k.chunk.Digest[:], digest)
		k.is(chunkKey, u.chunkKey(k.chunk))
	case "manifests":
		_, _ = fmt.Sscanf(last, "%64x", &digest)
		copy(k.chunk.Digest[:], digest)
		k.is(manifestKey, u.manifestKey(k.chunk.Digest))
	case "names":
		name, ok := unescape(elements[min(1, len(elements)-1)])
		_, _ = fmt.Sscanf(last, "%d", &k.number)
		if k.name = name; ok && k.number > 0 {
			k.is(recordKey, u.recordKey(name, k.number))
		}
	}
	return k
}

// is sets the kind when the key is written so.
func (k *key) is(kind keyKind, written string) {
	if written == k.key {
		k.kind = kind
	}
}
