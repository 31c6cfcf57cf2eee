package stream

import (
	"bytes"
	"io/fs"
	"sync"
)

// memoryStore is a Store that lasts as long as its test. What disks do is tested in package disk.
type memoryStore struct {
	mu       sync.Mutex
	parts    map[storeKey]*memoryFile
	contents map[storeKey]*memoryFile
}

// memoryFile is a part, open or not, or a content.
type memoryFile struct {
	data   []byte
	open   bool
	digest Digest // of a content
}

func newMemoryStore() *memoryStore {
	return &memoryStore{parts: make(map[storeKey]*memoryFile), contents: make(map[storeKey]*memoryFile)}
}

// put stores a file under a key of the empty identity: as a content if it has a
// digest, else as a part.
func (s *memoryStore) put(key string, f memoryFile) {
	if f.digest.IsZero() {
		s.parts[storeKey{"", key}] = &f
	} else {
		s.contents[storeKey{"", key}] = &f
	}
}

func (s *memoryStore) Open(identity, key string, size int64) (Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := storeKey{identity, key}
	f := s.parts[k]
	switch {
	case f != nil && f.open:
		return nil, ErrPartBusy
	case f == nil, size >= 0 && int64(len(f.data)) > size:
		f = &memoryFile{}
	}
	f.open = true
	s.parts[k] = f
	return &memoryPart{store: s, key: k, file: f}, nil
}

func (s *memoryStore) Lookup(identity, key string) (Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.contents[storeKey{identity, key}]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return &memoryContent{bytes.NewReader(f.data), f}, nil
}

func (s *memoryStore) Remove(identity, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, storeKey{identity, key})
	delete(s.contents, storeKey{identity, key})
	return nil
}

type memoryContent struct {
	*bytes.Reader
	file *memoryFile
}

func (c *memoryContent) Close() error   { return nil }
func (c *memoryContent) Digest() Digest { return c.file.digest }

type memoryPart struct {
	store *memoryStore
	key   storeKey
	file  *memoryFile
	ended bool
}

func (p *memoryPart) Offset() int64 { return int64(len(p.file.data)) }

func (p *memoryPart) Write(b []byte) (int, error) {
	p.file.data = append(p.file.data, b...)
	return len(b), nil
}

func (p *memoryPart) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(p.file.data).ReadAt(b, off)
}

func (p *memoryPart) Commit(digest Digest) error {
	return p.end(func() {
		p.file.digest = digest
		delete(p.store.parts, p.key)
		p.store.contents[p.key] = p.file
	})
}

func (p *memoryPart) Close() error {
	if p.ended {
		return nil
	}
	return p.end(func() {})
}

func (p *memoryPart) Delete() error { return p.end(func() { delete(p.store.parts, p.key) }) }

func (p *memoryPart) end(how func()) error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if p.ended {
		return fs.ErrClosed
	}
	p.ended, p.file.open = true, false
	how()
	return nil
}
