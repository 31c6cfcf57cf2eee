package tree_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/tree"
)

// A folder goes to a store, which here is a map, and from there to another
// place. Only those chunks move that the store, or that place, lacks.
func Example() {
	ctx, dir := context.Background(), mustTemp()
	defer os.RemoveAll(dir)
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	for _, p := range []string{here, there} {
		_ = os.Mkdir(p, 0o700)
		_ = os.WriteFile(filepath.Join(p, "level"), []byte("the same in both"), 0o600)
	}
	_ = os.WriteFile(filepath.Join(here, "player"), []byte("only here"), 0o600)

	store := make(map[cdc.Digest][]byte)
	m, err := put(ctx, here, store)
	if err != nil {
		log.Fatal(err)
	}
	if err := get(ctx, m, there, store); err != nil {
		log.Fatal(err)
	}
	player, err := os.ReadFile(filepath.Join(there, "player"))
	fmt.Println(string(player), err)
	// Output:
	// put 2 of 2 chunks
	// get 1 of 2 chunks
	// only here <nil>
}

// put returns the manifest's bytes.
func put(ctx context.Context, path string, store map[cdc.Digest][]byte) ([]byte, error) {
	source, err := tree.Scan(ctx, []string{path}, tree.ScanOptions{Exclude: []string{"*.tmp"}})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	chunks, sent, buffer := source.Manifest.Chunks(), 0, make([]byte, cdc.MaxChunk)
	for _, c := range chunks {
		if store[c.Digest] != nil {
			continue // a server says which it lacks
		}
		data, err := source.Chunk(buffer, c)
		if err != nil {
			return nil, err // tree.ErrChanged: the caller scans again
		}
		store[c.Digest] = cdc.Pack(nil, data)
		sent++
	}
	fmt.Println("put", sent, "of", len(chunks), "chunks")
	return source.Manifest.Append(nil), nil
}

func get(ctx context.Context, bytes []byte, target string, store map[cdc.Digest][]byte) error {
	m, err := manifest.Parse(bytes, 0)
	if err != nil {
		return err
	}
	local, err := tree.Scan(ctx, []string{target}, tree.ScanOptions{})
	if err != nil {
		local = nil // it is not there, or cannot be read: everything is fetched
	}
	restore, err := tree.NewRestore(ctx, m, target, tree.RestoreOptions{Local: local})
	if local != nil {
		_ = local.Close()
	}
	if err != nil {
		return err
	}
	defer restore.Close() // keeps what has arrived, unless it is committed
	chunks, lacks := m.Chunks(), restore.Lacks()
	for _, i := range lacks {
		if err := restore.Put(chunks[i], store[chunks[i].Digest]); err != nil {
			return err
		}
	}
	fmt.Println("get", len(lacks), "of", len(chunks), "chunks")
	return restore.Commit(ctx)
}

func mustTemp() string {
	dir, err := os.MkdirTemp("", "tree-")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}
