package manifest_test

import (
	"fmt"
	"io/fs"
	"log"
	"strings"
	"testing/fstest"

	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// A folder becomes a manifest, which a peer parses to see what it lacks.
func Example() {
	folder := fstest.MapFS{
		"levels/1": {Data: []byte("a castle"), Mode: 0o644},
		"levels/2": {Data: []byte("a swamp"), Mode: 0o644},
		"player":   {Data: []byte("a knight"), Mode: 0o600},
	}
	m, err := scan(folder) // of a real folder: os.DirFS(path)
	if err != nil {
		log.Fatal(err)
	}
	b := m.Append(nil)

	// The peer, who trusts nobody, and takes a megabyte.
	has := map[cdc.Digest]bool{cdc.Sum([]byte("a castle")): true}
	parsed, err := manifest.Parse(b, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	for i, c := range parsed.Chunks() {
		if !has[c.Digest] {
			fmt.Println("lacks chunk", i, "of", c.Size, "bytes") // pieces.Talk.Fetch asks for i
		}
	}
	files, bytes := parsed.Count()
	fmt.Println(files, "files of", bytes, "bytes", parsed.Digest() == m.Digest())

	_, err = manifest.Parse([]byte(strings.Replace(string(b), "player", "../xyz", 1)), 1<<20)
	fmt.Println(err)
	// Output:
	// lacks chunk 1 of 7 bytes
	// lacks chunk 2 of 8 bytes
	// 3 files of 23 bytes true
	// bad manifest: entry 4, "../xyz": path is not a clean relative path with slashes
}

// scan walks a folder: in the order that a manifest has.
func scan(folder fs.FS) (*manifest.Manifest, error) {
	m := new(manifest.Manifest)
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := manifest.Entry{Path: path, Kind: manifest.Dir, Mode: info.Mode().Perm(), Time: info.ModTime().UnixNano()}
		if d.Type().IsRegular() {
			e.Kind = manifest.File
			err = cut(folder, &e)
		}
		m.Entries = append(m.Entries, e) // links and devices a real scan skips
		return err
	})
	if err == nil {
		err = m.Check(0)
	}
	return m, err
}

func cut(folder fs.FS, e *manifest.Entry) error {
	f, err := folder.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return cdc.Cut(f, func(c cdc.Chunk, _ []byte) error {
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Size)
		return nil
	})
}
