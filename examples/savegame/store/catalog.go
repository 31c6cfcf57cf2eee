package store

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
)

// catalog knows where the objects of a [Folder] are: each in a file of its own, or with others in a pack.
type catalog struct {
	files Files

	// names is held by who changes names of files among the objects, and shared by who reads what has one.
	names  sync.RWMutex
	packed map[string]places // by folder, of those that somebody has looked at
}

// get reads an object.
func (c *catalog) get(key string) ([]byte, error) {
	if err := c.look(path.Dir(fileOf(key))); err != nil {
		return nil, err
	}
	data, at, err := c.getNamed(key)
	if at.pack != nil && errors.Is(err, fs.ErrNotExist) {
		c.lost(at.pack)
	}
	return data, err
}

// getNamed is get where somebody has looked, and says where the object is, or was, if that is in a pack.
func (c *catalog) getNamed(key string) (data []byte, at place, err error) {
	c.names.RLock()
	defer c.names.RUnlock()
	at, packed := c.place(key)
	if packed {
		data, err = c.read(at.pack.name, at.offset, at.size)
	} else {
		data, err = c.read(fileOf(key), 0, math.MaxInt64)
	}
	return data, at, err
}

// lost notes that somebody else has removed a pack: what it held is missing, and may be put again.
func (c *catalog) lost(p *pack) {
	c.names.Lock()
	defer c.names.Unlock()
	maps.DeleteFunc(c.packed[path.Dir(p.name)], func(_ string, at place) bool { return at.pack == p })
}

// place returns where an object is, if it is in a pack. The caller shares names, and has looked.
func (c *catalog) place(key string) (at place, packed bool) {
	at, packed = c.packed[path.Dir(fileOf(key))][path.Base(key)]
	return at, packed
}

// read reads from an offset on as many bytes as the file has, and no more than most.
func (c *catalog) read(name string, offset, most int64) ([]byte, error) {
	file, err := c.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(most, max(0, info.Size()-offset)))
	_, err = io.ReadFull(io.NewSectionReader(file, offset, most), data)
	return data, err
}

// look finds out what the packs of a folder hold, unless that is known.
func (c *catalog) look(folder string) error {
	c.names.RLock()
	_, known := c.packed[folder]
	c.names.RUnlock()
	if known {
		return nil
	}
	c.names.Lock()
	defer c.names.Unlock()
	entries, err := c.files.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := make(places)
	for _, e := range entries {
		if err == nil && isPack(e.Name()) {
			err = c.lookInto(&pack{name: path.Join(folder, e.Name())}, all)
		}
	}
	if err == nil {
		c.packed[folder] = all
	}
	return err
}

func (c *catalog) lookInto(p *pack, all places) error {
	file, err := c.files.Open(p.name)
	if err != nil {
		return err
	}
	return errors.Join(p.read(file, all), file.Close())
}

// find returns where an object is, if it is in a pack.
func (c *catalog) find(key string) (at place, packed bool, err error) {
	if err := c.look(path.Dir(fileOf(key))); err != nil {
		return at, false, err
	}
	c.names.RLock()
	defer c.names.RUnlock()
	at, packed = c.place(key)
	return at, packed, nil
}

// entries returns what a folder has, by name. A pack that can not be read is somebody else's file.
func (c *catalog) entries(dir string) (entries []entry, err error) {
	folder := path.Join(objectsFolder, dir)
	if err := c.look(folder); err != nil {
		return nil, err
	}
	files, err := c.files.ReadDir(folder)
	c.names.RLock()
	defer c.names.RUnlock()
	others := make(map[string]entry) // than packs, in which what c knows of is
	for _, file := range files {
		others[file.Name()] = entry{Object{Key: path.Join(dir, file.Name())}, file}
	}
	packs := make(map[*pack]bool) // whether each is there
	for name, at := range c.packed[folder] {
		base := path.Base(at.pack.name)
		if _, found := others[base]; found {
			packs[at.pack] = true
			delete(others, base)
		}
		if packs[at.pack] {
			entries = append(entries, entry{Object: Object{path.Join(dir, name), at.size, at.pack.time}})
		}
	}
	entries = slices.AppendSeq(entries, maps.Values(others))
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	return entries, missing(err) // one that is missing has become empty
}

// missing returns err, or nil where something is missing.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remember notes where the objects of a new pack are, and that others are gone. The caller holds names.
func (c *catalog) remember(p *pack, gone []string, all places) {
	if info, err := c.files.Stat(p.name); err == nil && p.time.IsZero() {
		p.time = info.ModTime()
	}
	folder := path.Dir(p.name)
	if c.packed[folder] == nil { // it was not there when somebody looked
		c.packed[folder] = make(places)
	}
	c.forget(folder, gone)
	maps.Copy(c.packed[folder], all)
}

// forget notes that objects are in no pack any more. The caller holds names.
func (c *catalog) forget(folder string, gone []string) {
	for _, name := range gone {
		delete(c.packed[folder], name)
	}
}

// entry is an object or a folder that is listed.
type entry struct {
	Object
	file fs.DirEntry // nil: it is in a pack, and Object is complete
}

func (e entry) isDir() bool { return e.file != nil && e.file.IsDir() }

func (e entry) object() (Object, error) {
	if e.file == nil || e.file.IsDir() {
		return e.Object, nil
	}
	info, err := e.file.Info()
	if err == nil {
		e.Size, e.Time = info.Size(), info.ModTime()
	}
	return e.Object, err
}
