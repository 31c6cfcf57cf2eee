package store

import (
	"archive/zip"
	"bytes"
	"errors"
	"path"
)

// A building is a file of objects of one folder that waits until its bytes are
// durable, and then gets its name.
type building struct {
	files   Files
	waiting string // its name until then

	turn  chan struct{} // holds a token while an object is added
	first string        // the key of the first object; "" = there is none yet
	alone []byte        // the first object, until others follow: an object that remains alone is written as it is
	err   error         // the first error; in the end that of all its objects

	file    File        // nil = nothing was written
	archive *zip.Writer // nil = it has one object at most
	size    int64       // bytes that were written of the archive
	objects map[string]span
}

// add adds an object. If lent is true, the caller does not change data until
// the file is finished, so it is not copied.
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
		err = b.archive.Flush() // so that the object's bytes begin where the archive ends now
	}
	at := b.size
	if err == nil {
		_, err = body.Write(data)
	}
	b.objects[path.Base(key)] = span{at, int64(len(data))}
	b.err = err
}

// create creates the file, and reports whether that has succeeded.
func (b *building) create() bool {
	if b.err == nil {
		b.file, b.err = b.files.Create(b.waiting)
	}
	return b.err == nil
}

// Write writes what the archive produces to the file.
func (b *building) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.size += int64(n)
	return n, err
}

// finish writes what is left, and makes the bytes durable.
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
