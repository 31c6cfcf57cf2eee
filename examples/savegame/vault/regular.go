package vault

import (
	"errors"
	"io/fs"
	"os"
)

// errNotRegular means that a name is not a file's: a folder's, a pipe's, a device's, or where none is expected, a link's.
var errNotRegular = errors.New("it is not a regular file")

var errFolder = errors.New("it is a folder, not a regular file")

// openRegular opens a regular file for reading, and follows links. It does not wait for the writer of a pipe.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errFolder
	case !info.Mode().IsRegular():
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// openOwn opens a regular file in a folder of ours for reading. A link or a pipe that somebody put there is not opened.
func openOwn(path string) (*os.File, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(named, opened) {
		_ = f.Close()
		return nil, errors.Join(err, errNotRegular)
	}
	return f, nil
}

// checkFolder fails when path is something else than a folder, as a link to one.
func checkFolder(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a folder")}
	}
	return err
}
