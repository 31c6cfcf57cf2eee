package store

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
)

// List implements [Store].
func (f *Folder) List(ctx context.Context, dir string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := CheckKey(dir); dir != "" && err != nil {
			yield(Object{}, err)
			return
		}
		f.list(ctx, dir, yield)
	}
}

// list is List, also of a folder that others made. It reports whether to go on.
func (f *Folder) list(ctx context.Context, dir string, yield func(Object, error) bool) bool {
	err := f.check(ctx)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = f.files.ReadDir(path.Join(objectsFolder, dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // that one has become empty
		return yield(Object{}, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if !f.list(ctx, name, yield) {
				return false
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		o := Object{Key: name}
		if err == nil {
			o.Size, o.Time = info.Size(), info.ModTime()
		}
		if !yield(o, err) {
			return false
		}
	}
	return true
}
