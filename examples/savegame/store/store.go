package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quivernet/quiver/internal/files"
)

// Store keeps immutable objects. Any number of goroutines may call it at once.
//
// After an error of Put or Delete that is none of the ones named here nobody knows whether it was done, as after a lost
// answer of a bucket: Put and Delete may be repeated, and List says what is there.
type Store interface {
	// Get returns the bytes of an object, or fs.ErrNotExist.
	Get(ctx context.Context, key string) ([]byte, error)

	// Put makes an object. It is durable when Put returns, and there for all who ask then. With fs.ErrExist the key has
	// an object already, which is durable too and stays as it is. Of two puts of one key that run at once one fails. Put
	// reads data until it returns.
	Put(ctx context.Context, key string, data []byte) error

	// Start begins a Put, and returns when it has read data. If the Put has failed by then, Start fails: with fs.ErrExist it always does. wait
	// returns when the Put is done. It is called once, on any goroutine. So who puts many objects need not keep them until they are durable.
	Start(ctx context.Context, key string, data []byte) (wait func() error, err error)

	// List returns the objects below a folder, dir/ being how their keys begin; all when dir is empty. Those of one folder are in the order of
	// their names. A folder that cannot be read is an error, and List goes on behind it. It may have an object that is put or deleted meanwhile.
	List(ctx context.Context, dir string) iter.Seq2[Object, error]

	// Delete takes objects away, durably when it returns. One that is not there is no error.
	Delete(ctx context.Context, keys ...string) error

	// Room returns for how many more bytes, as Occupied counts them, there is room; math.MaxInt64 where nobody knows an end.
	Room(ctx context.Context) (bytes int64, err error)
}

// Object is what List tells of one.
type Object struct {
	Key  string // one that CheckKey refuses was put there by somebody else, or is a damaged pack, and can neither be read nor deleted here
	Size int64  // in bytes
	Time time.Time
}

const (
	// MaxKey bounds a key in bytes: with the path of a folder before it, it fits the 1,024 bytes of a bucket's keys.
	MaxKey = 768
	// MaxElement bounds what stands between two slashes of a key: file systems end at 255, some encrypted ones earlier.
	MaxElement = 240
	// BlockBytes is what a file system adds to a file by, almost everywhere: see [Occupied].
	BlockBytes = 4096
)

// Occupied is what an object of that size takes on a disk: whole blocks, and one for its name and the rest that a file
// system writes down, so that a million empty objects are not for free.
func Occupied(size int64) int64 { return (size+BlockBytes-1)/BlockBytes*BlockBytes + BlockBytes }

// ErrKey means that a key is none.
var ErrKey = errors.New("bad key")

// goodElement reports whether it may stand between two slashes of a key. Each chunk's key is looked at, so this is no regular expression.
func goodElement(e string) bool {
	const bytes = "abcdefghijklmnopqrstuvwxyz0123456789._=-"
	return e != "" && len(e) <= MaxElement && e[0] != '.' && e[len(e)-1] != '.' && strings.Trim(e, bytes) == ""
}

// CheckKey reports why key is none: elements of small letters, digits and ._=- between slashes, none of which begins or
// ends with a dot. That is a file's name on every system, those which do not tell a from A included, but for the devices
// of Windows: who makes keys of other people's words keeps those away.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w %.40q…: %d bytes, the limit is %d", ErrKey, key, len(key), MaxKey)
	}
	for element := range strings.SplitSeq(key, "/") {
		if !goodElement(element) {
			return fmt.Errorf("%w %q: between slashes are 1 to %d small letters, digits and ._=-, and no dot is the first or last of them", ErrKey, key, MaxElement)
		}
	}
	return nil
}

// ErrLocked means that another process has the folder. The text says which.
var ErrLocked = errors.New("in use")

// ErrBroken means that the disk failed in a way after which the store does not know what is on it.
var ErrBroken = errors.New("the store has failed, open it again")

// Files is what a [Folder] asks of a file system: so little that a test can stand in for it and forget what was not
// flushed. Names are relative and with slashes. Errors wrap fs.ErrExist and fs.ErrNotExist where those are meant.
type Files interface {
	Create(name string) (File, error)   // a new file, empty
	Open(name string) (OpenFile, error) // for reading
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

// OpenFile is one that is being read.
type OpenFile interface {
	io.ReaderAt
	io.Closer
}

// disk is the file system below a folder of this machine, which belongs to the store: keys lead nowhere else, as CheckKey sees to.
type disk struct{ dir string }

func (d disk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d disk) Create(name string) (File, error) {
	f, err := files.CreateDirect(d.path(name))
	if err != nil {
		return nil, err // a nil *Direct would be a File
	}
	return f, nil
}

func (d disk) Open(name string) (OpenFile, error)         { return os.Open(d.path(name)) }
func (d disk) Stat(name string) (fs.FileInfo, error)      { return os.Lstat(d.path(name)) }
func (d disk) Rename(from, to string) error               { return os.Rename(d.path(from), d.path(to)) }
func (d disk) Remove(name string) error                   { return os.Remove(d.path(name)) }
func (d disk) Mkdir(name string) error                    { return os.Mkdir(d.path(name), 0o700) }
func (d disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(d.path(name)) }
func (d disk) SyncDir(name string) error                  { return files.SyncFolder(d.path(name)) }
func (d disk) Free() (int64, error)                       { return files.Free(d.dir) }
