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

// A catalog records which file has each object of a [Folder]. It is built when the store is opened,
// and changes whenever names of files do.
type catalog struct {
	files Files

	// names is held exclusively to change the names of files in objectsFolder, and shared to read
	// the files.
	names   sync.RWMutex
	folders map[string]map[string]*pack // for each folder, its objects by the last element of their keys
}

// found records the objects in a file that existed when the store was opened. That is a pack or a
// single object, which may also be somebody else's file or a damaged pack. The objects of a damaged
// pack are missing.
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

// get reads an object. If somebody else removed its file, get records that all objects of that file
// are missing, so that they can be put again.
func (c *catalog) get(key string) ([]byte, error) {
	data, in, err := c.read(key)
	if in != nil && errors.Is(err, fs.ErrNotExist) {
		c.names.Lock()
		defer c.names.Unlock()
		c.forget(in)
	}
	return data, err
}

// read reads an object, and returns the file that contains it, or nil if no file does.
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

// packOf returns the file that contains an object, or nil. The caller holds names, exclusively or
// shared.
func (c *catalog) packOf(key string) *pack {
	return c.folders[path.Dir(fileOf(key))][path.Base(key)]
}

// objects returns the objects in a folder and its subfolders, sorted by key.
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

// ignoreNotExist returns err, or nil if err means that something doesn't exist.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
