package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
)

// Finding is something that Check found.
type Finding struct {
	Problem Problem
	User    string
	Version Version // of Incomplete
	Key     string  // of Corrupt
	Size    int64   // of Corrupt
	Err     error   // what is wrong
}

// Report is what Check found. What is not in Findings is good.
type Report struct {
	Users, Versions, Objects int
	Bytes                    int64 // as store.Occupied counts
	Findings                 []Finding
}

// Sound reports whether every version is complete and every object verified.
func (r *Report) Sound() bool { return len(r.Findings) == 0 }

// Check reads everything that users have, also what no version has yet, as the next put relies on it. With repair it
// deletes what is corrupt, so that a put of the same content brings it back. A user's versions cannot be read or made while
// it looks at that user's.
func (v *Versions) Check(ctx context.Context, repair bool) (r Report, err error) {
	users, err := v.everyone(ctx)
	for _, u := range users {
		if err := u.check(ctx, &r, repair); err != nil {
			return r, fmt.Errorf("checking the saves of %s: %w", u.name, err)
		}
	}
	return r, err
}

// checking is the check of one user.
type checking struct {
	*User
	report *Report
	repair bool
	bad    map[*object]bool
}

func (u *User) check(ctx context.Context, r *Report, repair bool) error {
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	if err := u.load(ctx, nil); err != nil {
		return err
	}
	c := &checking{u, r, repair, make(map[*object]bool)}
	if err := c.objects(ctx); err != nil {
		return err
	}
	r.Users++
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

// objects verifies chunks and manifests.
func (c *checking) objects(ctx context.Context) error {
	c.mu.Lock()
	chunks, contents := maps.Clone(c.chunks), maps.Clone(c.contents)
	c.mu.Unlock()
	for id, chunk := range chunks {
		if err := c.object(ctx, &chunk.object, c.chunkKey(id), func(b []byte) error { return manifest.Verify(b, id) }); err != nil {
			return err
		}
	}
	for digest, content := range contents {
		verify := func(b []byte) error {
			if manifest.Sum(b) != digest {
				return fmt.Errorf("%w: manifest %v has other bytes", ErrDamaged, digest)
			}
			return nil
		}
		if err := c.object(ctx, &content.object, c.manifestKey(digest), verify); err != nil {
			return err
		}
	}
	return nil
}

// object verifies one that is there, and deletes it when it is bad and to be repaired.
func (c *checking) object(ctx context.Context, o *object, key string, verify func([]byte) error) error {
	c.mu.Lock()
	there, size := o.there, o.size
	c.mu.Unlock()
	if !there {
		return nil
	}
	c.report.Objects++
	c.report.Bytes += store.Occupied(size)
	b, err := c.all.store.Get(ctx, key)
	if err == nil {
		err = verify(b)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		return nil
	}
	c.bad[o] = true
	c.report.Findings = append(c.report.Findings, Finding{Problem: Corrupt, User: c.name, Key: key, Size: size, Err: err})
	if !c.repair {
		return nil
	}
	if err := c.all.store.Delete(ctx, key); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone(o)
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
	content, lost := c.contents[v.Content], 0
	for _, chunk := range content.chunks {
		if !chunk.there || c.bad[&chunk.object] {
			lost++
		}
	}
	switch {
	case content.broken != nil:
		return content.broken
	case c.bad[&content.object]:
		return fmt.Errorf("%w: its manifest", ErrDamaged)
	case lost > 0:
		return fmt.Errorf("%w: %d of its %d chunks are missing or damaged", ErrDamaged, lost, len(content.chunks))
	}
	return nil
}
