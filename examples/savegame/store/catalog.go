package store

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// catalog knows where the objects of a [Folder] are. It is read when the store is opened, and changes with the names of files.
type catalog struct {
	files Files

	// names is held by who changes names of files among the objects, and shared by who reads what has one.
	names   sync.RWMutex
	folders map[string]map[string]*pack // of each folder its objects, by the last element of their keys
}

// found notes what is in a file that was there before: the objects of a pack, or else one, which may be somebody else's or a damaged pack. What that
// had is missing.
func (c *catalog) found(name string) error {
	info, err := c.files.Stat(name)
	if err != nil {
		return err
	}
	p := &pack{name, info.ModTime(), make(map[string]span)}
	if IsPack(name) {
		var opened OpenFile
		if opened, err = c.files.Open(name); err == nil {
			err = errors.Join(p.read(opened, info.Size()), opened.Close())
		}
	}
	if len(p.objects) == 0 {
		p.objects[path.Base(name)] = span{0, info.Size()}
	}
	c.remember(p)
	return unlessDamaged(err)
}

// get reads an object. What it was in may have been removed by somebody else: all of that is missing then, and may be put again.
func (c *catalog) get(key string) ([]byte, error) {
	data, in, err := c.read(key)
	if in != nil && errors.Is(err, fs.ErrNotExist) {
		c.names.Lock()
		defer c.names.Unlock()
		c.forget(in)
	}
	return data, err
}

// read reads of an object what its file has, and says what that is; nil: no file has the object.
func (c *catalog) read(key string) (data []byte, in *pack, err error) {
	c.names.RLock()
	defer c.names.RUnlock()
	in = c.packOf(key)
	if in == nil {
		return nil, nil, &fs.PathError{Op: "get", Path: key, Err: fs.ErrNotExist}
	}
	file, err := c.files.Open(in.name)
	if err != nil {
		return nil, in, err
	}
	defer file.Close() // it was only read
	at := in.objects[path.Base(key)]
	data = make([]byte, at.size)
	n, err := file.ReadAt(data, at.offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], in, err
}

// packOf returns the file that has an object, nil where none has. The caller holds or shares names.
func (c *catalog) packOf(key string) *pack {
	return c.folders[path.Dir(fileOf(key))][path.Base(key)]
}

// objects returns what is in a folder and in the folders in it, by key.
func (c *catalog) objects(in string) (list []Object) {
	c.names.RLock()
	defer c.names.RUnlock()
	for folder, all := range c.folders {
		if folder != in && !strings.HasPrefix(folder, in+"/") {
			continue
		}
		for name, in := range all {
			list = append(list, Object{keyOf(path.Join(folder, name)), in.objects[name].size, in.time})
		}
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// remember notes what is in a file. The caller holds names.
func (c *catalog) remember(p *pack) {
	folder := path.Dir(p.name)
	if c.folders[folder] == nil {
		c.folders[folder] = make(map[string]*pack)
	}
	for name := range p.objects {
		c.folders[folder][name] = p
	}
}

// forget notes that what was in a file is there no more. The caller holds names.
func (c *catalog) forget(p *pack) {
	all := c.folders[path.Dir(p.name)]
	for name := range p.objects {
		if all[name] == p {
			delete(all, name)
		}
	}
}

// missing returns err, or nil where something is missing.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
