package versions_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// A desktop and a laptop put the same save.
func Example() {
	ctx := context.Background()
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	all, err := versions.Open(ctx, storetest.NewMemory(nil), versions.Config{Quota: 1 << 30, Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	alice, err := all.User(ctx, "alice")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := put(ctx, alice, versions.Request{Name: "World 1", Machine: "desktop"}, "a castle")
	fmt.Println(first.Number, err)

	_, err = put(ctx, alice, versions.Request{Name: "World 1", Machine: "laptop"}, "a village")
	var conflict *versions.Conflict
	fmt.Println(errors.As(err, &conflict))
	fmt.Println(err)

	second, err := put(ctx, alice, versions.Request{Name: "World 1", Machine: "laptop", Seen: conflict.Latest.Ref()}, "a village")
	fmt.Println(second.Number, err)

	c, err := alice.Open(ctx, "World 1", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	b, err := c.Manifest(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := manifest.Parse(b, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, chunk := range m.Chunks() {
		packed, _ := c.Chunk(ctx, i)
		data, err := cdc.Unpack(nil, packed, chunk)
		fmt.Printf("%s %v\n", data, err)
	}
	// Output:
	// 1 <nil>
	// true
	// version 1 of "World 1", 8 B, put by desktop on 2026-01-02 03:04 UTC, has not been seen here
	// 2 <nil>
	// a castle <nil>
}

// put puts a save of one file, which has one chunk.
func put(ctx context.Context, u *versions.User, r versions.Request, text string) (versions.Version, error) {
	chunk := cdc.Chunk{Digest: cdc.Sum([]byte(text)), Size: uint32(len(text))}
	m := manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.File, Size: int64(len(text)), Chunks: []cdc.Chunk{chunk}}}}
	r.Content = m.Digest()
	p, err := u.Begin(ctx, r)
	if err != nil {
		return versions.Version{}, err
	}
	defer p.Abandon()
	lacks, err := p.Lacks(ctx, m.Append(nil))
	if err != nil {
		return versions.Version{}, err
	}
	for _, i := range lacks {
		stored, err := p.Chunk(ctx, i, cdc.Pack(nil, []byte(text)))
		if err == nil {
			err = stored() // many at once where there are many
		}
		if err != nil {
			return versions.Version{}, err
		}
	}
	v, _, err := p.Commit(ctx)
	return v, err
}
