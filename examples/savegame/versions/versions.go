package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
)

// Config is what an operator decides. A zero is the default.
type Config struct {
	Keep       int           // versions of a save that stay however old they are: 10
	KeepFor    time.Duration // how long all versions of a save stay: a week
	Quota      int64         // bytes of the store that a user may fill; 0: the disk
	TotalQuota int64         // bytes of all users; 0: the disk
	Reserve    int64         // bytes of the disk that stay free, enough for logs, for the trash's records and for cleaning up: 256 MiB; negative: none
	Grace      time.Duration // how long chunks that no version has stay: a day
	MaxSize    int64         // bytes of one version; 0: no limit
	Now        func() time.Time
}

// atOnce is how many chunks are verified and stored at once, of all puts: enough that the store flushes many together.
const atOnce = 64

// Versions is the saves of all users.
type Versions struct {
	store  store.Store
	config Config
	slots  *semaphore.Weighted // one for each chunk that is being verified and stored
	total  atomic.Int64        // bytes of the users below
	held   atomic.Int64        // of them, those that are not stored yet

	parsing sync.Mutex // held by who parses a manifest

	mu    sync.Mutex
	users map[string]*User
}

// Open opens the versions of a store. It reads all of them where there is a quota in total, otherwise a user's when they
// are asked for first. With such a quota it fails when a user's can not be read: what all have together is not known then.
func Open(ctx context.Context, s store.Store, c Config) (*Versions, error) {
	c.Keep = cmp.Or(c.Keep, 10)
	c.KeepFor = cmp.Or(c.KeepFor, 7*24*time.Hour)
	c.Reserve = cmp.Or(c.Reserve, 256<<20)
	c.Grace = cmp.Or(c.Grace, 24*time.Hour)
	if c.Now == nil {
		c.Now = time.Now
	}
	v := &Versions{store: s, config: c, slots: semaphore.NewWeighted(atOnce), users: make(map[string]*User)}
	if c.TotalQuota > 0 {
		return v, v.each(ctx, "reading", func(u *User) error { return u.read(ctx) })
	}
	return v, nil
}

// User returns the saves of a user, who need not have any.
func (v *Versions) User(ctx context.Context, name string) (*User, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	u := v.user(name)
	return u, u.read(ctx)
}

func (v *Versions) user(name string) *User {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users[name] == nil {
		v.users[name] = &User{all: v, name: name, prefix: "users/" + escape(name) + "/",
			contents: make(map[manifest.Digest]*content), objects: make(map[manifest.Chunk]*object)}
		v.users[name].stale.Store(true)
	}
	return v.users[name]
}

// each does something with all users who have something in the store, or are remembered to have, by name. It goes on with the next user
// when one fails, and with those who could be found when not all could.
func (v *Versions) each(ctx context.Context, doing string, fn func(u *User) error) (failed error) {
	last := ""
	for o, err := range v.store.List(ctx, "users") {
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		element, _, _ := strings.Cut(strings.TrimPrefix(o.Key, "users/"), "/")
		if element == last {
			continue
		}
		last = element
		if name, ok := unescape(element); ok {
			v.user(name)
		}
	}
	v.mu.Lock()
	users := slices.SortedFunc(maps.Values(v.users), func(a, b *User) int { return strings.Compare(a.name, b.name) })
	v.mu.Unlock()
	for _, u := range users {
		if err := fn(u); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s the saves of %s: %w", doing, u.name, err))
		}
	}
	return failed
}

// inSlot runs fn as one of so many that use the processors and the disk at once.
func (v *Versions) inSlot(ctx context.Context, fn func() error) error {
	if v.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer v.slots.Release(1)
	return fn()
}

// room returns how many more bytes the disk has room for, beside the reserve and what is being stored.
func (v *Versions) room(ctx context.Context) (bytes int64, err error) {
	held := v.held.Load()
	free, err := v.store.Room(ctx)
	return free - max(0, v.config.Reserve) - held, err
}

// parse returns what a manifest says of a version, and its chunks. It does so for one at a time: of many small entries a manifest takes 25
// times its bytes.
func (v *Versions) parse(b []byte, most int64) (Version, []manifest.Chunk, error) {
	v.parsing.Lock()
	defer v.parsing.Unlock()
	m, err := manifest.Parse(b, most)
	if err != nil {
		return Version{}, nil, err
	}
	files, bytes := m.Count()
	return Version{Kind: Stored, Content: manifest.Sum(b), Size: bytes, Files: files}, m.Chunks(), nil
}
