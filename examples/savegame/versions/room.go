package versions

import (
	"context"
	"errors"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// room makes room within the quota for bytes of a save, and counts them as used.
func (u *User) room(ctx context.Context, name string, bytes int64) error {
	if u.fits(bytes) == nil {
		return nil
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	return u.makeRoom(ctx, name, bytes)
}

// makeRoom is room for who holds records.
func (u *User) makeRoom(ctx context.Context, name string, bytes int64) error {
	for {
		full := u.fits(bytes)
		if full == nil {
			return nil
		}
		if err := u.displace(ctx, name, full); err != nil {
			return err
		}
	}
}

// write puts an object of a save into the store. When the disk is full it makes room as within a quota, and holds no slot meanwhile: those
// are everybody's. Once it has a slot it is not canceled, for else nobody would know whether the object is there.
func (u *User) write(ctx context.Context, name, key string, data []byte) error {
	sure := context.WithoutCancel(ctx)
	err := u.all.inSlot(ctx, func() error { return u.all.store.Put(sure, key, data) })
	if !errors.As(err, new(*store.Full)) {
		return err
	}
	if err := u.lock(sure); err != nil {
		return err
	}
	defer u.records.Unlock()
	return u.writeHeld(sure, name, key, data)
}

// writeHeld is write for who holds records.
func (u *User) writeHeld(ctx context.Context, name, key string, data []byte) error {
	for {
		err := u.all.store.Put(ctx, key, data)
		full, is := errors.AsType[*store.Full](err)
		if !is || !u.fitsDisk(full) {
			return err
		}
		if err := u.displace(ctx, name, full); err != nil {
			return err
		}
	}
}

// fitsDisk reports whether what runs fits the disk beside what stays, as large as it may become. The caller holds records.
func (u *User) fitsDisk(full *store.Full) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	spare, needed := full.Free-full.Reserve, u.needed(true)
	for o := range u.objects {
		switch size := store.Occupied(o.size); {
		case o.there && !needed[o]:
			spare += size
		case !o.there && needed[o]:
			spare -= size
		}
	}
	return spare >= recordBytes
}

// displace deletes for a save what goes first: what was never finished, then the oldest version, with the record of the trash that
// would be left alone. Where that is nothing, or would give no bytes back, it returns full. The caller holds records.
func (u *User) displace(ctx context.Context, name string, full error) error {
	had := u.freed.Objects
	if err := u.free(ctx, u.all.config.Now().Add(1)); err != nil || u.freed.Objects > had {
		return err
	}
	oldest := u.oldest()
	if len(oldest) == 0 {
		return full
	}
	u.noteDisplaced(name, oldest)
	if err := u.forget(ctx, oldest[0].Name, oldest); err != nil {
		return errors.Join(full, err)
	}
	return nil
}

// fits counts bytes as used if there is room.
func (u *User) fits(bytes int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.over(u.used, bytes); err != nil {
		return err
	}
	u.charge(bytes)
	return nil
}

// oldest returns the version that goes next, and the trash record that would be left alone; none when only newest ones
// are there, or when a damaged one keeps all from being freed.
func (u *User) oldest() (oldest []Version) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.damaged() {
		return nil
	}
	for _, versions := range u.names {
		first := versions[0]
		if len(versions) < 2 || len(oldest) > 0 && !first.Time.Before(oldest[0].Time) {
			continue
		}
		oldest = versions[:1]
		if len(versions) == 2 && versions[1].Kind == Trash {
			oldest = versions
		}
	}
	return oldest
}
