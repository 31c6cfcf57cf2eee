package desk

import (
	"context"
	"fmt"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

// Download is a version that is being fetched. The server keeps what it needs meanwhile.
type Download struct {
	Version  versions.Version
	Manifest *manifest.Manifest

	client *Client
	talk   *talk
	asked  bool // for chunks
}

// Get opens a version of a save for use, and closes it when that returns; version 0 is the newest. It fails with a [*Refusal], and as use
// does.
func (c *Client) Get(ctx context.Context, name string, version int, use func(d *Download) error) error {
	n, slices := c.next(), c.config.Backend == stream.Slices{}
	used := false
	_, err := askAndTalk(ctx, c, askGet, n, getArgs{n, name, version, slices, c.config.Rate}, func(t *talk) error {
		d := &Download{client: c, talk: t}
		err := d.open()
		if err == nil {
			err = use(d)
		}
		if used = err == nil; used && !d.asked {
			return d.Fetch(nil, nil)
		}
		return err
	})
	if used {
		return nil // whatever becomes of the connection then
	}
	return err
}

func (d *Download) open() error {
	v, err := d.talk.hearVersion()
	if err != nil {
		return err
	}
	b, err := d.talk.hear(manifest.ErrManifest, maxManifest)
	if err != nil {
		return err
	}
	if manifest.Sum(b) != v.Content {
		return fmt.Errorf("%w: the server sent another one", manifest.ErrManifest)
	}
	d.Version = v
	d.Manifest, err = manifest.Parse(b, 0)
	return err
}

// Fetch fetches chunks, ascending indices of Manifest.Chunks(), and gives each to a function in this order, packed and not
// verified: who unpacks it does that. What it gets is valid until it returns, and its error ends the fetch. Fetch is called at most once.
func (d *Download) Fetch(lacks []int, each func(c manifest.Chunk, packed []byte) error) error {
	d.asked = true
	all := d.Manifest.Chunks()
	moved, stop := d.client.watch("get "+d.Version.Name, all, lacks)
	defer stop()
	return d.talk.fetch(lacks, func(index int, packed *[]byte) error {
		defer d.talk.giveBuffer(packed)
		moved(int(all[index].Size))
		return each(all[index], *packed)
	})
}
