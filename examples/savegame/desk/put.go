package desk

import (
	"bytes"
	"context"
	"errors"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

// PutOptions say what becomes of a put.
type PutOptions struct {
	Name, Machine string
	Seen          versions.Ref // the version that the machine saw last
	Mode          versions.Mode
}

// Stored is what a put has made.
type Stored struct {
	Version versions.Version
	Chunks  int   // of the manifest
	Sent    int   // chunks that the server lacked
	Bytes   int64 // of those, packed
}

// putting is a put at its client.
type putting struct {
	*Client
	number  number
	source  *tree.Source
	chunks  []manifest.Chunk
	lacks   []int
	options PutOptions
	bytes   []byte // the manifest
}

// Put makes a version of what src holds, and returns when it is durable. It fails with a [*versions.Conflict], with what
// wraps [tree.ErrChanged] when a file is written to meanwhile, and with a [*Refusal].
func (c *Client) Put(ctx context.Context, src *tree.Source, o PutOptions) (Stored, error) {
	p := &putting{Client: c, number: c.next(), source: src, chunks: src.Manifest.Chunks(), options: o, bytes: src.Manifest.Append(nil)}
	stored, err := p.run(ctx)
	if err != nil {
		c.drop(p.number)
	}
	if errors.Is(err, errConflict) {
		err = p.conflict(ctx, err)
	}
	return stored, err
}

func (p *putting) run(ctx context.Context) (Stored, error) {
	o := p.options
	_, err := ask(ctx, p.Client, askPut, putArgs{p.number, o.Name, o.Machine, o.Seen, o.Mode, manifest.Sum(p.bytes)})
	if err != nil {
		return Stored{}, err
	}
	if err := p.learn(ctx); err != nil {
		return Stored{}, err
	}
	progress := newProgress(p.chunks, p.lacks)
	v, err := p.ship(ctx, progress)
	return Stored{v, len(p.chunks), len(p.lacks), progress.packed.Load()}, err
}

// learn sends the manifest and learns what the server lacks.
func (p *putting) learn(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bitmap := p.inbox.expect(bitmaps, p.number)
	answer := asking(ctx, p.Client, askLacks, p.number)
	sent := manifests.Send(ctx, p.streams.Peer(p.conn), bytes.NewReader(p.bytes), int64(len(p.bytes)), stream.Name(p.number.String()))
	if err := inFull(answer, sent, stopped(sent), cancel); err != nil {
		return err
	}
	b, err := takeAll(ctx, p.conn, bitmap, int64(len(p.chunks)))
	if err == nil {
		p.lacks, err = fromBitmap(b, len(p.chunks))
	}
	return err
}

// ship sends what the server lacks, and has it make the version.
func (p *putting) ship(ctx context.Context, progress *progress) (v versions.Version, err error) {
	defer p.watch("put "+p.options.Name, progress)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := asking(ctx, p.Client, askCommit, p.number)
	s := shipment{p.number, p.lacks, func(buffer []byte, index int) ([]byte, error) { return p.pack(buffer, index, progress) }, p.config.Rate, &p.config.Trace}
	sent := s.send(ctx, p.streams.Peer(p.conn))
	if err = inFull(answer, sent, stopped(sent), cancel); err == nil {
		v, err = answer()
	}
	return v, err
}

func (p *putting) pack(buffer []byte, index int, progress *progress) ([]byte, error) {
	c := p.chunks[index]
	data, err := p.source.Chunk(nil, c)
	if err != nil {
		return buffer, err
	}
	buffer = manifest.Pack(buffer, data)
	progress.add(c, len(buffer))
	return buffer, nil
}

// inFull returns how a request ended whose stream ended with sent: where the other side stopped that, by what it answers.
func inFull[R any](answer func() (R, error), sent error, stopped bool, cancel func()) error {
	if sent != nil && !stopped {
		cancel() // the other side waits for the rest
	}
	if _, err := answer(); err != nil && (sent == nil || stopped) {
		return err
	}
	return sent
}

// stopped reports whether the other side has ended a stream, for which it gives a reason elsewhere.
func stopped(err error) bool {
	return errors.Is(err, stream.ErrRejected) || errors.Is(err, stream.ErrClosed) || errors.Is(err, stream.ErrTooLarge)
}

// conflict says with what: the newest version there.
func (p *putting) conflict(ctx context.Context, err error) error {
	history, failed := p.History(ctx, p.options.Name)
	if failed != nil || len(history) == 0 {
		return err
	}
	return &versions.Conflict{Latest: history[len(history)-1], Seen: p.options.Seen}
}
