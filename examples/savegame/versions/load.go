package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/stream/cdc"
)

// load reads what the store has, except for known records, because records never change. It only
// adds to the known objects, so puts and gets may run meanwhile: what they store is already known.
// The caller holds records.
func (u *User) load(ctx context.Context, known map[string][]Version) error {
	names, records := make(map[string][]Version), int64(0)
	for o, err := range u.all.store.List(ctx, strings.TrimSuffix(u.prefix, "/")) {
		if err != nil {
			return err
		}
		u.found(o)
		name, number, ok := u.parseRecord(o.Key)
		if !ok {
			continue // a chunk, a manifest, or an object of somebody else
		}
		v, err := u.record(ctx, known[name], name, number)
		if err != nil {
			return err
		}
		names[name] = append(names[name], v)
		records++
	}
	for _, versions := range names {
		for _, v := range versions {
			if err := u.learn(ctx, v); err != nil {
				return err
			}
		}
	}
	for _, known := range u.names {
		records -= int64(len(known))
	}
	u.names, u.sorted = names, slices.Sorted(maps.Keys(names))
	u.charge(recordBytes * records)
	return nil
}

// record returns a known version, or reads it. A record that can't be read counts as damaged, and
// is read again at the user's next request.
func (u *User) record(ctx context.Context, known []Version, name string, number int) (Version, error) {
	at, found := numbered(known, number)
	if found && known[at].Kind != Damaged {
		return known[at], nil
	}
	b, err := u.all.store.Get(ctx, u.recordKey(name, number))
	if err != nil && ctx.Err() == nil {
		u.stale.Store(true)
		b, err = nil, nil
	}
	return decode(name, number, b), err
}

// found records that o exists if it is a chunk or a manifest.
func (u *User) found(o store.Object) {
	var id cdc.Chunk
	text, size, _ := strings.Cut(path.Base(o.Key), ".")
	_, _ = fmt.Sscan(size, &id.Size)
	if id.Digest.UnmarshalText([]byte(text)) == nil && u.key(id) == o.Key {
		u.mu.Lock()
		defer u.mu.Unlock()
		if known := u.object(id); !known.bad {
			u.stored(known, o.Size, o.Time)
		}
	}
}

// parseRecord returns the save and the number of the version whose record has the given key.
func (u *User) parseRecord(key string) (name string, number int, ok bool) {
	element, last, _ := strings.Cut(strings.TrimPrefix(key, u.prefix+"names/"), "/")
	name, ok = unescape(element)
	_, _ = fmt.Sscan(strings.TrimLeft(last, "0"), &number)
	return name, number, ok && number > 0 && u.recordKey(name, number) == key
}

// key returns the key of a chunk or a manifest.
func (u *User) key(id cdc.Chunk) string {
	if id.Size == 0 {
		return u.prefix + "manifests/" + id.Digest.String()
	}
	return fmt.Sprintf("%schunks/%v.%d", u.prefix, id.Digest, id.Size)
}

func (u *User) recordKey(name string, number int) string {
	return fmt.Sprintf("%snames/%s/%08d", u.prefix, escape(name), number)
}

// object returns the record of a chunk or a manifest, and adds it if necessary. The caller holds
// mu.
func (u *User) object(id cdc.Chunk) *object {
	if u.objects[id] == nil {
		u.objects[id] = &object{id: id, size: int64(id.Size) + 1}
	}
	return u.objects[id]
}

// content returns the record of a content, and adds it if necessary. The caller holds mu.
func (u *User) content(digest cdc.Digest) *content {
	if u.contents[digest] == nil {
		u.contents[digest] = &content{object: u.object(cdc.Chunk{Digest: digest})}
	}
	return u.contents[digest]
}

// know records the chunks of a manifest. The caller holds mu.
func (u *User) know(digest cdc.Digest, chunks []cdc.Chunk) *content {
	c := u.content(digest)
	if !c.known {
		c.known = true
		for _, id := range chunks {
			c.chunks = append(c.chunks, u.object(id))
		}
	}
	return c
}

// learn records the chunks of a version. It ignores a manifest that is damaged or can't be read, so
// that the other versions remain usable. A manifest that couldn't be read is read again at the
// user's next request.
func (u *User) learn(ctx context.Context, v Version) error {
	if v.Kind != Stored {
		return nil
	}
	_, err := u.contentOf(ctx, v)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, ErrDamaged) {
		u.stale.Store(true)
	}
	return nil
}

