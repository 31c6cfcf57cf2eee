package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// User holds the saves of one user. It records which objects the store has, and which of them each
// content needs.
type User struct {
	all    *Versions
	name   string
	prefix string // prefix of the keys

	// records is held, even during calls of the store, to read or change versions, to begin to
	// refer to a content, and to delete objects, so that nothing is deleted while something refers
	// to it. It is locked before all other mutexes, by lock.
	records sync.Mutex
	names   map[string][]Version // by number
	// since is when this process first saw the newest version of a save, less the
	// age that the version had then; see outdated.
	since  map[string]time.Time
	sorted []string  // the keys of names, sorted
	freed  Collected // what has been deleted since Collect last began

	// abandoned counts the manifests and chunks of puts that were abandoned since takeOut last ran,
	// and swept is how many it looked at then; see sweepPart. Guarded by records.
	abandoned, swept int

	// displaced is what was deleted to make room since Displaced was last called. Guarded by
	// records.
	displaced []Version

	// parsing is held while waiting for and holding Versions.parsing, so that other users wait for
	// only one manifest of this user, however many the user sends.
	parsing sync.Mutex

	// replacing is held while an existing chunk or manifest is verified and replaced.
	replacing sync.Mutex

	stale atomic.Bool // it is unknown what a failed call did, so lock reads the store first

	// mu is taken last, and held briefly.
	mu       sync.Mutex
	objects  map[cdc.Chunk]*object
	contents map[cdc.Digest]*content

	used atomic.Int64 // bytes in the store, and bytes reserved for what is being stored
}

// An object is a chunk or a manifest that is in the store, or that something needs. It takes 165
// bytes of memory in all, and a user with 10 GB has 80,000 of them.
type object struct {
	id    cdc.Chunk // a manifest's has no size
	there bool      // it is in the store
	size  int64     // if it isn't there, its maximum size
	time  int64     // when it was stored, in nanoseconds since 1970; 0 = a version that had it was deleted
	read  int64     // when examine last read it, in nanoseconds since 1970
	// bad is set if the store lost the object or has different bytes. It then counts
	// as not there until a put brings it back, whatever the store lists.
	bad bool
}

// A content is a manifest and the chunks that it needs.
type content struct {
	*object
	running atomic.Int32 // puts and gets that refer to it; incremented with records held
	known   bool         // chunks is set; false if the store has no such manifest, or a damaged one
	chunks  []*object    // as manifest.Chunks returns them
}

// readAgain is how long examine relies on having found an object good. Otherwise a client that
// begins puts and abandons them would cause everything to be read each time.
const readAgain = time.Hour

// examine reads what the user has of a content if some of it is known to be bad, because a disk
// that damaged one file may have damaged others, and a put brings back only what is known to be
// bad.
func (u *User) examine(ctx context.Context, ids []cdc.Chunk) error {
	now := u.all.config.Now()
	for _, o := range u.unexamined(ids, now.Add(-readAgain)) {
		if ctx.Err() != nil {
			break
		}
		_, _ = u.fetch(ctx, o.id) // records damage; what can't be read at the moment may be good
		u.mu.Lock()
		o.read = now.UnixNano()
		u.mu.Unlock()
	}
	return context.Cause(ctx)
}

// unexamined returns the objects of a content that exist and haven't been read since a time, or
// nothing if none of the content is bad.
func (u *User) unexamined(ids []cdc.Chunk, since time.Time) (all []*object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(ids, func(id cdc.Chunk) bool { return u.objects[id] != nil && u.objects[id].bad }) {
		return nil
	}
	for _, id := range ids {
		if o := u.objects[id]; o != nil && o.there && o.read < since.UnixNano() {
			all = append(all, o)
		}
	}
	return all
}

// lock locks records after checking that the names are valid. If it is stale, lock first reads the
// store.
func (u *User) lock(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := users.CheckName(name); err != nil {
			return err
		}
	}
	u.records.Lock()
	if !u.stale.Load() {
		return nil
	}
	ctx, err := uncanceled(ctx) // otherwise a client could make it begin again each time by canceling
	if err == nil {
		u.stale.Store(false)
		err = u.load(ctx, u.names)
	}
	if err != nil {
		u.stale.Store(true)
		u.records.Unlock()
	}
	return err
}

