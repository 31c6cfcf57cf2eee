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

// A catalog records where the objects of a [Folder] are. It is read when the
// store is opened, and changes whenever names of files do.
type catalog struct {
	files Files

	// names is held exclusively to change names of files among the objects, and
	// shared to read what has one.
	names   sync.RWMutex
	folders map[string]map[string]*pack // for each folder its objects, by the last element of their keys
}

// found records what is in a file that existed before: the objects of a pack, or one object,
// which may be somebody else's or a damaged pack. What a damaged pack contained is missing.
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

// get reads an object. If somebody else has removed the file that it was in,
// all objects of that file are missing, and may be put again.
func (c *catalog) get(key string) ([]byte, error) {
	data, in, err := c.read(key)
	if in != nil && errors.Is(err, fs.ErrNotExist) {
		c.names.Lock()
		defer c.names.Unlock()
		c.forget(in)
	}
	return data, err
}

// read reads an object, and returns the file that it is in; nil = no file has the object.
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

// packOf returns the file that has an object, nil if none has. The caller holds or shares names.
func (c *catalog) packOf(key string) *pack {
	return c.folders[path.Dir(fileOf(key))][path.Base(key)]
}

// objects returns the objects of a folder and of the folders in it, by key.
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

// remember records the objects of a file. The caller holds names.
func (c *catalog) remember(p *pack) {
	folder := path.Dir(p.name)
	if c.folders[folder] == nil {
		c.folders[folder] = make(map[string]*pack)
	}
	for name := range p.objects {
		c.folders[folder][name] = p
	}
}

// forget removes the objects of a file. The caller holds names.
func (c *catalog) forget(p *pack) {
	all := c.folders[path.Dir(p.name)]
	for name := range p.objects {
		if all[name] == p {
			delete(all, name)
		}
	}
}

// missing returns err, or nil if err is that something does not exist.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