// contentOf returns the content of a version, whose manifest it reads if necessary. If it fails
// with ErrDamaged, the store has no usable manifest, and the next put of the content brings it
// back.
func (u *User) contentOf(ctx context.Context, v Version) (*content, error) {
	u.mu.Lock()
	c := u.content(v.Content)
	known := c.known
	u.mu.Unlock()
	if known {
		return c, nil
	}
	b, err := u.fetch(ctx, cdc.Chunk{Digest: v.Content})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	_, chunks, err := u.parse(b, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.know(v.Content, chunks), nil
}

// fetch reads and verifies a chunk or a manifest. It fails with ErrDamaged if the store doesn't
// have it or has different bytes, and then also records that it is spoiled.
func (u *User) fetch(ctx context.Context, id cdc.Chunk) ([]byte, error) {
	b, err := u.all.store.Get(ctx, u.key(id))
	switch {
	case err == nil:
		err = verify(id, b)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %v is missing", ErrDamaged, id.Digest)
	}
	if errors.Is(err, ErrDamaged) {
		u.spoiled(id)
	}
	return b, err
}

// verify returns ErrDamaged unless b is the given manifest or, in packed form, the given chunk.
func verify(id cdc.Chunk, b []byte) (err error) {
	if id.Size > 0 {
		err = cdc.Verify(b, id)
	} else if cdc.Sum(b) != id.Digest {
		err = fmt.Errorf("manifest %v has the wrong digest", id.Digest)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Report is the result of Check. Everything that isn't in Findings is good.
type Report struct {
	Users, Versions, Objects int
	Bytes                    int64 // as store.Occupied counts

	// Findings has a line for each problem: "incomplete: NAME@3 of USER: why" for a version that
	// can't be read completely because its record, its manifest or a chunk is missing or damaged,
	// and "damaged: KEY: why" for a chunk or manifest that can't be read or has the wrong digest,
	// or for a file of several objects. A line ends with "; deleted" if the problem was repaired.
	Findings []string
}

// Sound reports whether every version is complete and every object was verified.
func (r *Report) Sound() bool { return len(r.Findings) == 0 }

func (u *User) check(ctx context.Context, r *Report, repair bool) error {
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	u.mu.Lock()
	for _, o := range u.objects {
		o.bad = false // checkObject reads it again if the store lists it
	}
	u.mu.Unlock()
	if err := u.load(ctx, nil); err != nil {
		return err
	}
	u.mu.Lock()
	objects := slices.Collect(maps.Values(u.objects))
	u.mu.Unlock()
	for _, o := range objects {
		if err := u.checkObject(ctx, o, r, repair); err != nil {
			return err
		}
	}
	r.Users++
	for _, versions := range u.names {
		r.Versions += len(versions)
		r.Objects += len(versions)
		r.Bytes += recordBytes * int64(len(versions))
		for _, v := range versions {
			if err := u.checkVersion(ctx, v, r, repair); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkObject verifies a chunk or a manifest if it exists. From then on, one that is bad or can't
// be read counts as missing, so that the next put replaces it. Only a bad one is deleted.
func (u *User) checkObject(ctx context.Context, o *object, r *Report, repair bool) error {
	if !u.has(o) {
		return nil
	}
	r.Objects++
	r.Bytes += store.Occupied(o.size)
	_, err := u.fetch(ctx, o.id)
	if err == nil || ctx.Err() != nil {
		return err
	}
	u.spoiled(o.id)
	repair = repair && errors.Is(err, ErrDamaged) // an object that can't be read may be good
	return u.report(ctx, r, fmt.Sprintf("damaged: %s: %v", u.key(o.id), err), u.key(o.id), repair)
}

// report adds a finding and, if repair is set, deletes the object with the given key.
func (u *User) report(ctx context.Context, r *Report, finding, key string, repair bool) error {
	if repair {
		if err := u.all.store.Delete(ctx, key); err != nil {
			return err
		}
		u.stale.Store(true)
		finding += "; deleted"
	}
	r.Findings = append(r.Findings, finding)
	return nil
}

// checkVersion reports a version that can't be read completely. With repair, it deletes a damaged
// record, because no put brings that back, and because nothing of the user is freed as long as it
// is unknown what the record's version needs. It doesn't delete a record that can't be read at the
// moment.
func (u *User) checkVersion(ctx context.Context, v Version, r *Report, repair bool) error {
	lost := u.lost(v)
	if lost == nil {
		return nil
	}
	key := u.recordKey(v.Name, v.Number)
	_, err := u.all.store.Get(ctx, key)
	repair = repair && v.Kind == Damaged && err == nil
	return u.report(ctx, r, fmt.Sprintf("incomplete: %s@%d of %s: %v", v.Name, v.Number, u.name, lost), key, repair)
}

// lost returns an error if a version can't be read completely.
func (u *User) lost(v Version) error {
	switch v.Kind {
	case Trash:
		return nil
	case Damaged:
		return fmt.Errorf("%w: record", ErrDamaged)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.contents[v.Content]
	lacks, _ := c.lacks()
	switch {
	case !c.known, !c.there:
		return fmt.Errorf("%w: manifest is missing, damaged or unreadable", ErrDamaged)
	case len(lacks) > 0:
		return fmt.Errorf("%w: chunks are missing or damaged: %d of %d", ErrDamaged, len(lacks), len(c.chunks))
	}
	return nil
}
