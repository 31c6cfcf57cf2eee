package store

import (
	"errors"
	"io"
	"io/fs"
	"maps"
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
	folders map[string]places
}

// found notes what is in a file: several objects, where it is a pack that is not damaged, or else one, which may be somebody else's.
func (c *catalog) found(name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	p := &pack{name: name, time: info.ModTime()}
	all := make(places)
	if isPack(name) {
		file, err := c.files.Open(name)
		if err == nil {
			err = errors.Join(p.read(file, info.Size(), all), file.Close())
		}
		if unlessDamaged(err) != nil {
			return err
		}
	}
	if len(all) == 0 {
		all = p.alone(info.Size())
	}
	c.remember(p, all)
	return nil
}

// get reads an object. What it was in may have been removed by somebody else: all of that is missing then, and may be put again.
func (c *catalog) get(key string) ([]byte, error) {
	data, at, err := c.read(key)
	if at.pack != nil && errors.Is(err, fs.ErrNotExist) {
		c.names.Lock()
		defer c.names.Unlock()
		c.forget(at.pack)
	}
	return data, err
}

// read reads of an object what its file has, and says where that is.
func (c *catalog) read(key string) (data []byte, at place, err error) {
	c.names.RLock()
	defer c.names.RUnlock()
	at, there := c.place(key)
	if !there {
		return nil, at, &fs.PathError{Op: "get", Path: key, Err: fs.ErrNotExist}
	}
	file, err := c.files.Open(at.pack.name)
	if err != nil {
		return nil, at, err
	}
	defer file.Close() // it was only read
	data = make([]byte, at.size)
	n, err := file.ReadAt(data, at.offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], at, err
}

// place returns where an object is. The caller holds or shares names.
func (c *catalog) place(key string) (at place, there bool) {
	at, there = c.folders[path.Dir(fileOf(key))][path.Base(key)]
	return at, there
}

// objects returns what is in a folder and in the folders in it, by key.
func (c *catalog) objects(in string) (list []Object) {
	c.names.RLock()
	defer c.names.RUnlock()
	for folder, all := range c.folders {
		if folder != in && !strings.HasPrefix(folder, in+"/") {
			continue
		}
		for name, at := range all {
			list = append(list, Object{keyOf(path.Join(folder, name)), at.size, at.pack.time})
		}
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// remember notes what is in a file. The caller holds names.
func (c *catalog) remember(p *pack, all places) {
	folder := path.Dir(p.name)
	if c.folders[folder] == nil {
		c.folders[folder] = make(places)
	}
	maps.Copy(c.folders[folder], all)
}

// forget notes that what was in a file is there no more. The caller holds names.
func (c *catalog) forget(p *pack) {
	all := c.folders[path.Dir(p.name)]
	for _, name := range p.objects {
		if all[name].pack == p {
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
