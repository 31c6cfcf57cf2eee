package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Report is what Check found. What is not in Findings is good.
type Report struct {
	Users, Versions, Objects int
	Bytes                    int64 // as store.Occupied counts

	// Findings are lines: "incomplete: NAME@3 of USER: why" of a version that cannot be had, for its record, its manifest or a chunk is missing
	// or damaged, and "damaged: KEY: why" of a chunk or manifest that can not be read, or whose bytes are not those that its key names.
	Findings []string
}

// Sound reports whether every version is complete and every object verified.
func (r *Report) Sound() bool { return len(r.Findings) == 0 }

// Check reads everything that users have, also what no version has yet, as the next put relies on it. With repair it
// deletes what is corrupt, so that a put of the same content brings it back. A user's versions cannot be read or made while
// it looks at that user's.
func (v *Versions) Check(ctx context.Context, repair bool) (r Report, err error) {
	err = v.each(ctx, "checking", func(u *User) error { return u.check(ctx, &r, repair) })
	slices.Sort(r.Findings)
	return r, err
}

func (u *User) check(ctx context.Context, r *Report, repair bool) error {
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	u.mu.Lock()
	for _, o := range u.objects {
		o.bad = false // it is looked at again below, if the store lists it
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
			if err := u.lost(v); err != nil {
				r.Findings = append(r.Findings, fmt.Sprintf("incomplete: %s@%d of %s: %v", v.Name, v.Number, u.name, err))
			}
		}
	}
	return nil
}

// checkObject verifies a chunk or a manifest if it is there. A bad one counts as missing from then on, so that the next put of it
// replaces it; so does one that can not be read, which stays.
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
	r.Findings = append(r.Findings, fmt.Sprintf("damaged: %s: %v", u.key(o.id), err))
	u.spoiled(o.id)
	if repair && errors.Is(err, ErrDamaged) { // what can not be read may be good
		return u.all.store.Delete(ctx, u.key(o.id))
	}
	return nil
}

// lost returns what is wrong with a version.
func (u *User) lost(v Version) error {
	switch v.Kind {
	case Trash:
		return nil
	case Damaged:
		return fmt.Errorf("%w: its record", ErrDamaged)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.contents[v.Content]
	lacks, _ := c.lacks()
	switch {
	case !c.known, !c.there:
		return fmt.Errorf("%w: its manifest is missing or damaged, or can not be read", ErrDamaged)
	case len(lacks) > 0:
		return fmt.Errorf("%w: %d of its %d chunks are missing or damaged", ErrDamaged, len(lacks), len(c.chunks))
	}
	return nil
}
