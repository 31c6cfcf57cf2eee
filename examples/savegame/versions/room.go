package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/stream/cdc"
)

// Full means that something does not fit.
type Full struct {
	Setting string // "quota" of the user, "total quota", or "disk"
	Limit   int64  // the value of the setting; for the disk, how much the user may have without the reserve
	// Bytes that remain whatever is deleted: newest versions, and running puts
	// at their greatest possible size.
	Kept  int64
	Needs int64 // bytes

	Free, Reserve int64 // if the disk is full: its bytes that are free, and those that must remain free
}

func (e *Full) Error() string {
	if e.Setting == "disk" {
		return fmt.Sprintf("the disk of the saves is full: %s do not fit beside %s that stay; %s are free, and the reserve of %s must stay so",
			SizeText(e.Needs), SizeText(e.Kept), SizeText(e.Free), SizeText(e.Reserve))
	}
	return fmt.Sprintf("%s exceeded: %s do not fit beside %s that stay; the limit is %s", e.Setting, SizeText(e.Needs), SizeText(e.Kept), SizeText(e.Limit))
}

// isFull reports whether there was no room, or, because others had filled the
// disk meanwhile, not even the reserve.
func isFull(err error) bool { return errors.As(err, new(*Full)) || errors.Is(err, syscall.ENOSPC) }

