package versions

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
)

// deletedAtOnce bounds how long a delete keeps others from the store.
const deletedAtOnce = 256

// retain deletes the versions of a save that have had their time. The caller holds records.
func (u *User) retain(ctx context.Context, name string) error {
	return u.forget(ctx, name, u.outdated(u.names[name], u.all.config.Now()))
}

func (u *User) outdated(versions []Version, now time.Time) (old []Version) {
	keep := u.all.config
	for i, v := range versions {
		past := now.Sub(v.Time) > keep.KeepFor && v.Kind != Damaged
		switch newest := i == len(versions)-1; {
		case newest && v.Kind == Trash && past:
			return versions
		case !newest && past && len(versions)-i > keep.Keep:
			old = append(old, v)
		}
	}
	return old
}

// forget deletes versions, and then what only they needed. The last one goes when the others are gone for sure: where it
// is the trash's record, none of them may come back. The caller holds records.
func (u *User) forget(ctx context.Context, name string, versions []Version) error {
	if len(versions) == 0 {
		return nil
	}
	var keys []string
	bytes := recordBytes * int64(len(versions))
	for _, v := range versions {
		keys = append(keys, u.recordKey(name, v.Number))
	}
	last := len(keys) - 1
	err := u.all.store.Delete(ctx, keys[:last]...)
	if err == nil {
		err = u.all.store.Delete(ctx, keys[last])
	}
	if err != nil {
		u.unsure[name] = struct{}{}
		return err
	}
	u.set(name, slices.DeleteFunc(slices.Clone(u.names[name]), func(v Version) bool { return slices.Contains(versions, v) }))
	u.mu.Lock()
	u.charge(-bytes)
	u.freed.Versions += len(versions)
	u.freed.Bytes += bytes
	u.mu.Unlock()
	var chunks []*chunk
	var manifests []manifest.Digest
	for _, c := range u.unrefer(versions) {
		chunks, manifests = append(chunks, c.chunks...), append(manifests, c.digest)
	}
	return u.free(ctx, chunks, manifests)
}

// free deletes of these the ones that nothing refers to. The caller holds records.
func (u *User) free(ctx context.Context, chunks []*chunk, manifests []manifest.Digest) error {
	if u.blind() {
		return nil
	}
	for some := range slices.Chunk(u.takeOut(chunks, manifests), deletedAtOnce) {
		var keys []string
		var bytes int64
		for _, o := range some {
			keys = append(keys, o.Key)
			bytes += store.Occupied(o.Size)
		}
		if err := u.all.store.Delete(ctx, keys...); err != nil {
			return err // Collect finds them again, and counts them until then
		}
		u.mu.Lock()
		u.charge(-bytes)
		u.freed.Objects += len(keys)
		u.freed.Bytes += bytes
		u.mu.Unlock()
	}
	return nil
}

// takeOut has it that the unneeded ones of these are not there any more, before they are deleted, and returns them.
func (u *User) takeOut(chunks []*chunk, manifests []manifest.Digest) (gone []store.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range chunks {
		if c.refs == 0 && u.chunks[c.Chunk] == c && c.there {
			gone = append(gone, store.Object{Key: u.chunkKey(c.Chunk), Size: c.size})
			delete(u.chunks, c.Chunk)
		}
	}
	for _, d := range manifests {
		if o, there := u.manifests[d]; there && u.contents[d] == nil {
			gone = append(gone, o)
			delete(u.manifests, d)
		}
	}
	return gone
}

