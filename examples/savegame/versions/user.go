package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// User is the saves of one user. It records which objects the store has, and
// what each content needs.
type User struct {
	all    *Versions
	name   string
	prefix string // prefix of the keys

	// records is held, even while the store works, to read or change versions,
	// to begin to refer to a content, and to delete objects. So nothing that is
	// referred to is ever deleted. It is locked first, by lock.
	records sync.Mutex
	names   map[string][]Version // by number
	// When this process has first seen the newest version of a save, or a time
	// before: see outdated.
	since  map[string]time.Time
	sorted []string  // the keys of names, sorted
	freed  Collected // what was deleted since Collect last began

	// abandoned counts the manifests and chunks that were named by puts which
	// were abandoned since takeOut last looked, and swept is how many it looked
	// at then: see sweepPart. Guarded by records.
	abandoned, swept int

	// displaced is what was deleted to make room since the last call of
	// Displaced. Guarded by records.
	displaced []Version

	// parsing is held while waiting for Versions.parsing, and while holding that.
	// So others wait for one manifest of this user, however many the user has sent.
	parsing sync.Mutex

	// replacing is held while a chunk or manifest that exists already is verified and replaced.
	replacing sync.Mutex

	stale atomic.Bool // it is unknown what a failed call did, so the store is read before anything else is done

	// mu is taken last and held briefly.
	mu       sync.Mutex
	objects  map[cdc.Chunk]*object
	contents map[cdc.Digest]*content

	used atomic.Int64 // bytes in the store, and bytes held for what is being stored
}

// An object is a chunk or a manifest that is in the store, or that something
// needs. It takes 165 bytes in all, and a user of 10 GB has 80,000.
type object struct {
	id    cdc.Chunk // a manifest's has no size
	there bool
	size  int64 // if it is not there: its greatest possible size
	time  int64 // when it was stored, in nanoseconds since 1970; 0 = a version that had it was deleted
	read  int64 // when examine last read it, in nanoseconds since 1970
	// The store does not have it, or has other bytes: it is not there until a
	// put brings it back, whatever the store lists.
	bad bool
}

// A content is a manifest.
type content struct {
	*object
	running atomic.Int32 // puts and gets that refer to it; they begin while records is held
	known   bool         // chunks is what it has; false if the store does not have the manifest, or has another one
	chunks  []*object    // as manifest.Chunks returns them
}

// readAgain is after how long examine reads again what it has found good. Otherwise a
// client that begins puts and abandons them would cause everything to be read each time.
const readAgain = time.Hour

// examine reads what the user has of a content of which some is known to be bad: a disk that
// damages one file damages others, and a put brings back everything that is known to be bad.
func (u *User) examine(ctx context.Context, ids []cdc.Chunk) error {
	now := u.all.config.Now()
	for _, o := range u.unexamined(ids, now.Add(-readAgain)) {
		if ctx.Err() != nil {
			break
		}
		_, _ = u.fetch(ctx, o.id) // records what is damaged; what cannot be read now may be good
		u.mu.Lock()
		o.read = now.UnixNano()
		u.mu.Unlock()
	}
	return context.Cause(ctx)
}

// unexamined returns what exists of a content and was not read since a time, or
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

// lock locks records, and reads from the store what is not known. It fails unless names are valid.
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
	ctx, err := uncanceled(ctx) // otherwise a client that asks and cancels makes it begin again each time
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

// uncanceled returns a context like ctx that cannot be canceled, or why ctx has
// ended. If the store is stopped halfway it is unknown what it has done, and
// everything that the user has must be read again.
func uncanceled(ctx context.Context) (context.Context, error) {
	return context.WithoutCancel(ctx), context.Cause(ctx)
}

// read reads from the store what is not known.
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

// gone records that an object does not exist any more. The caller holds mu.
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

// charge counts bytes that were added to the store, or removed from it.
func (u *User) charge(bytes int64) {
	u.used.Add(bytes)
	u.all.total.Add(bytes)
}

// hold counts bytes as used before they are stored, or, if negative, no longer,
// because they are stored or will not be.
func (u *User) hold(bytes int64) {
	u.charge(bytes)
	u.all.held.Add(bytes)
}

