package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
)

// Problem is what Check says of an object or a version.
type Problem string

const (
	// Incomplete is a version that cannot be had: its record, its manifest or a chunk is missing or damaged.
	Incomplete Problem = "incomplete"
	// Corrupt is a chunk or a manifest whose bytes are not those that its key names.
	Corrupt Problem = "damaged"
	// Orphan is an object that no version refers to, nor a running put or get: of a put that was given up. Collect deletes it
	// once it is old enough.
	Orphan Problem = "orphan"
	// Strange is an object that nobody here made.
	Strange Problem = "unknown"
)

// Finding is something that Check found.
type Finding struct {
	Problem Problem
	User    string
	Version Version   // of Incomplete
	Key     string    // of an object
	Size    int64     // of an object
	Since   time.Time // when the object was stored, or the version made
	Err     error     // what is wrong, of Incomplete and Corrupt
}

// Report is what Check found. Objects that are not in Findings are what a version needs, and good.
type Report struct {
	Users, Versions, Objects int
	Bytes                    int64 // as store.Occupied counts
	Findings                 []Finding
}

// Sound reports whether every version is complete and verified.
func (r *Report) Sound() bool {
	for _, f := range r.Findings {
		if f.Problem == Incomplete || f.Problem == Corrupt {
			return false
		}
	}
	return true
}

// Check reads everything, and reports what is not as it should be. With repair it deletes what is corrupt, so that a put
// of the same content brings it back. A user's versions cannot be read or made while it looks at that user's.
func (v *Versions) Check(ctx context.Context, repair bool) (r Report, err error) {
	names, strange, err := v.names(ctx)
	if err != nil {
		return r, err
	}
	for _, o := range strange {
		r.add(o)
		r.find(Finding{Problem: Strange, Key: o.Key, Size: o.Size, Since: o.Time})
	}
	for _, name := range names {
		u, err := v.User(ctx, name)
		if err != nil {
			return r, err
		}
		if err := u.check(ctx, &r, repair); err != nil {
			return r, fmt.Errorf("checking the saves of %s: %w", name, err)
		}
	}
	return r, nil
}

func (r *Report) add(o store.Object) {
	r.Objects++
	r.Bytes += store.Occupied(o.Size)
}

func (r *Report) find(f Finding) { r.Findings = append(r.Findings, f) }

// checking is the check of one user. It believes what the store has, not what is remembered.
type checking struct {
	*User
	report    *Report
	repair    bool
	manifests map[manifest.Digest]*verdict
	chunks    map[manifest.Chunk]*verdict
	versions  []Version
}

// verdict is what is known of an object.
type verdict struct {
	object store.Object
	needed bool
	read   bool  // whether err is known
	err    error // nil: it is good
}

func (u *User) check(ctx context.Context, r *Report, repair bool) error {
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	r.Users++
	c := &checking{u, r, repair, make(map[manifest.Digest]*verdict), make(map[manifest.Chunk]*verdict), nil}
	if err := c.list(ctx); err != nil {
		return err
	}
	for _, v := range c.versions {
		bad, err := c.version(ctx, v)
		if err != nil {
			return err
		}
		if bad != nil {
			r.find(Finding{Problem: Incomplete, User: u.name, Version: v, Since: v.Time, Err: bad})
		}
	}
	c.orphans()
	return nil
}

func (c *checking) list(ctx context.Context) error {
	for o, err := range c.all.store.List(ctx, c.prefix) {
		if err != nil {
			return err
		}
		c.report.add(o)
		switch k := c.parseKey(o.Key); k.kind {
		case chunkKey:
			c.chunks[k.chunk] = &verdict{object: o}
		case manifestKey:
			c.manifests[k.chunk.Digest] = &verdict{object: o}
		case recordKey:
			v, err := c.read(ctx, k)
			if err != nil {
				return err
			}
			c.versions = append(c.versions, v)
		default:
			c.report.find(Finding{Problem: Strange, User: c.name, Key: o.Key, Size: o.Size, Since: o.Time})
		}
	}
	c.report.Versions += len(c.versions)
	return nil
}

// version returns what is wrong with a version, or the store's error.
func (c *checking) version(ctx context.Context, v Version) (bad, err error) {
	switch v.Kind {
	case Trash:
		return nil, nil
	case Damaged:
		return fmt.Errorf("%w: its record", ErrDamaged), nil
	}
	known := c.manifests[v.Content]
	if known == nil {
		known = &verdict{read: true, err: fmt.Errorf("%w: its manifest %v is missing", ErrDamaged, v.Content)}
		c.manifests[v.Content] = known
	}
	if known.needed = true; !known.read {
		known.read = true
		known.err, err = c.content(ctx, v.Content, known)
	}
	return known.err, err
}

// content checks a manifest and its chunks.
func (c *checking) content(ctx context.Context, digest manifest.Digest, known *verdict) (bad, err error) {
	m, _, err := c.manifest(ctx, digest)
	if errors.Is(err, ErrDamaged) {
		return err, c.corrupt(ctx, known.object, err, func() { delete(c.User.manifests, digest) })
	}
	if err != nil {
		return nil, err
	}
	missing, damaged := 0, 0
	for _, id := range m.Chunks() {
		known := c.chunks[id]
		if known == nil {
			missing++
			continue
		}
		if known.needed = true; !known.read {
			known.read = true
			if known.err, err = c.chunk(ctx, id, known); err != nil {
				return nil, err
			}
		}
		if known.err != nil {
			damaged++
		}
	}
	if missing+damaged > 0 {
		bad = fmt.Errorf("%w: of its chunks %d are missing and %d damaged", ErrDamaged, missing, damaged)
	}
	return bad, nil
}

func (c *checking) chunk(ctx context.Context, id manifest.Chunk, known *verdict) (bad, err error) {
	packed, err := c.all.store.Get(ctx, known.object.Key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if bad = c.all.verify(packed, id); bad == nil {
		return nil, nil
	}
	return bad, c.corrupt(ctx, known.object, bad, func() {
		if chunk := c.User.chunks[id]; chunk != nil {
			chunk.there = false
		}
	})
}

// corrupt reports an object and, to repair it, deletes it; forget then forgets it.
func (c *checking) corrupt(ctx context.Context, o store.Object, bad error, forget func()) error {
	c.report.find(Finding{Problem: Corrupt, User: c.name, Key: o.Key, Size: o.Size, Since: o.Time, Err: bad})
	if !c.repair {
		return nil
	}
	c.mu.Lock()
	forget()
	c.charge(-store.Occupied(o.Size))
	c.mu.Unlock()
	return c.all.store.Delete(ctx, o.Key)
}

// orphans reports what nothing needs.
func (c *checking) orphans() {
	c.mu.Lock()
	defer c.mu.Unlock()
	orphan := func(v *verdict, held bool) {
		if !v.needed && !held && v.object.Key != "" {
			c.report.find(Finding{Problem: Orphan, User: c.name, Key: v.object.Key, Size: v.object.Size, Since: v.object.Time})
		}
	}
	for id, v := range c.chunks {
		known := c.User.chunks[id]
		orphan(v, known != nil && known.refs > 0)
	}
	for digest, v := range c.manifests {
		orphan(v, c.contents[digest] != nil)
	}
}
