package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// Mode selects what a put does if it would replace a version that its machine has not seen.
type Mode int

const (
	Refuse   Mode = iota // the put fails with a [*Conflict]; unknown modes do the same
	Force                // the put becomes the newest version
	KeepBoth             // the put becomes a separate save: NAME (conflict MACHINE DATE)
)

// Request describes a put.
type Request struct {
	Name    string
	Machine string
	Seen    Ref        // the version that the machine saw last; zero = none
	Content cdc.Digest // digest of the encoded manifest that follows
	Mode    Mode
}

// Outcome is what a put or a restore did.
type Outcome string

const (
	Added     Outcome = "added"     // it made a version
	Undeleted Outcome = "undeleted" // it made a version of a save that was in the trash
	Unchanged Outcome = "unchanged" // it made none, because the newest version already has the content
	Mended    Outcome = "mended"    // it made none, but replaced what the newest version had lost
)

// ErrLacks means that chunks are missing.
var ErrLacks = errors.New("chunks are missing")

// recordBytes is the room that the record of a version takes. Names are so short that it fits into
// a block.
var recordBytes = store.Occupied(1)

// Put is a version that is being made. Nothing that it refers to is deleted until it ends.
type Put struct {
	user    *User
	request Request
	bytes   []byte // bytes of the manifest
	version Version
	content *content    // nil before Lacks
	named   int         // manifests and chunks recorded for it, whether they arrived or not
	mends   bool        // the newest version has the same content, but some of it is missing; set by Lacks
	full    atomic.Bool // there was no room for it
	ended   atomic.Bool
}

// Begin begins a put. The caller must end it with Abandon. Begin fails with [*Conflict] if the put
// isn't allowed.
func (u *User) Begin(ctx context.Context, r Request) (*Put, error) {
	if err := u.lock(ctx, r.Name, r.Machine); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	if _, _, err := u.place(r); err != nil {
		return nil, err
	}
	return &Put{user: u, request: r}, nil
}

// place returns the name of the save to which a put goes, and what the put does to it.
func (u *User) place(r Request) (name string, o Outcome, err error) {
	latest, o := u.newest(r.Name), Added
	if latest.Kind == Trash {
		latest, o = u.last(r.Name), Undeleted
	}
	switch {
	case o == Added && latest.has(r.Content):
		return r.Name, Unchanged, nil
	case latest.Number == 0, latest.has(r.Content), r.Mode == Force,
		latest.has(r.Seen.Content): // even if it was another version, as before a Restore
		return r.Name, o, nil
	case r.Mode == KeepBoth:
		name, o = u.aside(r)
		return name, o, nil
	}
	return "", "", u.conflict(latest, r.Seen)
}

// aside is like place for a put that KeepBoth moves to a separate save.
func (u *User) aside(r Request) (name string, o Outcome) {
	prefix := aside(r.Name, r.Machine)
	for _, name := range from(u.sorted, prefix) {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		if u.newest(name).has(r.Content) {
			return name, Unchanged // by an earlier put whose answer was lost
		}
	}
	now, step := u.all.config.Now(), time.Second
	for {
		if name = asideAt(r.Name, r.Machine, now); len(u.names[name]) == 0 {
			return name, Added
		}
		now = now.Add(step)
		step = min(2*step, time.Hour) // grows, so that few names are tried even if there are thousands
	}
}