// uncanceled returns a context like ctx that can't be canceled, or an error if ctx has already
// ended. It is for calls of the store that, if canceled halfway, would leave it unknown what they
// did, so that everything of the user would have to be read again.
func uncanceled(ctx context.Context) (context.Context, error) {
	return context.WithoutCancel(ctx), context.Cause(ctx)
}

// read reads the store if the user is stale.
func (u *User) read(ctx context.Context) error {
	err := u.lock(ctx)
	if err == nil {
		u.records.Unlock()
	}
	return err
}

// stored records that an object exists. The caller holds mu.
func (u *User) stored(o *object, size int64, at time.Time) {
	u.gone(o)
	o.there, o.size, o.time, o.bad = true, size, at.UnixNano(), false
	u.charge(store.Occupied(size))
}

// has reports whether an object exists.
func (u *User) has(o *object) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return o.there
}

// gone records that an object no longer exists. The caller holds mu.
func (u *User) gone(o *object) {
	if o.there {
		o.there = false
		u.charge(-store.Occupied(o.size))
	}
}

// spoiled records that an object is lost or damaged, so that the next put of it brings it back.
func (u *User) spoiled(id cdc.Chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.object(id)
	u.gone(o)
	o.bad = true
}

// charge counts bytes that were added to the store or, if negative, removed from it.
func (u *User) charge(bytes int64) {
	u.used.Add(bytes)
	u.all.total.Add(bytes)
}

// hold reserves bytes that are about to be stored. A negative number releases them when they are
// stored or won't be.
func (u *User) hold(bytes int64) {
	u.charge(bytes)
	u.all.held.Add(bytes)
}

// List returns a page of the newest versions of all saves, including those in the trash, in the
// order of their names. The page has up to limit versions with names that follow after.
func (u *User) List(ctx context.Context, after string, limit int) (newest []Version, err error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	names := from(u.sorted, after+"\x00") // the first name that may follow after
	for _, name := range names[:min(limit, len(names))] {
		newest = append(newest, u.newest(name))
	}
	return newest, nil
}

// from returns the sorted names from first on.
func from(names []string, first string) []string {
	at, _ := slices.BinarySearch(names, first)
	return names[at:]
}

// newest returns the newest version of a save, or the zero Version if there is none.
func (u *User) newest(name string) (v Version) {
	if versions := u.names[name]; len(versions) > 0 {
		v = versions[len(versions)-1]
	}
	return v
}

// last returns the newest version of a save that has content, even if the save is in the trash.
func (u *User) last(name string) (v Version) {
	for _, v := range slices.Backward(u.names[name]) {
		if v.Kind == Stored {
			return v
		}
	}
	return v
}

// History returns a page of the existing versions of a save, with the newest last. The page has up
// to limit versions with numbers above after. It fails with ErrNoSave.
func (u *User) History(ctx context.Context, name string, after, limit int) (page []Version, err error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	if len(u.names[name]) == 0 {
		return nil, noSave(name)
	}
	versions := u.names[name]
	at, _ := numbered(versions, after+1)
	return slices.Clone(versions[at:min(at+limit, len(versions))]), nil
}

// numbered returns the index of the version with the given number among those of a save, and
// whether there is one.
func numbered(versions []Version, number int) (at int, found bool) {
	return slices.BinarySearchFunc(versions, number, func(v Version, number int) int { return cmp.Compare(v.Number, number) })
}

// noSave returns an error that wraps ErrNoSave. It shortens and quotes the name, which comes from
// the client and is logged.
func noSave(name string) error { return fmt.Errorf("%w: %.100q", ErrNoSave, name) }

// find returns a stored version of a save; number 0 is the newest. The caller holds records.
func (u *User) find(name string, number int) (Version, error) {
	versions := u.names[name]
	if len(versions) == 0 {
		return Version{}, noSave(name)
	}
	at, found := len(versions)-1, true
	if number != 0 {
		at, found = numbered(versions, number)
	}
	switch {
	case !found:
		return Version{}, fmt.Errorf("%w: %d of %q", ErrNoVersion, number, name)
	case versions[at].Kind == Trash:
		return Version{}, fmt.Errorf("%w: %q, since %s", ErrTrash, name, versions[at].Time.Format(timeText))
	case versions[at].Kind == Damaged:
		return Version{}, fmt.Errorf("%w: version %d of %q", ErrDamaged, versions[at].Number, name)
	}
	return versions[at], nil
}

