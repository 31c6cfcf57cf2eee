package desk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

// Download is a version that is being fetched. The server keeps what it needs until it is closed.
type Download struct {
	Version  versions.Version
	Manifest *manifest.Manifest

	client *Client
	number number
}

// Get opens a version of a save; version 0 is the newest. It fails with a [*Refusal]. The caller closes the download.
func (c *Client) Get(ctx context.Context, name string, version int) (*Download, error) {
	d := &Download{client: c, number: c.next()}
	if err := d.open(ctx, name, version); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Download) open(ctx context.Context, name string, version int) (err error) {
	c := d.client
	blobs := c.inbox.expect(manifests, d.number)
	slices := c.config.Backend == stream.Slices{}
	if d.Version, err = ask(ctx, c, askGet, getArgs{d.number, name, version, slices, c.config.Rate}); err != nil {
		return err
	}
	b, err := takeAll(ctx, c.conn, blobs, maxManifest)
	if err != nil {
		return err
	}
	if manifest.Sum(b) != d.Version.Content {
		return fmt.Errorf("%w: the server sent another one", manifest.ErrManifest)
	}
	d.Manifest, err = manifest.Parse(b, manifest.Limits{Bytes: math.MaxInt64})
	return err
}

// Fetch fetches chunks, ascending indices of Manifest.Chunks(), and gives each to a function in this order, packed and not
// verified: who unpacks it does that. It may keep what it gets, and its error ends the fetch. Fetch is called at most once.
func (d *Download) Fetch(ctx context.Context, lacks []int, each func(c manifest.Chunk, packed []byte) error) error {
	c, all := d.client, d.Manifest.Chunks()
	progress := newProgress(all, lacks)
	defer c.watch("get "+d.Version.Name, progress)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blobs := c.inbox.expect(chunks, d.number)
	answer := asking(ctx, c, askFetch, d.number)
	bitmap := toBitmap(lacks)
	err := bitmaps.Send(ctx, c.streams.Peer(c.conn), bytes.NewReader(bitmap), int64(len(bitmap)), stream.Name(d.number.String()))
	if err == nil {
		err = collect(ctx, c.conn, blobs, lacks, func(index int, packed []byte) error {
			progress.add(all[index], len(packed))
			return each(all[index], packed)
		})
	}
	if err == nil {
		c.config.Trace.received()
	}
	return inFull(answer, err, stopped(err) || errors.Is(err, stream.ErrCanceled) && ctx.Err() == nil, cancel)
}

// Close gives the download up, if it has not ended.
func (d *Download) Close() { d.client.drop(d.number) }