// Lacks accepts the encoded manifest, which it keeps, and returns which of its chunks the user
// doesn't have, as indices into the result of [manifest.Manifest.Chunks]. It fails with [*Full] if
// they don't fit. It must be called once.
func (p *Put) Lacks(ctx context.Context, b []byte) (lacks []int, err error) {
	switch {
	case p.content != nil:
		return nil, errors.New("manifest already received")
	case cdc.Sum(b) != p.request.Content:
		return nil, fmt.Errorf("%w: digest differs from that of the request", manifest.ErrManifest)
	}
	u := p.user
	v, chunks, err := u.parse(b, u.all.config.MaxSize)
	if err != nil {
		return nil, err
	}
	if err := u.examine(ctx, append([]cdc.Chunk{{Digest: v.Content}}, chunks...)); err != nil {
		return nil, err
	}
	disk, err := u.all.Room(ctx)
	if err != nil {
		return nil, err
	}
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.know(v.Content, chunks)
	p.named = 1 + len(chunks)
	lacks, needs := c.lacks()
	if err := p.canFit(disk, needs+store.Occupied(int64(len(b)))+recordBytes); err != nil {
		return nil, err
	}
	if c.running.Add(1); !c.there {
		c.size = int64(len(b))
	}
	p.mends = u.newest(p.request.Name).has(v.Content) && (len(lacks) > 0 || !c.there)
	v.Base, v.Machine = p.request.Seen.Number, p.request.Machine
	p.bytes, p.content, p.version = b, c, v
	return lacks, nil
}

// canFit returns an error if needs more bytes don't fit even after deleting everything that may be
// deleted. It determines what may be deleted only if they don't fit beside everything that exists
// or will arrive, because a request of 150 bytes could otherwise cost 23 ms for a user with 500
// saves of 3,000 chunks. The caller holds the user's records and mu.
func (p *Put) canFit(disk, needs int64) error {
	u := p.user
	all := u.used.Load()
	for _, c := range u.contents {
		if c.running.Load() > 0 {
			_, coming := c.lacks()
			all += coming
		}
	}
	if u.over(disk, all, needs) == nil {
		return nil
	}
	return u.over(disk, u.kept(), needs)
}

// lacks returns which chunks do not exist, and the room that they need at most.
// The caller holds the user's mu.
func (c *content) lacks() (lacks []int, needs int64) {
	for i, chunk := range c.chunks {
		if !chunk.there {
			lacks = append(lacks, i)
			needs += store.Occupied(chunk.size)
		}
	}
	return lacks, needs
}

// Chunk takes a chunk, packed, and returns once it has read it. stored returns
// when the chunk is stored, and must be called once. Either fails with
// [cdc.ErrChunk] if it is not the chunk with that index, and with [*Full].
// Chunk is safe for concurrent use while neither Commit nor Abandon runs.
func (p *Put) Chunk(ctx context.Context, index int, packed []byte) (stored func() error, err error) {
	u := p.user
	if p.content == nil || index < 0 || index >= len(p.content.chunks) {
		return nil, fmt.Errorf("%w %d: not in the manifest", cdc.ErrChunk, index)
	}
	o := p.content.chunks[index]
	if u.has(o) {
		return done, nil
	}
	if err := cdc.Verify(packed, o.id); err != nil {
		return nil, err
	}
	return p.store(ctx, o, packed)
}

// store makes room for an object and begins to store it. Writing can't be canceled, because it
// would then be unknown whether the object exists.
func (p *Put) store(ctx context.Context, o *object, data []byte) (wait func() error, err error) {
	size := int64(len(data))
	if err := p.user.room(ctx, store.Occupied(size)); err != nil {
		return nil, p.fails(err)
	}
	written, err := p.user.write(context.WithoutCancel(ctx), o, data)
	if err != nil {
		return nil, p.wrote(o, size, err)
	}
	return func() error { return p.wrote(o, size, written()) }, nil
}

// wrote records the result of storing an object.
func (p *Put) wrote(o *object, size int64, err error) error {
	u := p.user
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hold(-store.Occupied(size))
	if err != nil {
		u.stale.Store(true)
		return p.fails(err)
	}
	if !o.there { // otherwise another put was faster
		u.stored(o, size, u.all.config.Now())
	}
	return nil
}

// fails returns the error that an object was not stored, and records if there was no room.
func (p *Put) fails(err error) error {
	if isFull(err) {
		p.full.Store(true) // stays true, whatever errors the chunks that this one cancels fail with
	}
	return fmt.Errorf("store content: %w", err)
}

