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
	if err := CheckKey(dir); dir != "" && err != nil {
		return func(yield func(Object, error) bool) { yield(Object{}, err) }
	}
	return f.list(ctx, dir)
}

// list is List, also of a folder that others made.
func (f *Folder) list(ctx context.Context, dir string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		var entries []fs.DirEntry
		err := f.check(ctx)
		if err == nil {
			entries, err = f.files.ReadDir(path.Join(objectsFolder, dir))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // that one has become empty
			yield(Object{}, err)
		}
		for _, e := range entries {
			for o, err := range f.entry(ctx, path.Join(dir, e.Name()), e) {
				if !yield(o, err) || err != nil {
					return
				}
			}
		}
	}
}

// entry lists a folder's entry: the object that it is, or what is in it.
func (f *Folder) entry(ctx context.Context, name string, e fs.DirEntry) iter.Seq2[Object, error] {
	if e.IsDir() {
		return f.list(ctx, name)
	}
	return func(yield func(Object, error) bool) {
		switch info, err := e.Info(); {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case err != nil:
			yield(Object{}, err)
		default:
			yield(Object{Key: name, Size: info.Size(), Time: info.ModTime()}, nil)
		}
	}
}
