package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
)

// Config holds the settings of an operator. A zero field means its default.
type Config struct {
	Keep       int           // versions of a save that are kept however old they are; 0 = 10
	KeepFor    time.Duration // how long all versions of a save are kept; 0 = a week
	Quota      int64         // bytes of the store that a user may fill; 0 = the disk
	TotalQuota int64         // bytes of the store that all users may fill; 0 = the disk
	// Reserve is how many bytes of the disk are kept free for logs, for records of the trash and
	// for deleting; 0 = 256 MiB, negative = none.
	Reserve int64
	Grace   time.Duration // how long chunks that no version has are kept; 0 = a day
	MaxSize int64         // maximum bytes of one version; 0 = no limit
	Now     func() time.Time
}

// validate returns an error if a field is negative that must not be. A negative KeepFor or Grace
// would delete what was just put, and a negative Quota would be no limit.
func (c *Config) validate() error {
	return cmp.Or(
		notNegative("Keep", c.Keep),
		notNegative("KeepFor", c.KeepFor),
		notNegative("Quota", c.Quota),
		notNegative("TotalQuota", c.TotalQuota),
		notNegative("Grace", c.Grace),
		notNegative("MaxSize", c.MaxSize),
	)
}

// notNegative returns an error if a field's value is negative.
func notNegative[T int | int64 | time.Duration](field string, value T) error {
	if value < 0 {
		return fmt.Errorf("versions: Config.%s is %v; it must not be negative", field, value)
	}
	return nil
}

// Versions holds the saves of all users.
type Versions struct {
	store  store.Store
	config Config
	total  atomic.Int64 // bytes used by all users
	held   atomic.Int64 // bytes of total that are reserved but not stored yet

	parsing sync.Mutex // held while a manifest is parsed

	mu    sync.Mutex
	users map[string]*User
}

// Open opens the versions in a store. Without a total quota, a user's versions are read when they
// are first needed. With a total quota, Open reads the versions of all users, and fails if those of
// one user can't be read, because it is then unknown how much all users have.
func Open(ctx context.Context, s store.Store, c Config) (*Versions, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Keep = cmp.Or(c.Keep, 10)
	c.KeepFor = cmp.Or(c.KeepFor, 7*24*time.Hour)
	c.Reserve = cmp.Or(c.Reserve, 256<<20)
	c.Grace = cmp.Or(c.Grace, 24*time.Hour)
	if c.Now == nil {
		c.Now = time.Now
	}
	v := &Versions{store: s, config: c, users: make(map[string]*User)}
	if c.TotalQuota > 0 {
		return v, v.each(ctx, "reading", func(u *User) error { return u.read(ctx) })
	}
	return v, nil
}

// User returns the saves of a user, who doesn't need to have any.
func (v *Versions) User(ctx context.Context, name string) (*User, error) {
	if err := users.CheckName(name); err != nil {
		return nil, err
	}
	u := v.user(name)
	return u, u.read(ctx)
}

// Check reads everything that users have, including chunks that no version has yet, because the
// next put may rely on them. If repair is true, it deletes objects that are damaged, so that a put
// of the same content brings them back, and permanently deletes versions whose records are damaged.
// While it reads a user's objects, that user's versions can be neither read nor made.
func (v *Versions) Check(ctx context.Context, repair bool) (r Report, err error) {
	err = v.each(ctx, "checking", func(u *User) error { return u.check(ctx, &r, repair) })
	for o := range v.store.List(ctx, "users") { // each reported the errors
		if store.IsPack(o.Key) {
			r.Findings = append(r.Findings, "damaged: "+o.Key+": its objects are missing; delete the file after putting their content again")
		}
	}
	slices.Sort(r.Findings)
	return r, err
}

func (v *Versions) user(name string) *User {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users[name] == nil {
		v.users[name] = &User{all: v, name: name, prefix: "users/" + escape(name) + "/",
			since: make(map[string]time.Time), contents: make(map[cdc.Digest]*content), objects: make(map[cdc.Chunk]*object)}
		v.users[name].stale.Store(true)
	}
	return v.users[name]
}

// each calls fn for each user who has something in the store, or had since the start, in the order
// of their names. It continues with the next user if one fails, and with the users found so far if
// the store can't list all of them.
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
	all := slices.SortedFunc(maps.Values(v.users), func(a, b *User) int { return strings.Compare(a.name, b.name) })
	v.mu.Unlock()
	for _, u := range all {
		if err := fn(u); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s the saves of %s: %w", doing, u.name, err))
		}
	}
	return failed
}

// Room returns how many more bytes fit on the disk, not counting the reserve and what is being
// stored.
func (v *Versions) Room(ctx context.Context) (bytes int64, err error) {
	held := v.held.Load()
	free, err := v.store.Room(ctx)
	return free - max(0, v.config.Reserve) - held, err
}

// Kind is what a version is.
type Kind string

// A version has content, or marks the save as being in the trash, or has a record that can't be
// read.
const (
	Stored  Kind = "put"
	Trash   Kind = "trash"
	Damaged Kind = "damaged"
)