// write begins to store an object. It replaces an existing object whose bytes don't match its key,
// because the disk damaged it. It doesn't replace one that can't be read at the moment, which may
// be good, and which versions may need.
func (u *User) write(ctx context.Context, o *object, data []byte) (wait func() error, err error) {
	if wait = done; o.id.Size > 0 {
		wait, err = u.all.store.Start(ctx, u.key(o.id), data)
	} else {
		err = u.all.store.Put(ctx, u.key(o.id), data) // a manifest, which may be large; Put doesn't copy it
	}
	if !errors.Is(err, fs.ErrExist) {
		return wait, err
	}
	u.replacing.Lock()
	defer u.replacing.Unlock()
	for errors.Is(err, fs.ErrExist) { // again if another put is faster
		if _, err = u.fetch(ctx, o.id); !errors.Is(err, ErrDamaged) {
			break
		}
		if err = u.all.store.Delete(ctx, u.key(o.id)); err == nil {
			err = u.all.store.Put(ctx, u.key(o.id), data)
		}
	}
	return done, err
}

// done waits for nothing. It stands for the wait of an object that is stored already.
func done() error { return nil }

// Commit makes the version, returns it when it is durable, and ends the put. If the newest version
// already has the content, Commit returns that version. It fails with [ErrLacks] if chunks are
// missing, and with [*Conflict] if another put was faster. After any other error, both Commit and
// Begin may be called again.
func (p *Put) Commit(ctx context.Context) (Version, Outcome, error) {
	u := p.user
	if p.content == nil || p.ended.Load() {
		return Version{}, "", fmt.Errorf("%w: put has no manifest, or has ended", ErrLacks)
	}
	u.mu.Lock()
	lacks, _ := p.content.lacks()
	u.mu.Unlock()
	if len(lacks) > 0 {
		return Version{}, "", fmt.Errorf("%w: %d of %d", ErrLacks, len(lacks), len(p.content.chunks))
	}
	if !u.has(p.content.object) {
		wait, err := p.store(ctx, p.content.object, p.bytes)
		if err == nil {
			err = wait()
		}
		if err != nil {
			return Version{}, "", err
		}
	}
	if err := u.lock(ctx); err != nil {
		return Version{}, "", err
	}
	defer u.records.Unlock()
	name, o, err := u.place(p.request)
	if p.version.Name = name; err == nil && o != Unchanged {
		_, err = u.createInRoom(ctx, p.version)
	}
	if err != nil {
		return Version{}, "", err
	}
	if p.end(); o == Unchanged && p.mends {
		o = Mended
	}
	return u.newest(name), o, nil
}

// Abandon ends the put, unless Commit already has. What arrived is kept for a while, unless the put
// failed for lack of room, because it would then take the room of puts that do fit.
func (p *Put) Abandon() {
	if !p.end() {
		return
	}
	u, ctx := p.user, context.Background()
	before := time.Unix(0, 0) // nothing was stored before 1970, so this forgets only what never arrived
	if p.full.Load() {
		before = ever
	}
	if p.named == 0 || u.lock(ctx) != nil {
		return
	}
	defer u.records.Unlock()
	if u.abandoned += p.named; p.full.Load() || u.abandoned > u.swept/sweepPart {
		_ = u.free(ctx, before, 0) // or Collect does
	}
}

// Abandoned puts make free look at all objects again when they have named 1/sweepPart as many
// manifests and chunks as it looked at the last time. If it looked after each put, a client that
// begins small puts and abandons them would make it look at all chunks of all versions each time.
const sweepPart = 8

// end ends the put, and reports whether it was still running.
func (p *Put) end() bool {
	if p.ended.Swap(true) {
		return false
	}
	if p.content != nil {
		p.content.running.Add(-1)
	}
	p.bytes = nil // Abandon may wait long for records, after its caller has stopped counting these bytes
	return true
}