// List returns a page of the newest versions of all saves by name, including
// those in the trash: at most most versions, with names after after.
func (u *User) List(ctx context.Context, after string, most int) (newest []Version, err error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	names := from(u.sorted, after+"\x00") // the first name that may follow after
	for _, name := range names[:min(most, len(names))] {
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

// last returns the newest version of a save that holds something, even if the save is in the trash.
func (u *User) last(name string) (v Version) {
	for _, v := range slices.Backward(u.names[name]) {
		if v.Kind == Stored {
			return v
		}
	}
	return v
}

// History returns a page of the versions of a save that still exist, the newest
// last: at most most versions, with numbers above after. It fails with ErrNoSave.
func (u *User) History(ctx context.Context, name string, after, most int) (page []Version, err error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	if len(u.names[name]) == 0 {
		return nil, noSave(name)
	}
	versions := u.names[name]
	at, _ := numbered(versions, after+1)
	return slices.Clone(versions[at:min(at+most, len(versions))]), nil
}

// numbered returns the index of the version with a number among those of a
// save, and whether there is one.
func numbered(versions []Version, number int) (at int, found bool) {
	return slices.BinarySearchFunc(versions, number, func(v Version, number int) int { return cmp.Compare(v.Number, number) })
}

// noSave returns the error that there is nothing of a save. The name is as the
// client sent it, and is logged.
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

// createInRoom is create for a version that needs room, which it makes. The caller holds records.
func (u *User) createInRoom(ctx context.Context, v Version) (Version, error) {
	if err := u.makeRoom(ctx, recordBytes); err != nil {
		return Version{}, err
	}
	defer u.hold(-recordBytes)
	return u.create(ctx, v)
}

// create makes the next version of a save, whose content exists and is held. The
// room for records of the trash is the disk's reserve. The caller holds records.
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
		return Version{}, fmt.Errorf("making version %d of %q: %w", v.Number, v.Name, err)
	}
	u.charge(recordBytes)
	if at, found := slices.BinarySearch(u.sorted, v.Name); !found {
		u.sorted = slices.Insert(u.sorted, at, v.Name)
	}
	u.names[v.Name] = append(u.names[v.Name], v)
	return v, nil
}

// Remove puts a save into the trash: its versions are kept for a while and can be restored.
// The trash's record has a base only if the machine has seen all of the save: see Erase.
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

// Restore makes a new version with the content of an old one, also of a save in
// the trash, and returns it; number 0 is the last one that was put.
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
	c.running.Add(1) // so that it is kept while room is made
	defer c.running.Add(-1)
	v.Base, v.Machine = newest.Number, machine
	v, err = u.createInRoom(ctx, v)
	return v, Added, err
}

// Erase deletes all versions of a save, permanently. Unless force is true it fails with
// [*Conflict] if one of them holds what the machine has not seen, and no machine that had seen
// it has put the save into the trash. A save that was erased halfway is in the trash, or, if
// the disk has no room for the trash's record, has its newest version left. What only these
// versions needed is deleted too or, if that is little, when room is needed or by Collect.
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
	if errors.Is(err, syscall.ENOSPC) && u.newest(name).Number == 0 {
		return nil // it is erased, and what it held is deleted when there is room
	}
	return err
}

// conflict returns why a version is not replaced, or not deleted.
func (u *User) conflict(v Version, seen Ref) error {
	return &Conflict{Latest: v, Seen: seen, Newest: u.newest(v.Name)}
}

// unseen returns the newest version of a save whose content a machine that has last seen
// seen does not know: a version after that one, which is no return to an earlier one.
func (u *User) unseen(name string, seen Ref) (newest Version) {
	all := u.names[name]
	known := 0
	if at, found := numbered(all, seen.Number); found && all[at].Ref() == seen {
		known = at + 1
	}
	held := make(map[cdc.Digest]bool) // contents of the versions that are known
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

// Content is a version that is being read. While it is open nothing of it is
// deleted, whatever happens to the version.
type Content struct {
	Version Version
	user    *User
	content *content
}

// Open opens a version of a save; number 0 is the newest. It fails with ErrNoSave,
// ErrNoVersion, ErrTrash or ErrDamaged. It reads the manifest only if nobody has yet: parsing
// a large one for each get would delay all other users, who wait for their turn to parse.
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
		return nil, fmt.Errorf("version %d of %q: its manifest: %w", c.Version.Number, c.Version.Name, err)
	}
	return b, nil
}

// Chunks returns how many chunks the version has.
func (c *Content) Chunks() int { return len(c.content.chunks) }

// Chunk returns a chunk, packed, by its index among [manifest.Manifest.Chunks].
// It fails with ErrDamaged if the store has lost or damaged it; then the next
// put of the same content brings it back. Chunk is safe for concurrent use.
func (c *Content) Chunk(ctx context.Context, index int) (packed []byte, err error) {
	if index < 0 || index >= len(c.content.chunks) {
		return nil, fmt.Errorf("%w %d: the manifest has it not", cdc.ErrChunk, index)
	}
	if packed, err = c.user.fetch(ctx, c.content.chunks[index].id); errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; put the same content again to mend it", err)
	}
	return packed, err
}

// Close ends the reading. It must be called once.
func (c *Content) Close() { c.content.running.Add(-1) }

// parse returns the version that a manifest describes, and its chunks. It parses one manifest
// at a time, for all users, because a manifest of many small entries takes 25 times its bytes.
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