// createInRoom makes room for a version's record, and creates the version. The caller holds
// records.
func (u *User) createInRoom(ctx context.Context, v Version) (Version, error) {
	if err := u.makeRoom(ctx, recordBytes); err != nil {
		return Version{}, err
	}
	defer u.hold(-recordBytes)
	return u.create(ctx, v)
}

// create makes the next version of a save, whose content exists and is referred to. It makes no
// room for the record; those of the trash use the disk's reserve. The caller holds records.
func (u *User) create(ctx context.Context, v Version) (Version, error) {
	ctx, err := uncanceled(ctx)
	if err != nil {
		return Version{}, err
	}
	v.Number = u.newest(v.Name).Number + 1
	u.since[v.Name] = u.all.config.Now() // even if Put fails, because the version may exist nevertheless
	v.Time = u.since[v.Name].UTC().Round(0)
	if err := u.all.store.Put(ctx, u.recordKey(v.Name, v.Number), v.encode()); err != nil {
		u.stale.Store(true)
		return Version{}, fmt.Errorf("create version %d of %q: %w", v.Number, v.Name, err)
	}
	u.charge(recordBytes)
	if at, found := slices.BinarySearch(u.sorted, v.Name); !found {
		u.sorted = slices.Insert(u.sorted, at, v.Name)
	}
	u.names[v.Name] = append(u.names[v.Name], v)
	return v, nil
}

// Remove moves a save to the trash, from which its versions can be restored for a while. The record
// of the trash has a base only if the machine has seen everything that the save holds; see Erase.
func (u *User) Remove(ctx context.Context, name, machine string, seen Ref) (Version, error) {
	if err := u.lock(ctx, machine); err != nil {
		return Version{}, err
	}
	defer u.records.Unlock()
	if _, err := u.find(name, 0); err != nil && !errors.Is(err, ErrDamaged) {
		return Version{}, err
	}
	v := Version{Name: name, Kind: Trash, Machine: machine}
	if u.unseen(name, seen).Number == 0 {
		v.Base = u.newest(name).Number
	}
	return u.create(ctx, v)
}

// Restore makes a new version with the content of an old one, even of a save in the trash, and
// returns it. Number 0 is the last version that was put.
func (u *User) Restore(ctx context.Context, name string, number int, machine string) (Version, Outcome, error) {
	if err := u.lock(ctx, machine); err != nil {
		return Version{}, "", err
	}
	defer u.records.Unlock()
	newest := u.newest(name)
	v, err := u.find(name, cmp.Or(number, u.last(name).Number))
	if err != nil || newest.has(v.Content) {
		return newest, Unchanged, err
	}
	if err := u.lost(v); err != nil {
		return Version{}, "", fmt.Errorf("version %d of %q: %w", v.Number, name, err)
	}
	u.mu.Lock()
	c := u.content(v.Content)
	u.mu.Unlock()
	c.running.Add(1) // so that making room doesn't delete it
	defer c.running.Add(-1)
	v.Base, v.Machine = newest.Number, machine
	v, err = u.createInRoom(ctx, v)
	return v, Added, err
}

// Erase permanently deletes all versions of a save. Unless force is true, it fails with [*Conflict]
// if one of them has content that the machine hasn't seen, unless a machine that had seen it moved
// the save to the trash. If Erase fails halfway, the save is in the trash or, if the disk had no
// room for that record, keeps its newest version. What only these versions needed is deleted too;
// if that is little, it is deleted later, when room is needed or by Collect.
func (u *User) Erase(ctx context.Context, name, machine string, seen Ref, force bool) error {
	if err := u.lock(ctx, machine); err != nil {
		return err
	}
	defer u.records.Unlock()
	newest := u.newest(name)
	if newest.Number == 0 {
		return noSave(name)
	}
	v, removed := u.unseen(name, seen), newest.Kind == Trash && newest.Base > 0
	if v.Number > 0 && !removed && !force {
		return u.conflict(v, seen)
	}
	if newest.Kind != Trash {
		_, err := u.create(ctx, Version{Name: name, Kind: Trash, Base: newest.Number, Machine: machine})
		if err != nil && !isFull(err) {
			return err
		}
	}
	err := u.forget(ctx, name, u.names[name], u.used.Load()/worthPart)
	if store.IsFull(err) && u.newest(name).Number == 0 {
		return nil // the save is erased, and its content is deleted when there is room
	}
	return err
}

