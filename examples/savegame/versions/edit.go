package versions

import (
	"context"
	"errors"
	"fmt"
)

// createInRoom is create for a version that needs room, which is made for the save that was asked about: v may be kept beside that. The
// caller holds records.
func (u *User) createInRoom(ctx context.Context, asked string, v Version) (Version, error) {
	if err := u.makeRoom(ctx, asked, recordBytes); err != nil {
		return Version{}, err
	}
	defer u.hold(-recordBytes)
	return u.create(ctx, v)
}

// create makes the next version of a save, whose content is there and held. What the trash takes is of the disk's reserve. The caller
// holds records.
func (u *User) create(ctx context.Context, v Version) (Version, error) {
	v.Number = u.newest(v.Name).Number + 1
	v.Time = u.all.config.Now().UTC().Round(0)
	if err := u.all.store.Put(ctx, u.recordKey(v.Name, v.Number), v.encode()); err != nil {
		u.stale.Store(true)
		return Version{}, fmt.Errorf("making version %d of %q: %w", v.Number, v.Name, err)
	}
	u.charge(recordBytes)
	u.names[v.Name] = append(u.names[v.Name], v)
	return v, nil
}

// Remove puts a save into the trash: its versions stay for a while and can be restored.
func (u *User) Remove(ctx context.Context, name, machine string) (Version, error) {
	if err := u.lock(ctx, machine); err != nil {
		return Version{}, err
	}
	defer u.records.Unlock()
	if _, err := u.find(name, 0); err != nil && !errors.Is(err, ErrDamaged) {
		return Version{}, err
	}
	return u.create(ctx, Version{Name: name, Kind: Trash, Base: u.newest(name).Number, Machine: machine})
}

// Restore makes a new version of what an old one holds, also of a save in the trash, and returns it; number 0 is the
// last one that was put.
func (u *User) Restore(ctx context.Context, name string, number int, machine string) (Version, error) {
	if err := u.lock(ctx, machine); err != nil {
		return Version{}, err
	}
	defer u.records.Unlock()
	newest := u.newest(name)
	if number == 0 {
		for _, v := range u.names[name] {
			if v.Kind == Stored {
				number = v.Number
			}
		}
	}
	v, err := u.find(name, number)
	if err != nil || newest.Kind == Stored && newest.Content == v.Content {
		return newest, err
	}
	if err := u.lost(v); err != nil {
		return Version{}, fmt.Errorf("version %d of %q: %w", v.Number, name, err)
	}
	u.mu.Lock()
	c := u.content(v.Content)
	u.mu.Unlock()
	c.running.Add(1) // so it stays while room is made
	defer c.running.Add(-1)
	v.Base, v.Machine = newest.Number, machine
	return u.createInRoom(ctx, name, v)
}

// Erase deletes all versions of a save, for good. It fails with [*Conflict] when the newest one is neither the one that the
// machine saw last nor in the trash, unless it is forced. A save that is erased half way is in
// the trash; where the disk has no room for the trash's record, its newest version is left.
func (u *User) Erase(ctx context.Context, name, machine string, seen Ref, force bool) error {
	if err := u.lock(ctx, machine); err != nil {
		return err
	}
	defer u.records.Unlock()
	newest := u.newest(name)
	if newest.Number == 0 {
		return fmt.Errorf("%w: %q", ErrNoSave, name)
	}
	if newest.Kind != Trash {
		if newest.Ref() != seen && !force {
			return &Conflict{newest, seen}
		}
		_, err := u.create(ctx, Version{Name: name, Kind: Trash, Base: newest.Number, Machine: machine})
		if err != nil && !isFull(err) {
			return err
		}
	}
	return u.forget(ctx, name, u.names[name])
}
