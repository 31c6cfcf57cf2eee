package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/dustin/go-humanize/english"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Full means that something does not fit.
type Full struct {
	Setting string // "quota" of the user, "total quota", or "room on the disk but for its reserve"
	Limit   int64  // what the setting is
	Kept    int64  // bytes that stay whatever goes: newest versions, and running puts as large as they may become
	Needs   int64  // bytes
}

func (e *Full) Error() string {
	return fmt.Sprintf("%s exceeded: %d bytes do not fit beside %d that stay; the limit is %d", e.Setting, e.Needs, e.Kept, e.Limit)
}

// isFull reports whether there was no room, or, as others had filled the disk meanwhile, not even of the reserve.
func isFull(err error) bool { return errors.As(err, new(*Full)) || errors.Is(err, syscall.ENOSPC) }

// room makes room within the quotas and on the disk for bytes, and holds them.
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

// makeRoom is room for who holds records.
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
	disk, err := u.all.room(ctx)
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

// over fails when more bytes do not fit beside so many that are the user's, with what the disk has room for beside all that is there.
// The caller holds mu.
func (u *User) over(disk, kept, needs int64) error {
	c, used := u.all.config, u.used.Load()
	others := u.all.total.Load() - used
	switch {
	case c.Quota > 0 && kept+needs > c.Quota:
		return &Full{"quota", c.Quota, kept, needs}
	case c.TotalQuota > 0 && others+kept+needs > c.TotalQuota:
		return &Full{"total quota", c.TotalQuota, others + kept, needs}
	case kept-used+needs > disk:
		return &Full{"room on the disk but for its reserve", max(0, disk+used), kept, needs}
	}
	return nil
}

// kept returns the bytes that stay whatever goes: of the newest versions, and of running puts and gets, as large as those may
// become. The caller holds records and mu.
func (u *User) kept() int64 {
	bytes := recordBytes * int64(len(u.names))
	for o := range u.needed(true) {
		bytes += store.Occupied(o.size)
	}
	return bytes
}

// displace deletes what goes first: what was never finished, then the oldest version, with the record of the trash that
// would be left alone. Where that is nothing, or would make no room, it returns why. The caller holds records.
func (u *User) displace(ctx context.Context, full error) error {
	had := u.freed.Objects
	if err := u.free(ctx, ever); err != nil || u.freed.Objects > had {
		return err
	}
	oldest, err := u.oldest(ctx)
	if len(oldest) == 0 || err != nil {
		return errors.Join(err, full)
	}
	if err := u.forget(ctx, oldest[0].Name, oldest); err != nil {
		return errors.Join(full, err)
	}
	u.displaced = append(u.displaced, oldest...)
	u.displaced = u.displaced[max(0, len(u.displaced)-mostDisplaced):]
	return nil
}

// oldest returns the version that goes next, and the trash record that would be left alone; none when only newest ones are there, when
// what stays does not fit in any case, or when a damaged one keeps all from being freed.
func (u *User) oldest(ctx context.Context) (oldest []Version, err error) {
	disk, err := u.all.room(ctx)
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

// mostDisplaced is how many are remembered for a client that gives its puts up.
const mostDisplaced = 1024

// Displaced says, in a line for each save, what was deleted to make room since it was asked last: by what has just ended, and by puts before
// it that were cut off.
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

// lineOf names versions of a save for a person. When the trash's record is the last of them the save is gone altogether.
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
