package tree

import (
	"encoding/gob"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

const (
	// maxCache bounds a cache file, and so the memory to read it: 128 MiB remember a quarter of a terabyte.
	maxCache = 128 << 20
	// maxRemembered bounds the chunks in a cache, at some 60 bytes each.
	maxRemembered = 2 << 20
	// clockGrain is the coarsest grain of a file's time, that of FAT. What was written so shortly before it was scanned may
	// be written again without a new time.
	clockGrain = 2 * time.Second
)

// cache is what files held, by their absolute paths. It is a hint: a file that is damaged or too large counts as none.
type cache map[string]remembered

// remembered is what a file held when it had that size, time and inode.
type remembered struct {
	Size, Time int64
	Inode      uint64
	Chunks     []manifest.Chunk
}

func readCache(path string) (c cache) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if gob.NewDecoder(io.LimitReader(f, maxCache)).Decode(&c) != nil {
		return nil
	}
	return c
}

// find returns the chunks of a file that has not changed.
func (c cache) find(at located, info fs.FileInfo) ([]manifest.Chunk, bool) {
	r, ok := c[at.String()]
	if !ok || r.Size != info.Size() || r.Time != info.ModTime().UnixNano() || r.Inode != inode(info) {
		return nil, false
	}
	return r.Chunks, true
}

// writeCache adds to the cache what was scanned, or makes a new one of that when it becomes too large.
func (s *scan) writeCache() error {
	if s.Cache == "" {
		return nil
	}
	chunks := 0
	for _, r := range s.cached {
		chunks += 1 + len(r.Chunks)
	}
	if chunks > maxRemembered || s.cached == nil {
		s.cached = make(cache)
	}
	maps.Copy(s.cached, s.fresh)
	f, err := os.CreateTemp(filepath.Dir(s.Cache), filepath.Base(s.Cache)+"-*")
	if err != nil {
		return err
	}
	err = errors.Join(gob.NewEncoder(f).Encode(s.cached), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.Cache)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
