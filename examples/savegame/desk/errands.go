package desk

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// storers is how many chunks of one put are verified and stored at once, while one more comes in: 6.5 MiB of them at most, and enough
// that a disk flushes some together, and that a store which takes 0.1 s for each keeps up with 100 Mbit/s.
const storers = 12

// put makes a version of what the client sends.
func (k *clerk) put(ctx context.Context, u *versions.User, a putArgs) (made, error) {
	p, err := u.Begin(ctx, a.Request)
	if err != nil {
		return made{}, err
	}
	defer p.Abandon()
	if err := k.receive(ctx, a.Number, p); err != nil {
		return made{}, err
	}
	v, err := p.Commit(ctx)
	return k.made("put", u, a.Request.Name, v, err)
}

// receive hears the manifest, says which chunks are missing, and stores them.
func (k *clerk) receive(ctx context.Context, n number, p *versions.Put) error {
	t := k.talk(ctx, n, 0)
	t.share = k.server.chunks.share(k.user)
	size, err := t.next(manifest.ErrManifest, maxManifest)
	if err != nil {
		return err
	}
	if err := k.server.memory.take(k.user, int64(size)); err != nil {
		return err
	}
	defer k.server.memory.give(k.user, int64(size))
	b, err := t.read(size)
	if err != nil {
		return err
	}
	lacks, err := p.Lacks(ctx, b)
	if err != nil {
		return err
	}
	if err := t.say(toBitmap(lacks)); err != nil {
		return err
	}
	if err := t.finish(); err != nil {
		return err
	}
	storing, ctx := errgroup.WithContext(ctx)
	storing.SetLimit(storers)
	err = t.hearChunks(lacks, func(index int, packed *[]byte) error {
		storing.Go(func() error {
			defer t.giveBuffer(packed)
			return p.Chunk(ctx, index, *packed)
		})
		return context.Cause(ctx)
	})
	return cmp.Or(storing.Wait(), err)
}

// get says a version, its manifest, and the chunks of it that the client wants.
func (k *clerk) get(ctx context.Context, u *versions.User, a getArgs) (none rpc.None, err error) {
	c, err := u.Open(ctx, a.Name, a.Version)
	if err != nil {
		return none, err
	}
	defer c.Close()
	size := int64(len(c.Manifest))
	if err := k.server.memory.take(k.user, size); err != nil {
		return none, err
	}
	defer k.server.memory.give(k.user, size)
	t := k.talk(ctx, a.Number, a.Rate)
	t.share = k.server.chunks.share(k.user)
	if a.Slices {
		t.opts = append(t.opts, stream.Via(stream.Slices{}))
	}
	if err := t.say(textOf(c.Version)); err != nil {
		return none, err
	}
	if err := t.say(c.Manifest); err != nil {
		return none, err
	}
	return none, k.give(t, c)
}

func (k *clerk) give(t *talk, c *versions.Content) error {
	indices, err := t.hearBitmap(c.Chunks())
	if err != nil {
		return err
	}
	err = t.sayChunks(indices, func(buffer []byte, index int) ([]byte, error) {
		packed, err := c.Chunk(t.ctx, index)
		return append(buffer, packed...), err
	})
	_, err = k.did("got", c.Version, err)
	return err
}
