package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Files is what a [Folder] asks of a file system: so little that a test can stand in for it and forget what was not
// flushed. Names are relative and with slashes. Errors wrap fs.ErrExist and fs.ErrNotExist where those are meant.
type Files interface {
	Create(name string) (File, error) // a new file, empty
	Read(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
	Rename(from, to string) error // durable when both folders are flushed
	Remove(name string) error     // a file or an empty folder
	Mkdir(name string) error
	ReadDir(name string) ([]fs.DirEntry, error) // by name
	SyncDir(name string) error                  // makes the names in a folder durable
	Free() (bytes int64, err error)             // what an ordinary user may still write
}

// File is one that is being written.
type File interface {
	io.WriteCloser
	Sync() error // makes its bytes durable, not its name
}

// disk is the file system below a folder of this machine, which belongs to the store: keys lead nowhere else, as CheckKey sees to.
type disk struct{ dir string }

func (d disk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d disk) Create(name string) (File, error) {
	return os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d disk) Read(name string) ([]byte, error)           { return os.ReadFile(d.path(name)) }
func (d disk) Stat(name string) (fs.FileInfo, error)      { return os.Lstat(d.path(name)) }
func (d disk) Rename(from, to string) error               { return os.Rename(d.path(from), d.path(to)) }
func (d disk) Remove(name string) error                   { return os.Remove(d.path(name)) }
func (d disk) Mkdir(name string) error                    { return os.Mkdir(d.path(name), 0o700) }
func (d disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(d.path(name)) }
func (d disk) Free() (int64, error)                       { return free(d.dir) }

// SyncDir does nothing on Windows, which has no way to ask for it, and does not blame file systems that cannot do it.
func (d disk) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(d.path(name))
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
