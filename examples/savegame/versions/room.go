package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/stream/cdc"
)

// Full means that there is no room for something.
type Full struct {
	Setting string // "quota" (of the user), "total quota" or "disk"
	Limit   int64  // value of the setting; for the disk, how much the user may have without the reserve
	// Kept is how many bytes remain whatever is deleted: those of newest versions,
	// and of running puts at their maximum size.
	Kept  int64
	Needs int64 // bytes that don't fit

	// If the disk is full, Free is how many bytes are free, and Reserve is how many
	// must remain free.
	Free, Reserve int64
}

func (e *Full) Error() string {
	if e.Setting == "disk" {
		return fmt.Sprintf("disk is full: need %s beside %s that must be kept; %s are free, of which %s are reserved",
			SizeText(e.Needs), SizeText(e.Kept), SizeText(e.Free), SizeText(e.Reserve))
	}
	return fmt.Sprintf("%s exceeded: need %s beside %s that must be kept; the limit is %s", e.Setting, SizeText(e.Needs), SizeText(e.Kept), SizeText(e.Limit))
}

// isFull reports whether there was no room, either within the limits or, because others filled the
// disk, even in the reserve.
func isFull(err error) bool { return errors.As(err, new(*Full)) || store.IsFull(err) }

// room makes room for bytes within the quotas and on the disk, and reserves them.
func (u *User) room(ctx context.Context, bytes int64) error {
	if err := u.tryHold(ctx, bytes); !isFull(err) {
		return err
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	return u.makeRoom(ctx, bytes)
}

// makeRoom is like room, for a caller that holds records.
func (u *User) makeRoom(ctx context.Context, bytes int64) error {
	for {
		full := u.tryHold(ctx, bytes)
		if !isFull(full) {
			return full
		}
		if err := u.displace(ctx, full); err != nil {
			return err
		}
	}
}

// tryHold reserves bytes if there is room, without deleting anything.
func (u *User) tryHold(ctx context.Context, bytes int64) error {
	disk, err := u.all.Room(ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.over(disk, u.used.Load(), bytes); err != nil {
		return err
	}
	u.hold(bytes)
	return nil
}

// over returns an error if needs more bytes don't fit beside the kept bytes of the user. disk is
// the room on the disk beside everything that exists. The caller holds mu.
func (u *User) over(disk, kept, needs int64) error {
	c, used := u.all.config, u.used.Load()
	others := u.all.total.Load() - used
	switch {
	case c.Quota > 0 && kept+needs > c.Quota:
		return &Full{Setting: "quota", Limit: c.Quota, Kept: kept, Needs: needs}
	case c.TotalQuota > 0 && others+kept+needs > c.TotalQuota:
		return &Full{Setting: "total quota", Limit: c.TotalQuota, Kept: others + kept, Needs: needs}
	case kept-used+needs > disk:
		reserve := max(0, c.Reserve)
		return &Full{"disk", max(0, disk+used), kept, needs, max(0, disk+reserve+u.all.held.Load()), reserve}
	}
	return nil
}

// kept returns how many bytes remain whatever is deleted: those of the newest versions, and of
// running puts and gets at their maximum size. The caller holds records and mu.
func (u *User) kept() int64 {
	bytes := recordBytes * int64(len(u.names))
	for o := range u.needed(true) {
		bytes += store.Occupied(o.size)
	}
	return bytes
}

// displace makes some room. It deletes what unfinished puts left or, if there is nothing of that,
// the oldest version with everything that only it needed, and with the record of the trash if that
// would be left alone. If it can't delete what the version needed, it doesn't go on to another
// version. It returns an error if there is nothing to delete, or if deleting would make no room.
// The caller holds records.
func (u *User) displace(ctx context.Context, full error) error {
	had := u.freed
	if err := u.free(ctx, ever, 0); !store.IsFull(err) && (err != nil || u.freed.Objects > had.Objects) {
		return err
	}
	oldest, err := u.oldest(ctx)
	if len(oldest) == 0 || err != nil {
		return errors.Join(err, full)
	}
	if err = u.forget(ctx, oldest[0].Name, oldest, 0); u.freed.Versions > had.Versions {
		u.displaced = append(u.displaced, oldest...)
		u.displaced = u.displaced[max(0, len(u.displaced)-maxDisplaced):]
	}
	if err != nil {
		return errors.Join(full, err)
	}
	return nil
}

// oldest returns the version to be deleted next, and the record of the trash if that would be left
// alone. It returns none if only newest versions exist, if even what must be kept doesn't fit, or
// if a damaged version prevents anything from being freed.
func (u *User) oldest(ctx context.Context) (oldest []Version, err error) {
	disk, err := u.all.Room(ctx)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.over(disk, u.kept(), recordBytes); err != nil || u.damaged() {
		return nil, err
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
	return oldest, nil
}

// maxDisplaced limits how many deleted versions are recorded while a client abandons its puts.
const maxDisplaced = 1024

// Displaced returns a line for each save of which something was deleted to make room since
// Displaced was last called, which was for the put or restore that has just ended, or for
// interrupted puts before it.
func (u *User) Displaced() (lines []string) {
	u.records.Lock()
	defer u.records.Unlock()
	gone := make(map[string][]Version)
	for _, v := range u.displaced {
		gone[v.Name] = append(gone[v.Name], v)
	}
	u.displaced = nil
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		lines = append(lines, lineOf(gone[name]))
	}
	return lines
}

// lineOf describes deleted versions of a save for people. If the last of them is the record of the
// trash, the whole save was deleted.
func lineOf(gone []Version) string {
	first, last := gone[0], gone[len(gone)-1]
	gone = slices.DeleteFunc(gone, func(v Version) bool { return v.Kind == Trash })
	switch {
	case last.Kind == Trash:
		return fmt.Sprintf("%s (in the trash, %s)", last.Name, english.Plural(len(gone), "version", ""))
	case len(gone) == 1:
		return fmt.Sprintf("%s@%d", last.Name, last.Number)
	}
	return fmt.Sprintf("%d versions from %s@%d to @%d", len(gone), last.Name, first.Number, last.Number)
}

// ever is after the time of every object, even of those stored before a clock was set back.
var ever = time.Unix(0, math.MaxInt64)

const (
	// Of the time between two versions, no more than 1/maxGapPart of Config.KeepFor
	// counts, because the clock may have been wrong at one of them.
	maxGapPart = 7
	// maxAway is the longest plausible time between a save's newest version and the start of a
	// server. If it seems longer, we assume that the clock is ahead.
	maxAway = 365 * 24 * time.Hour
)

// outdated returns the versions of a save that are too old. Since the clock may be wrong, age is
// the time since this process first saw the newest version, plus the age that it had then if its
// time is plausible, plus the gaps between versions as far as they count. The caller holds records.
func (u *User) outdated(name string) (old []Version) {
	keep, all, now := u.all.config, u.names[name], u.all.config.Now()
	if u.since[name].IsZero() {
		newest := all[len(all)-1].Time
		away := now.Sub(newest)
		if away < 0 || away > maxAway || len(all) > 1 && newest.Before(all[len(all)-2].Time) {
			away = 0
		}
		u.since[name] = now.Add(-away) // keeps now's monotonic reading
	}
	age, later, behind := now.Sub(u.since[name]), time.Time{}, 0
	if all[len(all)-1].Kind == Trash && age > keep.KeepFor {
		return all
	}
	for _, v := range slices.Backward(all) {
		if v.Kind == Damaged { // its time is unknown
			continue
		}
		age += min(max(0, later.Sub(v.Time)), keep.KeepFor/maxGapPart)
		later = v.Time
		if age > keep.KeepFor && behind >= max(1, keep.Keep) {
			old = append(old, v)
		}
		if v.Kind != Trash { // it has content
			behind++
		}
	}
	slices.Reverse(old)
	return old
}

// forget deletes versions, which are sorted by number, and then what only they needed if that has
// at least least bytes. It deletes the last version after the others, because if that is the record
// of the trash, none of the others may come back without it. The caller holds records.
func (u *User) forget(ctx context.Context, name string, versions []Version, least int64) error {
	ctx, err := uncanceled(ctx)
	if err != nil || len(versions) == 0 {
		return err
	}
	var keys []string
	for _, v := range versions {
		keys = append(keys, u.recordKey(name, v.Number))
	}
	last := len(keys) - 1
	err = u.all.store.Delete(ctx, keys[:last]...)
	if err == nil {
		err = u.all.store.Delete(ctx, keys[last])
	}
	if err != nil {
		u.stale.Store(true)
		return err
	}
	u.names[name] = slices.DeleteFunc(slices.Clone(u.names[name]), func(v Version) (gone bool) {
		_, gone = numbered(versions, v.Number)
		return gone
	})
	if len(u.names[name]) == 0 {
		delete(u.names, name)
		delete(u.since, name)
		at, _ := slices.BinarySearch(u.sorted, name)
		u.sorted = slices.Delete(u.sorted, at, at+1)
	}
	bytes := recordBytes * int64(len(versions))
	u.charge(-bytes)
	u.freed.Versions += len(versions)
	u.freed.Bytes += bytes
	u.forsake(versions)
	return u.free(ctx, time.Unix(0, 1), least) // objects whose time forsake cleared
}

// What only deleted versions needed is deleted at once if it has at least 1/worthPart of the user's
// bytes. If it has less, it is deleted when room is needed, or by Collect, because the store must
// rewrite whatever shares a file with it, and everybody's puts wait for that.
const worthPart = 8

// forsake clears the times of the contents and chunks of deleted versions, so that free deletes
// those that nothing else needs without waiting for Config.Grace.
func (u *User) forsake(versions []Version) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, v := range versions {
		if c := u.contents[v.Content]; c != nil {
			c.time = 0
			for _, chunk := range c.chunks {
				chunk.time = 0
			}
		}
	}
}

// free deletes what nothing needs and was stored before a time, if that has at least least bytes.
// It deletes all of it in one call, because the store knows which objects share a file. If the disk
// has no room to rewrite some of these files, free deletes the rest, and fails with ENOSPC only if
// nothing is left to delete. The caller holds records.
func (u *User) free(ctx context.Context, before time.Time, least int64) error {
	ctx, err := uncanceled(ctx)
	if err != nil {
		return err
	}
	out := u.takeOut(before.UnixNano(), least)
	if len(out) == 0 {
		return nil
	}
	var keys []string
	for _, o := range out {
		keys = append(keys, u.key(o.id))
	}
	err = u.all.store.Delete(ctx, keys...)
	if store.IsFull(err) && u.load(ctx, u.names) == nil {
		u.mu.Lock()
		out = slices.DeleteFunc(out, func(o *object) bool { return u.objects[o.id] != nil && u.objects[o.id].there })
		u.mu.Unlock()
		if len(out) > 0 {
			err = nil
		}
	}
	if err != nil {
		u.stale.Store(true)
		return err
	}
	u.freed.Objects += len(out)
	for _, o := range out {
		u.freed.Bytes += store.Occupied(o.size)
	}
	return nil
}

// takeOut returns what free is to delete, and removes it from the user's objects, so that a put
// stores it again.
func (u *User) takeOut(before, least int64) (out []*object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.damaged() {
		return nil
	}
	needed, had, bytes := u.needed(false), len(u.objects), int64(0)
	unneeded := func(o *object) bool { return !needed[o] && !(o.there && o.time >= before) }
	for _, o := range u.objects {
		if o.there && unneeded(o) {
			bytes += store.Occupied(o.size)
		}
	}
	if bytes < least {
		return nil
	}
	for id, o := range u.objects {
		if !unneeded(o) {
			continue
		}
		if o.there || o.bad {
			out = append(out, o)
			u.gone(o)
		}
		delete(u.objects, id)
	}
	if len(u.objects) <= had/2 {
		u.objects = maps.Collect(maps.All(u.objects)) // deleting entries alone frees no memory
	}
	maps.DeleteFunc(u.contents, func(_ cdc.Digest, c *content) bool { return !needed[c.object] }) // their chunks may be deleted
	u.abandoned, u.swept = 0, had
	for _, c := range u.contents {
		u.swept += len(c.chunks)
	}
	return out
}

// damaged reports whether the record or manifest of a version is damaged. It is then unknown what
// that version needs, so nothing may be deleted as unneeded. The caller holds records and mu.
func (u *User) damaged() bool {
	for _, versions := range u.names {
		for _, v := range versions {
			if v.Kind == Damaged || v.Kind == Stored && !u.contents[v.Content].known {
				return true
			}
		}
	}
	return false
}

// needed returns the objects that versions need and those that running puts and gets refer to. If
// newest is set, only the newest version of each save counts. The caller holds records and mu.
func (u *User) needed(newest bool) map[*object]bool {
	needed := make(map[*object]bool)
	add := func(c *content) {
		if needed[c.object] {
			return // many versions may have one content
		}
		needed[c.object] = true
		for _, chunk := range c.chunks {
			needed[chunk] = true
		}
	}
	for _, versions := range u.names {
		if newest {
			versions = versions[len(versions)-1:]
		}
		for _, v := range versions {
			if v.Kind == Stored {
				add(u.contents[v.Content])
			}
		}
	}
	for _, c := range u.contents {
		if c.running.Load() > 0 {
			add(c)
		}
	}
	return needed
}

// Collected is what Collect deleted.
type Collected struct {
	Versions int   // versions that were too old
	Objects  int   // objects that no version, put or get refers to
	Bytes    int64 // bytes in the store, of both
}

// Collect deletes versions that are too old and, after Config.Grace, what abandoned puts left
// behind. If it fails for one user, it continues with the next. It should be called regularly, for
// example once an hour; puts and gets may run at the same time.
func (v *Versions) Collect(ctx context.Context) (all Collected, err error) {
	err = v.each(ctx, "cleaning up", func(u *User) error {
		c, err := u.collect(ctx)
		all = Collected{all.Versions + c.Versions, all.Objects + c.Objects, all.Bytes + c.Bytes}
		return err
	})
	return all, err
}

func (u *User) collect(ctx context.Context) (Collected, error) {
	if err := u.lock(ctx); err != nil {
		return Collected{}, err
	}
	defer u.records.Unlock()
	u.freed = Collected{}
	var err error
	for name := range u.names {
		err = errors.Join(err, u.forget(ctx, name, u.outdated(name), u.used.Load()/worthPart))
	}
	err = errors.Join(err, u.free(ctx, u.all.config.Now().Add(-u.all.config.Grace), 0))
	return u.freed, err
}
