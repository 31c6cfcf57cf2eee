package desk

import (
	"context"
	"encoding/json"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// storers is how many chunks of one put are verified and stored at once, while one more comes in: 6.5 MiB of them at most, and enough
// that a disk flushes some together, and that a store which takes 0.1 s for each keeps up with 100 Mbit/s.
const storers = 12

// put makes a version of what the client sends.
func (k *clerk) put(call *rpc.Call, a putArgs) (made, error) {
	return answer(k, askPut, call, func(ctx context.Context, u *versions.User) (made, error) {
		p, err := u.Begin(ctx, versions.Request{Name: a.Name, Machine: a.Machine, Seen: a.Seen, Content: a.Content, Mode: a.Mode})
		if err != nil {
			return made{}, err
		}
		defer p.Abandon()
		if err := k.receive(ctx, a.Number, p); err != nil {
			return made{}, err
		}
		v, err := p.Commit(ctx)
		return k.made("put", u, a.Name, v, err)
	})
}

// receive takes the manifest, says which chunks are missing, and stores them.
func (k *clerk) receive(ctx context.Context, n number, p *versions.Put) error {
	in, err := k.inbox.take(ctx, manifests, n)
	if err != nil {
		return err
	}
	if err := checkSize(in, maxManifest); err != nil {
		return err
	}
	if err := k.server.memory.take(k.user, in.Size()); err != nil {
		return err
	}
	defer k.server.memory.give(k.user, in.Size())
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	lacks, err := p.Lacks(ctx, b)
	if err != nil {
		return err
	}
	if err := sendBytes(ctx, k.peer(), bitmaps, n, toBitmap(lacks)); err != nil {
		return err
	}
	storing, ctx := errgroup.WithContext(ctx)
	storing.SetLimit(storers)
	err = k.inbox.takeChunks(ctx, n, lacks, func(index int, packed *[]byte) error {
		storing.Go(func() error {
			defer buffers.Put(packed)
			return p.Chunk(ctx, index, *packed)
		})
		return context.Cause(ctx)
	})
	if first := storing.Wait(); first != nil {
		return first
	}
	return err
}

// get sends a version, its manifest, and the chunks of it that the client wants.
func (k *clerk) get(call *rpc.Call, a getArgs) (rpc.None, error) {
	return answer(k, askGet, call, func(ctx context.Context, u *versions.User) (none rpc.None, err error) {
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
		b, err := json.Marshal([]versions.Version{c.Version})
		if err != nil {
			return none, err
		}
		if err := sendBytes(ctx, k.peer(), records, a.Number, b); err != nil {
			return none, err
		}
		if err := sendBytes(ctx, k.peer(), manifests, a.Number, c.Manifest); err != nil {
			return none, err
		}
		return none, k.give(ctx, a, c)
	})
}

func (k *clerk) give(ctx context.Context, a getArgs, c *versions.Content) error {
	bitmap, err := k.inbox.takeAll(ctx, bitmaps, a.Number, bitmapBytes(c.Chunks()))
	if err != nil {
		return err
	}
	indices, err := fromBitmap(bitmap, c.Chunks())
	if err != nil {
		return err
	}
	var opts []stream.Option
	if a.Slices {
		opts = append(opts, stream.Via(stream.Slices{}))
	}
	pack := func(buffer []byte, index int) ([]byte, error) {
		packed, err := c.Chunk(ctx, index)
		return append(buffer, packed...), err
	}
	err = sendChunks(ctx, k.peer(), a.Number, a.Rate, indices, pack, opts...)
	_, err = k.did("got", c.Version, err)
	return err
}
