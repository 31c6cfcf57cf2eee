package store

import (
	"archive/zip"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"syscall"
	"time"
)

// pack is a file of objects of one folder: one alone as it is, or several in a ZIP archive that is not compressed, so that other programs can
// read it.
type pack struct {
	name    string
	time    time.Time // when it was written
	objects []string  // the last elements of their keys, in order
}

// place is where an object is.
type place struct {
	pack         *pack
	offset, size int64
}

// places are the objects of a folder, by the last element of their keys.
type places map[string]place

// packName returns a name for a new pack of several objects of a folder.
func packName(folder string) string { return folder + "/+" + rand.Text() + ".zip" }

// isPack reports whether it is the name of a pack of several objects, or of one that is left, which no key has.
func isPack(name string) bool {
	return strings.HasPrefix(path.Base(name), "+") && strings.HasSuffix(name, ".zip")
}

// IsDamagedPack reports whether what List told under a key is no object, but a file that held several and that is damaged.
func IsDamagedPack(key string) bool { return isPack(key) }

// alone returns where the one object is that is the whole file.
func (p *pack) alone(size int64) places {
	name := path.Base(p.name)
	p.objects = []string{name}
	return places{name: {p, 0, size}}
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(b []byte) (n int, err error) {
	n, err = c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}

// write writes objects into a file for the pack, and returns where they are.
func (p *pack) write(to io.Writer, objects iter.Seq2[newObject, error]) (places, error) {
	out, all := &counted{Writer: to}, make(places)
	archive := zip.NewWriter(out)
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		name := path.Base(o.key)
		body, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			err = archive.Flush() // so that the body goes past the buffer, and that it is known where it begins
		}
		if err != nil {
			return nil, err
		}
		all[name] = place{p, out.n, int64(len(o.data))}
		p.objects = append(p.objects, name)
		if _, err = body.Write(o.data); err != nil {
			return nil, err
		}
	}
	return all, archive.Close()
}

// read adds to all what is in the pack of size bytes. Of one that is damaged it adds nothing: what was in it is missing.
func (p *pack) read(from io.ReaderAt, size int64, all places) error {
	archive, err := zip.NewReader(io.NewSectionReader(from, 0, size), size) // which knows no negative offsets
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		at, err := f.DataOffset()
		switch {
		case err != nil && unlessDamaged(err) != nil:
			return err
		case err == nil && goodElement.MatchString(f.Name) && whole(f, at, size):
			all[f.Name] = place{p, at, int64(f.UncompressedSize64)}
			p.objects = append(p.objects, f.Name)
		}
	}
	return nil
}

// whole reports whether an object is stored as it is, within a pack of size bytes. What a flipped bit says of its size is not believed.
func whole(f *zip.File, at, size int64) bool {
	return at <= size && f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 && f.UncompressedSize64 <= uint64(size-at)
}

// unlessDamaged returns err where a file can not be read for now, nil where it is no archive, or the disk has lost it.
func unlessDamaged(err error) error {
	if errors.As(err, new(*fs.PathError)) && !errors.Is(err, syscall.EIO) {
		return err
	}
	return nil
}
