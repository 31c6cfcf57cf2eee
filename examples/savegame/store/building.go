package store

import (
	"archive/zip"
	"bytes"
	"errors"
	"path"
)

// A building is a file of objects of one folder that is being written. It gets its final name when
// its bytes are durable.
type building struct {
	files   Files
	waiting string // its temporary name

	turn  chan struct{} // a mutex: holds a token while an object is added
	first string        // the key of the first object; "" = none yet
	alone []byte        // the first object until there is a second one; a single object is written as it is
	err   error         // the first error, which is the result for all its objects

	file    File        // nil = nothing was written
	archive *zip.Writer // nil if there are fewer than two objects
	size    int64       // bytes of the archive written so far
	objects map[string]span
}

// add adds an object. If lent is true, the caller doesn't change data until the file is finished,
// so it isn't copied.
func (b *building) add(key string, data []byte, lent bool) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.first == "" {
		b.first, b.alone = key, data
		if !lent {
			b.alone = bytes.Clone(data)
		}
		return
	}
	if b.archive == nil {
		b.pack(b.first, b.alone)
		b.alone = nil
	}
	b.pack(key, data)
}

// pack adds an object to the archive.
func (b *building) pack(key string, data []byte) {
	if b.archive == nil && b.create() {
		b.archive = zip.NewWriter(b)
	}
	if b.err != nil {
		return
	}
	body, err := b.archive.CreateHeader(&zip.FileHeader{Name: path.Base(key), Method: zip.Store})
	if err == nil {
		err = b.archive.Flush() // so that size is the offset of the object's bytes
	}
	at := b.size
	if err == nil {
		_, err = body.Write(data)
	}
	b.objects[path.Base(key)] = span{at, int64(len(data))}
	b.err = err
}

// create creates the file, and reports whether it succeeded.
func (b *building) create() bool {
	if b.err == nil {
		b.file, b.err = b.files.Create(b.waiting)
	}
	return b.err == nil
}

// Write implements io.Writer for the archive.
func (b *building) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.size += int64(n)
	return n, err
}

// finish writes the rest of the file, and makes its bytes durable.
func (b *building) finish() error {
	switch {
	case b.archive != nil && b.err == nil:
		b.err = b.archive.Close()
	case b.archive == nil && b.create():
		b.objects[path.Base(b.first)] = span{0, int64(len(b.alone))}
		_, b.err = b.file.Write(b.alone)
	}
	if b.err == nil {
		b.err = b.file.Sync()
	}
	if b.file != nil {
		b.err = errors.Join(b.err, b.file.Close())
	}
	b.alone, b.archive = nil, nil
	return b.err
}