// Version describes one version of a save. The limits in its tags are for the sender: names have up
// to [users.MaxName] bytes.
type Version struct {
	Name    string     `json:"name" quiver:"max=79"`
	Number  int        `json:"number"` // counts from 1; there may be gaps
	Kind    Kind       `json:"kind" quiver:"max=16"`
	Base    int        `json:"base"`    // the number that the machine saw last; 0 = none or, for Trash, not everything
	Content cdc.Digest `json:"content"` // digest of the manifest's bytes; zero for Trash
	Size    int64      `json:"size"`    // bytes of all files
	Files   int        `json:"files"`
	Time    time.Time  `json:"time"`
	Machine string     `json:"machine" quiver:"max=79"`
}

// Ref identifies a version to a machine that has seen it. It includes the content because numbers
// start over after Erase.
type Ref struct {
	Number  int
	Content cdc.Digest
}

// Ref returns the Ref of v.
func (v Version) Ref() Ref { return Ref{v.Number, v.Content} }

// has reports whether v holds that content.
func (v Version) has(content cdc.Digest) bool { return v.Kind == Stored && v.Content == content }

// Errors about saves and versions that can't be read.
var (
	ErrNoSave    = errors.New("no such save")
	ErrNoVersion = errors.New("no such version")
	ErrTrash     = errors.New("save is in the trash")
	ErrDamaged   = errors.New("damaged")
)

// ErrConflict matches every [*Conflict].
var ErrConflict = errors.New("conflict")

// Conflict means that a put would replace, or an erase would delete, a version that its machine has
// not seen.
type Conflict struct {
	Latest Version // the newest version that has content
	Seen   Ref
	Newest Version // the newest version of the save; if it is Trash, the save is in the trash
}

// Is makes [errors.Is] report that e is ErrConflict.
func (e *Conflict) Is(kind error) bool { return kind == ErrConflict }

func (e *Conflict) Error() string {
	if e.Latest.Kind == Damaged {
		return fmt.Sprintf("version %d of %q is damaged, so it is unknown what would be replaced", e.Latest.Number, e.Latest.Name)
	}
	text := fmt.Sprintf("version %d of %q, %s, put by %s on %s, ", e.Latest.Number, e.Latest.Name, SizeText(e.Latest.Size), e.Latest.Machine,
		e.Latest.Time.Format(timeText))
	switch {
	case e.Seen.Number == 0:
		text += "has not been seen here"
	case e.Seen.Number < e.Latest.Number:
		text += fmt.Sprintf("is newer than version %d, the last one seen here", e.Seen.Number)
	default: // that save was erased, or the version was made after the backup
		text += fmt.Sprintf("does not follow version %d, the last one seen here: the save was erased and begun again, or the server was restored from a backup", e.Seen.Number)
	}
	if e.Newest.Kind == Trash {
		text += fmt.Sprintf("; %s moved the save to the trash on %s", e.Newest.Machine, e.Newest.Time.Format(timeText))
	}
	return text
}

// timeText is the format of times in errors. It includes the zone because the client may be in a
// different one.
const timeText = "2006-01-02 15:04 MST"

// SizeText formats a number of bytes for people.
func SizeText(bytes int64) string { return humanize.Bytes(uint64(max(bytes, 0))) }

// A record is the encoding of a version.
type record struct {
	Version
	Sum string `json:"sum"` // digest of the record's bytes without this field
}

func (v Version) encode() []byte {
	r := record{Version: v}
	b, _ := json.Marshal(r) // can't fail, because there are only strings, numbers and a time
	r.Sum = cdc.Sum(b).String()
	b, _ = json.Marshal(r)
	return append(b, '\n')
}

// decode decodes the record b of the version with the given name and number. If b is not that
// record, it returns a version of kind Damaged.
func decode(name string, number int, b []byte) Version {
	var r record
	if err := json.Unmarshal(b, &r); err == nil && r.Name == name && r.Number == number && string(r.encode()) == string(b) {
		return r.Version
	}
	return Version{Name: name, Number: number, Kind: Damaged}
}

// maxMachine is how many bytes of the machine's name are used in the name of a save that KeepBoth
// makes.
const maxMachine = 20

// escaped matches the characters that escape writes as their bytes in hex.
var escaped = regexp.MustCompile(`[^a-z0-9._-]+`)

// escape returns a name as an element of a key that no file system confuses with another name or
// with a device.
func escape(name string) string {
	return "_" + escaped.ReplaceAllStringFunc(name, func(s string) string {
		return strings.ReplaceAll(fmt.Sprintf(" % x", s), " ", "=")
	})
}

// unescape returns the name for which escape returns element.
func unescape(element string) (name string, ok bool) {
	name, err := url.PathUnescape(strings.ReplaceAll(strings.TrimPrefix(element, "_"), "=", "%"))
	return name, err == nil && users.CheckName(name) == nil && escape(name) == element
}

// aside returns the beginning of the names of saves that KeepBoth makes for puts of name by a
// machine. See asideAt for the rest.
func aside(name, machine string) string {
	const rest = len(" (conflict  2006-01-02 15.04.05)")
	machine = cut(machine, maxMachine)
	return fmt.Sprintf("%s (conflict %s ", cut(name, users.MaxName-rest-len(machine)), machine)
}

// asideAt returns the name of the save that KeepBoth makes for a put of name by a machine at a
// time.
func asideAt(name, machine string, now time.Time) string {
	return aside(name, machine) + now.UTC().Format("2006-01-02 15.04.05") + ")"
}

// cut returns the beginning of a name: at most limit bytes, without a partial rune or trailing
// spaces.
func cut(name string, limit int) string {
	return strings.TrimRight(strings.ToValidUTF8(name[:min(len(name), limit)], ""), " ")
}