// room makes room for bytes within the quotas and on the disk, and holds them.
func (u *User) room(ctx context.Context, bytes int64) error {
	if err := u.fits(ctx, bytes); !isFull(err) {
		return err
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.records.Unlock()
	return u.makeRoom(ctx, bytes)
}

// makeRoom is room for a caller that holds records.
func (u *User) makeRoom(ctx context.Context, bytes int64) error {
	for {
		full := u.fits(ctx, bytes)
		if !isFull(full) {
			return full
		}
		if err := u.displace(ctx, full); err != nil {
			return err
		}
	}
}

// fits holds bytes if there is room.
func (u *User) fits(ctx context.Context, bytes int64) error {
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

// over returns an error if needs more bytes do not fit beside the kept bytes of the user.
// disk is the room that the disk has beside everything that exists. The caller holds mu.
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

// kept returns the bytes that remain whatever is deleted: those of the newest versions, and
// of running puts and gets at their greatest possible size. The caller holds records and mu.
func (u *User) kept() int64 {
	bytes := recordBytes * int64(len(u.names))
	for o := range u.needed(true) {
		bytes += store.Occupied(o.size)
	}
	return bytes
}

// displace deletes what goes first: what was never finished, then the oldest version, with
// the record of the trash that would be left alone, and whatever only that version needed,
// however little. If the latter cannot be deleted no other version is. If there is nothing
// to delete, or deleting would make no room, displace returns why. The caller holds records.
func (u *User) displace(ctx context.Context, full error) error {
	had := u.freed
	if err := u.free(ctx, ever, 0); !errors.Is(err, syscall.ENOSPC) && (err != nil || u.freed.Objects > had.Objects) {
		return err
	}
	oldest, err := u.oldest(ctx)
	if len(oldest) == 0 || err != nil {
		return errors.Join(err, full)
	}
	if err = u.forget(ctx, oldest[0].Name, oldest, 0); u.freed.Versions > had.Versions {
		u.displaced = append(u.displaced, oldest...)
		u.displaced = u.displaced[max(0, len(u.displaced)-mostDisplaced):]
	}
	if err != nil {
		return errors.Join(full, err)
	}
	return nil
}

// oldest returns the version that is deleted next, and the trash record that would be
// left alone. It returns none if only newest versions exist, if what must remain does
// not fit in any case, or if a damaged version keeps everything from being freed.
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

// mostDisplaced is how many deleted versions are recorded for a client that abandons its puts.
const mostDisplaced = 1024

// Displaced returns, in a line for each save, what was deleted to make room since it was
// last called: by the put or restore that has just ended, and by interrupted puts before it.
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

// lineOf names versions of a save for a person. If the trash's record is the
// last of them the whole save was deleted.
func lineOf(gone []Version) string {
	first, last := gone[0], gone[len(gone)-1]
	gone = slices.DeleteFunc(gone, func(v Version) bool { return v.Kind == Trash })
	switch {
	case last.Kind == Trash:
		return fmt.Sprintf("%s, which was in the trash, with %s", last.Name, english.Plural(len(gone), "version", ""))
	case len(gone) == 1:
		return fmt.Sprintf("%s@%d", last.Name, last.Number)
	}
	return fmt.Sprintf("%d versions from %s@%d to @%d", len(gone), last.Name, first.Number, last.Number)
}

// ever is after everything that was stored, even before a clock was set back.
var ever = time.Unix(0, math.MaxInt64)

const (
	// gaps: of the time between two versions at most this fraction, 1/gaps, of
	// Config.KeepFor counts. The clock may have been wrong at one of them.
	gaps = 7
	// mostAway is the longest time that counts between a save's newest version
	// and a server's start: if it is longer, the clock is assumed to be ahead.
	mostAway = 365 * 24 * time.Hour
)

// outdated returns the versions of a save that are too old, by what is certain
// although the clock may be wrong: the time that has passed since this process has
// first seen the newest one, how old that was then if its time can be true, and before
// that the gaps between versions, as far as they count. The caller holds records.
func (u *User) outdated(name string) (old []Version) {
	keep, all, now := u.all.config, u.names[name], u.all.config.Now()
	if u.since[name].IsZero() {
		newest := all[len(all)-1].Time
		away := now.Sub(newest)
		if away < 0 || away > mostAway || len(all) > 1 && newest.Before(all[len(all)-2].Time) {
			away = 0
		}
		u.since[name] = now.Add(-away) // keeps now's monotonic reading
	}
	age, later, behind := now.Sub(u.since[name]), time.Time{}, 0
	if all[len(all)-1].Kind == Trash && age > keep.KeepFor {
		return all
	}
	for _, v := range slices.Backward(all) {
		if v.Kind == Damaged { // it is unknown when it was made
			continue
		}
		age += min(max(0, later.Sub(v.Time)), keep.KeepFor/gaps)
		later = v.Time
		if age > keep.KeepFor && behind >= max(1, keep.Keep) {
			old = append(old, v)
		}
		if v.Kind != Trash { // it can be got
			behind++
		}
	}
	slices.Reverse(old)
	return old
}

// forget deletes versions, given by number, and then what only they needed, if that has
// least bytes or more. The last version is deleted once the others certainly are: if it
// is the trash's record, none of the others may come back. The caller holds records.
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
	return u.free(ctx, time.Unix(0, 1), least) // objects whose age forsake has cleared
}

// worthPart: what only deleted versions needed is deleted at once if it has an eighth of the
// user's bytes, because the store writes again whatever shares a file with it, and everybody's
// puts wait meanwhile. If it has less it is deleted when room is needed, or by Collect.
const worthPart = 8

// forsake clears the age of the contents and chunks of versions that are deleted,
// so that free deletes them without Config.Grace, unless something else needs them.
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

// free deletes what nothing needs and was stored before a time, if that has least
// bytes or more. It deletes all of it at once, because the store knows best what is in
// the same files. If the disk has no room to write some of these files again, the rest
// is deleted; free fails with ENOSPC if that is nothing. The caller holds records.
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
	if errors.Is(err, syscall.ENOSPC) && u.load(ctx, u.names) == nil {
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

// takeOut returns what free is to delete, and forgets it: from then on a put stores it again.
func (u *User) takeOut(before, least int64) (out []*object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.damaged() {
		return nil
	}
	needed, had, bytes := u.needed(false), len(u.objects), int64(0)
	goes := func(o *object) bool { return !needed[o] && !(o.there && o.time >= before) }
	for _, o := range u.objects {
		if o.there && goes(o) {
			bytes += store.Occupied(o.size)
		}
	}
	if bytes < least {
		return nil
	}
	for id, o := range u.objects {
		if !goes(o) {
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

// damaged reports whether a version's record or manifest is damaged: it is unknown
// what that version needs, so nothing is unneeded. The caller holds records and mu.
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

// needed returns what versions need, or only newest ones, and what running puts
// and gets refer to. The caller holds records and mu.
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

// Collected says what Collect has deleted.
type Collected struct {
	Versions int   // versions that were too old
	Objects  int   // objects that no version, put or get refers to
	Bytes    int64 // bytes in the store, of both
}

// Collect deletes versions that are too old and, after Config.Grace, what
// abandoned puts have left. It continues with the next user if one fails. Run
// it now and then, such as once an hour; puts and gets may run meanwhile.
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
