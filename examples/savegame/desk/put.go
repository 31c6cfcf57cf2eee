package desk

import (
	"cmp"
	"context"
	"errors"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

// Stored is what a put or a restore has made.
type Stored struct {
	made
	Chunks int   // of the manifest that was put
	Sent   int   // chunks that the server lacked
	Bytes  int64 // of those, packed
}

// Put makes a version of what src holds, which r need not say, and returns when it is durable. It fails with what wraps
// [tree.ErrChanged] when a file is written to meanwhile, and with a [*Refusal], as of [versions.ErrConflict].
func (c *Client) Put(ctx context.Context, src *tree.Source, r versions.Request) (Stored, error) {
	b, n := src.Manifest.Append(nil), c.next()
	r.Content = manifest.Sum(b)
	p := &putting{Client: c, label: "put " + r.Name, source: src, chunks: src.Manifest.Chunks()}
	m, err := askAndTalk(ctx, c, askPut, n, putArgs{n, r}, func(t *talk) error { return p.send(t, b) })
	if errors.Is(err, manifest.ErrChunk) {
		err = cmp.Or(p.changed(ctx), err)
	}
	return Stored{m, len(p.chunks), len(p.lacks), p.packed}, err
}

// putting is a put at its client.
type putting struct {
	*Client
	label  string
	source *tree.Source
	chunks []manifest.Chunk
	lacks  []int
	moved  func(bytes int)
	packed int64 // bytes that were sent
	buffer []byte
}

// send sends the manifest, and what the server lacks.
func (p *putting) send(t *talk, manifest []byte) (err error) {
	if p.lacks, err = t.offer(manifest, len(p.chunks)); err != nil {
		return err
	}
	moved, stop := p.watch(p.label, p.chunks, p.lacks)
	defer stop()
	p.moved = moved
	return t.sayChunks(p.lacks, p.pack)
}

func (p *putting) pack(frame []byte, index int) ([]byte, error) {
	c, before := p.chunks[index], len(frame)
	data, err := p.source.Unverified(p.buffer, c) // the server verifies it
	if err != nil {
		return nil, err
	}
	frame = manifest.Pack(frame, data)
	p.buffer = data
	p.packed += int64(len(frame) - before)
	p.moved(len(data))
	return frame, nil
}

// changed says which file was written to since it was scanned, if one was: the server was sent a chunk that is another one.
func (p *putting) changed(ctx context.Context) (err error) {
	for _, i := range p.lacks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.buffer, err = p.source.Chunk(p.buffer, p.chunks[i]); err != nil {
			return err
		}
	}
	return nil
}
