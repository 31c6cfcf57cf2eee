package versions

import (
	"context"
	"errors"
	"fmt"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// Content is a version that is being read. As long as it is open nothing of it is deleted, whatever becomes of the version.
type Content struct {
	Version  Version
	Manifest []byte // its bytes
	user     *User
	content  *content
}

// Open opens a version of a save; number 0 is the newest. It fails with ErrNoSave, ErrNoVersion, ErrTrash or ErrDamaged.
func (u *User) Open(ctx context.Context, name string, number int) (*Content, error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.records.Unlock()
	v, err := u.find(name, number)
	if err != nil {
		return nil, err
	}
	chunks, b, err := u.manifest(ctx, v.Content)
	if err != nil {
		return nil, fmt.Errorf("version %d of %q: %w", v.Number, v.Name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.know(v.Content, chunks)
	c.running.Add(1)
	return &Content{v, b, u, c}, nil
}

// Chunks returns how many chunks it has.
func (c *Content) Chunks() int { return len(c.content.chunks) }

// Chunk returns a chunk, packed, by its index among [manifest.Manifest.Chunks]. It fails with ErrDamaged when the store has
// lost or damaged it: the next put of the same content brings it back then. Any number may run at once.
func (c *Content) Chunk(ctx context.Context, index int) (packed []byte, err error) {
	if index < 0 || index >= len(c.content.chunks) {
		return nil, fmt.Errorf("%w %d: the manifest has it not", manifest.ErrChunk, index)
	}
	if packed, err = c.user.fetch(ctx, c.content.chunks[index].id); errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; put the same content again to mend it", err)
	}
	return packed, err
}

// Close ends the reading. It is called once.
func (c *Content) Close() { c.content.running.Add(-1) }
