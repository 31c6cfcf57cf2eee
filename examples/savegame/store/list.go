package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
)

// List implements [Store].
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		dir := prefix[:strings.LastIndex(prefix, "/")+1] // what it is in: nothing else need be looked at
		if err := CheckKey(strings.TrimSuffix(dir, "/")); err != nil && dir != "" {
			yield(Object{}, err)
			return
		}
		(&listing{f, ctx, prefix, yield}).folder(dir)
	}
}

type listing struct {
	*Folder
	ctx    context.Context
	prefix string
	yield  func(Object, error) bool
}

// folder lists what is in dir, which is empty or ends with a slash, and reports whether to go on.
func (l *listing) folder(dir string) bool {
	if err := l.check(l.ctx); err != nil {
		l.yield(Object{}, err)
		return false
	}
	entries, err := l.files.ReadDir(path.Join(objectsFolder, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return true // a folder that has become empty
	}
	if err != nil {
		l.yield(Object{}, err)
		return false
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		if name := dir + sortName(e); !strings.HasPrefix(name, l.prefix) && !strings.HasPrefix(l.prefix, name) {
			continue
		} else if !l.entry(name, e) {
			return false
		}
	}
	return true
}

// sortName is what an entry is sorted by: keys have a slash behind a folder's name.
func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (l *listing) entry(name string, e fs.DirEntry) bool {
	if e.IsDir() {
		return l.folder(name)
	}
	if !strings.HasPrefix(name, l.prefix) {
		return true
	}
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true // deleted meanwhile
	case err != nil:
		l.yield(Object{}, err)
		return false
	}
	return l.yield(Object{Key: name, Size: info.Size(), Time: info.ModTime()}, nil)
}
