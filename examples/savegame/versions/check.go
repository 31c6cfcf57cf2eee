package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
)

// Problem is what Check says of an object or a version.
type Problem string

const (
	// Incomplete is a version that cannot be had: its record, its manifest or a chunk is missing or damaged.
	Incomplete Problem = "incomplete"
	// Corrupt is a chunk or a manifest that is missing, or whose bytes are not those that its key names.
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
	Version Version // of Incomplete
	Key     string  // of an object
	Size    int64   // of an object
	Err     error   // what is wrong, of Incomplete and Corrupt
}

// Report is what Check found. Objects that are not in Findings are what a version needs, and good.
type Report struct {
	Users, Versions, Objects int
	Bytes                    int64 // as store.Occupied counts
	Findings                 []Finding
}

// Sound reports whether every version is complete and verified.
func (r *Report) Sound() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Problem == Incomplete || f.Problem == Corrupt })
}

// Check reads everything, and reports what is not as it should be. With repair it deletes what is corrupt, so that a put
// of the same content brings it back. A user's versions cannot be read or made while it looks at that user's.
func (v *Versions) Check(ctx context.Context, repair bool) (r Report, err error) {
	names, strange, err := v.names(ctx)
	if err != nil {
		return r, err
	}
	r.strange("", strange)
	for _, name := range names {
		u, err := v.User(ctx, name)
		if err == nil {
			err = u.check(ctx, &r, repair)
		}
		if err != nil {
			return r, fmt.Errorf("checking the saves of %s: %w", name, err)
		}
	}
	return r, nil
}

func (r *Report) strange(user string, objects []store.Object) {
	for _, o := range objects {
		r.Objects++
		r.Bytes += store.Occupied(o.Size)
		r.Findings = append(r.Findings, Finding{Problem: Strange, User: user, Key: o.Key, Size: o.Size})
	}
}

// checking is the check of one user.
type checking struct {
	*User
	report *Report
	repair bool
	verify []verifying
	bad    map[*object]bool
}

// verifying is an object that something needs.
type verifying struct {
	*object
	key    string
	verify func([]byte) error
}

func (u *User) check(ctx context.Context, r *Report, repair bool) error {
	u.forgetAll()
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	r.Users++
	r.strange(u.name, u.strange)
	c := &checking{User: u, report: r, repair: repair, bad: make(map[*object]bool)}
	c.collect()
	for _, v := range c.verify {
		if err := c.object(ctx, v); err != nil {
			return err
		}
	}
	for _, versions := range u.names {
		r.Versions += len(versions)
		r.Objects += len(versions)
		r.Bytes += recordBytes * int64(len(versions))
		for _, v := range versions {
			if err := c.version(v); err != nil {
				r.Findings = append(r.Findings, Finding{Problem: Incomplete, User: u.name, Version: v, Err: err})
			}
		}
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Key+a.Version.Name, b.Key+b.Version.Name), a.Version.Number-b.Version.Number)
	})
	return nil
}

// collect finds the objects that must be verified, and reports orphans.
func (c *checking) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.markNeeded(false)
	for id, chunk := range c.chunks {
		c.add(verifying{&chunk.object, c.chunkKey(id), func(b []byte) error { return c.all.verify(b, id) }})
	}
	for digest, content := range c.contents {
		c.add(verifying{&content.object, c.manifestKey(digest), func(b []byte) error {
			if manifest.Sum(b) != digest {
				return fmt.Errorf("%w: manifest %v has other bytes", ErrDamaged, digest)
			}
			return nil
		}})
	}
}

func (c *checking) add(v verifying) {
	if !v.there {
		return
	}
	c.report.Objects++
	c.report.Bytes += store.Occupied(v.size)
	if v.mark == c.marks {
		c.verify = append(c.verify, v)
		return
	}
	c.report.Findings = append(c.report.Findings, Finding{Problem: Orphan, User: c.name, Key: v.key, Size: v.size})
}

// object verifies one, and deletes it when it is bad and to be repaired.
func (c *checking) object(ctx context.Context, v verifying) error {
	b, err := c.all.store.Get(ctx, v.key)
	if err == nil {
		err = v.verify(b)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		return nil
	}
	c.bad[v.object] = true
	c.report.Findings = append(c.report.Findings, Finding{Problem: Corrupt, User: c.name, Key: v.key, Size: v.size, Err: err})
	if !c.repair {
		return nil
	}
	if err := c.all.store.Delete(ctx, v.key); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone(v.object)
	return nil
}

// version returns what is wrong with a version.
func (c *checking) version(v Version) error {
	switch v.Kind {
	case Trash:
		return nil
	case Damaged:
		return fmt.Errorf("%w: its record", ErrDamaged)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	content, missing, damaged := c.contents[v.Content], 0, 0
	for _, chunk := range content.chunks {
		if c.bad[&chunk.object] {
			damaged++
		} else if !chunk.there {
			missing++
		}
	}
	switch {
	case content.broken != nil:
		return content.broken
	case c.bad[&content.object]:
		return fmt.Errorf("%w: its manifest", ErrDamaged)
	case missing+damaged > 0:
		return fmt.Errorf("%w: of its chunks %d are missing and %d damaged", ErrDamaged, missing, damaged)
	}
	return nil
}