// conflict returns the error that a version may not be replaced or deleted.
func (u *User) conflict(v Version, seen Ref) error {
	return &Conflict{Latest: v, Seen: seen, Newest: u.newest(v.Name)}
}

// unseen returns the newest version of a save with content that is unknown to a machine whose last
// seen version is seen. That is a version after it that doesn't return to the content of an earlier
// one.
func (u *User) unseen(name string, seen Ref) (newest Version) {
	all := u.names[name]
	known := 0
	if at, found := numbered(all, seen.Number); found && all[at].Ref() == seen {
		known = at + 1
	}
	held := make(map[cdc.Digest]bool) // contents of the known versions
	for _, v := range all[:known] {
		held[v.Content] = held[v.Content] || v.Kind == Stored
	}
	for _, v := range slices.Backward(all[known:]) {
		if v.Kind != Trash && !held[v.Content] {
			return v
		}
	}
	return newest
}

// Content is a version that is being read. Until it is closed, nothing that it needs is deleted,
// whatever happens to the version.
type Content struct {
	Version Version
	user    *User
	content *content
}

// Open opens a version of a save; number 0 is the newest. It fails with ErrNoSave, ErrNoVersion,
// ErrTrash or ErrDamaged. It reads the manifest only if its chunks aren't known yet, because
// parsing a large one for each get would delay all other users, who wait for their turn to parse.
func (u *User) Open(ctx context.Context, name string, number int) (*Content, error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	v, err := u.find(name, number)
	if err != nil {
		return nil, err
	}
	c, err := u.contentOf(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("version %d of %q: %w", v.Number, v.Name, err)
	}
	c.running.Add(1)
	return &Content{v, u, c}, nil
}

// ManifestSize returns how many bytes the manifest has.
func (c *Content) ManifestSize() int64 {
	c.user.mu.Lock()
	defer c.user.mu.Unlock()
	return c.content.size
}

// Manifest reads the manifest. It fails with ErrDamaged if the store has lost or damaged it.
func (c *Content) Manifest(ctx context.Context) ([]byte, error) {
	b, err := c.user.fetch(ctx, c.content.id)
	if err != nil {
		return nil, fmt.Errorf("version %d of %q: manifest: %w", c.Version.Number, c.Version.Name, err)
	}
	return b, nil
}

// Chunks returns how many chunks the version has.
func (c *Content) Chunks() int { return len(c.content.chunks) }

// Chunk returns a chunk, packed, by its index among [manifest.Manifest.Chunks]. It fails with
// ErrDamaged if the store has lost or damaged it, in which case the next put of the same content
// brings it back. Chunk is safe for concurrent use.
func (c *Content) Chunk(ctx context.Context, index int) (packed []byte, err error) {
	if index < 0 || index >= len(c.content.chunks) {
		return nil, fmt.Errorf("%w %d: not in the manifest", cdc.ErrChunk, index)
	}
	if packed, err = c.user.fetch(ctx, c.content.chunks[index].id); errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: put the same content again to repair it", err)
	}
	return packed, err
}

// Close allows what the version needs to be deleted again. It must be called once.
func (c *Content) Close() { c.content.running.Add(-1) }

// parse returns the version that a manifest describes, and its chunks. It parses only one manifest
// at a time for all users, because parsing a manifest of many small entries takes 25 times its size
// in memory.
func (u *User) parse(b []byte, most int64) (Version, []cdc.Chunk, error) {
	u.parsing.Lock()
	defer u.parsing.Unlock()
	u.all.parsing.Lock()
	defer u.all.parsing.Unlock()
	m, err := manifest.Parse(b, most)
	if err != nil {
		return Version{}, nil, err
	}
	files, bytes := m.Count()
	return Version{Kind: Stored, Content: cdc.Sum(b), Size: bytes, Files: files}, m.Chunks(), nil
}
