package desk

import (
	"context"
	"fmt"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// Download is a version that is being fetched. The server keeps what it needs until it is closed.
type Download struct {
	Version  versions.Version
	Manifest *manifest.Manifest

	client *Client
	asking *asking[rpc.None]
}

// Get opens a version of a save; version 0 is the newest. It fails with a [*Refusal]. The caller closes the download, which ends with ctx.
func (c *Client) Get(ctx context.Context, name string, version int) (*Download, error) {
	n, slices := c.next(), c.config.Backend == stream.Slices{}
	d := &Download{client: c, asking: startAsking(ctx, c, askGet, n, getArgs{n, name, version, slices, c.config.Rate})}
	if err := d.open(d.asking.talk); err != nil {
		return nil, d.ended(err)
	}
	return d, nil
}

func (d *Download) open(t *talk) error {
	list, err := t.hearVersions()
	if err != nil {
		return err
	}
	b, err := t.hear(manifest.ErrManifest, maxManifest)
	if err != nil {
		return err
	}
	if len(list) != 1 || manifest.Sum(b) != list[0].Content {
		return fmt.Errorf("%w: the server sent another one", manifest.ErrManifest)
	}
	d.Version = list[0]
	d.Manifest, err = manifest.Parse(b, manifest.Limits{})
	return err
}

// Fetch fetches chunks, ascending indices of Manifest.Chunks(), and gives each to a function in this order, packed and not
// verified: who unpacks it does that. What it gets is valid until it returns, and its error ends the fetch. Fetch is called at most once.
func (d *Download) Fetch(ctx context.Context, lacks []int, each func(c manifest.Chunk, packed []byte) error) error {
	defer context.AfterFunc(ctx, func() { d.asking.cancel(context.Cause(ctx)) })()
	all, progress := d.Manifest.Chunks(), &progress{}
	progress.expect(all, lacks)
	defer d.client.watch("get "+d.Version.Name, progress)()
	t := d.asking.talk
	err := t.say(toBitmap(lacks))
	if err == nil {
		err = t.finish()
	}
	if err == nil {
		err = t.hearChunks(lacks, func(index int, packed *[]byte) error {
			defer buffers.Put(packed)
			progress.add(all[index], len(*packed))
			return each(all[index], *packed)
		})
	}
	return d.ended(err)
}

// ended returns why the get failed, or the talk that failed with err.
func (d *Download) ended(err error) error {
	_, err = d.asking.wait(err)
	return err
}

// Close gives the download up, if it has not ended.
func (d *Download) Close() { d.asking.cancel(errLeft) }