// blind reports whether there is a version of which nobody knows what it needs. Then nothing can be said to be unneeded.
func (u *User) blind() bool {
	for _, versions := range u.names {
		if slices.ContainsFunc(versions, func(v Version) bool { return v.Kind == Damaged }) {
			return true
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.contents {
		if c.broken != nil {
			return true
		}
	}
	return false
}

// orphans returns what nothing refers to and was stored before.
func (u *User) orphans(before time.Time) (chunks []*chunk, manifests []manifest.Digest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.chunks {
		if c.refs == 0 && c.time < before.UnixNano() {
			chunks = append(chunks, c)
		}
	}
	for d, o := range u.manifests {
		if u.contents[d] == nil && o.Time.Before(before) {
			manifests = append(manifests, d)
		}
	}
	return chunks, manifests
}

// over fails when more bytes do not fit where so many of the user's are taken. The caller holds mu.
func (u *User) over(taken, running, allRunning, needs int64) error {
	c := u.all.config
	if c.Quota > 0 && taken+running+needs > c.Quota {
		return &Full{"quota", c.Quota, taken, running, needs}
	}
	if others := u.all.total.Load() - u.used; c.TotalQuota > 0 && others+taken+allRunning+needs > c.TotalQuota {
		return &Full{"total quota", c.TotalQuota, others + taken, allRunning, needs}
	}
	return nil
}

// kept returns the bytes that stay whatever goes: of the newest versions, and of running puts and gets.
func (u *User) kept() (bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	versions := make(map[manifest.Digest]int)
	stays := make(map[manifest.Digest]bool)
	for name, all := range u.names {
		for _, v := range all {
			versions[v.Content]++
		}
		stays[u.newest(name).Content] = true
		bytes += recordBytes
	}
	seen := make(map[*chunk]struct{})
	for digest, c := range u.contents {
		if !stays[digest] && c.refs <= versions[digest] {
			continue
		}
		if o, there := u.manifests[digest]; there {
			bytes += store.Occupied(o.Size)
		}
		for _, chunk := range c.chunks {
			if _, again := seen[chunk]; chunk.there && !again {
				seen[chunk] = struct{}{}
				bytes += store.Occupied(chunk.size)
			}
		}
	}
	return bytes
}

// admit reserves room for a put that needs so much at most, if there would be enough without the versions that may go.
func (u *User) admit(needs int64) (reserved int64, err error) {
	u.mu.Lock()
	err = u.over(u.used, u.reserved, u.all.reserved.Load(), needs)
	u.mu.Unlock()
	if err != nil {
		kept := u.kept()
		u.mu.Lock()
		err = u.over(kept, u.reserved, u.all.reserved.Load(), needs)
		u.mu.Unlock()
	}
	if err != nil {
		return 0, err
	}
	u.mu.Lock()
	u.reserved += needs
	u.mu.Unlock()
	u.all.reserved.Add(needs)
	return needs, nil
}

// room makes room for bytes and counts them as used.
func (u *User) room(ctx context.Context, bytes int64) error {
	if u.fits(bytes) == nil {
		return nil
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	return u.makeRoom(ctx, bytes)
}

// makeRoom is room for who holds records. What was never finished goes first, then the oldest version, and so on.
func (u *User) makeRoom(ctx context.Context, bytes int64) error {
	full := u.fits(bytes)
	if full == nil {
		return nil
	}
	chunks, manifests := u.orphans(u.all.config.Now().Add(1))
	if err := u.free(ctx, chunks, manifests); err != nil {
		return err
	}
	for full = u.fits(bytes); full != nil; full = u.fits(bytes) {
		oldest := u.oldest()
		if len(oldest) == 0 {
			return full
		}
		if err := u.forget(ctx, oldest[0].Name, oldest); err != nil {
			return errors.Join(full, err)
		}
	}
	return nil
}

// fits counts bytes as used if there is room.
func (u *User) fits(bytes int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.over(u.used, 0, 0, bytes); err != nil {
		return err
	}
	u.charge(bytes)
	return nil
}

// oldest returns the version that goes next, and the trash record that would be left alone; none when only newest ones
// are there.
func (u *User) oldest() (oldest []Version) {
	for _, versions := range u.names {
		first := versions[0]
		if len(versions) < 2 || first.Kind == Damaged || len(oldest) > 0 && !first.Time.Before(oldest[0].Time) {
			continue
		}
		oldest = versions[:1]
		if len(versions) == 2 && versions[1].Kind == Trash {
			oldest = versions
		}
	}
	return oldest
}
