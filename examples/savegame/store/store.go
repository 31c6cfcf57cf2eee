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

// Store keeps immutable objects. It is safe for concurrent use.
//
// After an error of Put or Delete other than those named here it is unknown
// whether it was done, as after a bucket's answer that was lost. Put and Delete
// may be repeated, and List shows what is there.
type Store interface {
	// Get returns the bytes of an object, or fs.ErrNotExist.
	Get(ctx context.Context, key string) ([]byte, error)

	// Put makes an object. When Put returns the object is durable, and Get and List find it. If
	// it fails with fs.ErrExist, the key already has an object, which is durable too and does
	// not change. Of two concurrent Puts of one key one fails. Put reads data until it returns.
	Put(ctx context.Context, key string, data []byte) error

	// Start begins a Put, and returns once it has read data. If the Put has
	// failed by then, Start fails; with fs.ErrExist it always does. wait returns
	// when the Put is done. It must be called once, on any goroutine. So a
	// caller that puts many objects need not keep them until they are durable.
	Start(ctx context.Context, key string, data []byte) (wait func() error, err error)

	// List returns the objects below a folder, where dir/ is the prefix of their
	// keys; "" = all objects. Objects of one folder are in the order of their
	// names. A folder that cannot be read is an error, after which List continues.
	// List may or may not return an object that is put or deleted meanwhile.
	List(ctx context.Context, dir string) iter.Seq2[Object, error]

	// Delete deletes objects, durably when it returns. A key without an object is no error.
	Delete(ctx context.Context, keys ...string) error

	// Room returns for how many more bytes, as Occupied counts them, there is
	// room; math.MaxInt64 if no limit is known.
	Room(ctx context.Context) (bytes int64, err error)
}

// Object is what List returns about an object.
type Object struct {
	// A key that CheckKey refuses was put there by somebody else, or is a
	// damaged pack; it can be neither read nor deleted here.
	Key  string
	Size int64 // in bytes
	Time time.Time
}

const (
	// MaxKey is how many bytes a key may have: with the path of a folder before
	// it, it fits the 1,024 bytes of a bucket's keys.
	MaxKey = 768
	// MaxElement is how many bytes there may be between two slashes of a key:
	// file systems end at 255, some encrypted ones earlier.
	MaxElement = 240
	// BlockBytes is the unit in which almost every file system allocates space
	// for files: see [Occupied].
	BlockBytes = 4096
)

// Occupied returns what an object of that size takes on a disk: whole blocks, and one for its
// name and the rest that a file system records, so that a million empty objects are not free.
func Occupied(size int64) int64 { return (size+BlockBytes-1)/BlockBytes*BlockBytes + BlockBytes }

// ErrKey means that a key is not valid.
var ErrKey = errors.New("bad key")

// goodElement reports whether e may stand between two slashes of a key. It is
// called for each chunk's key, so it does not use a regular expression.
func goodElement(e string) bool {
	const bytes = "abcdefghijklmnopqrstuvwxyz0123456789._=-"
	return e != "" && len(e) <= MaxElement && e[0] != '.' && e[len(e)-1] != '.' && strings.Trim(e, bytes) == ""
}

// CheckKey returns an error unless key is valid: elements of small letters, digits and ._=-
// between slashes, none of which begins or ends with a dot. Such an element is a file's name on
// every system, including those that do not distinguish upper and lower case, except for the
// device names of Windows. A caller that makes keys from other people's words must avoid those.
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

// ErrBroken means that the disk has failed in a way after which the store does
// not know what is on it.
var ErrBroken = errors.New("the store has failed, open it again")

// Files is what a [Folder] needs of a file system: so little that a test can
// replace it by one that forgets what was not flushed. Names are relative, with
// slashes. Errors wrap fs.ErrExist and fs.ErrNotExist where those apply.
type Files interface {
	Create(name string) (File, error)   // creates an empty file; fails if there is one
	Open(name string) (OpenFile, error) // opens a file for reading
	Stat(name string) (fs.FileInfo, error)
	Rename(from, to string) error // durable once both folders are flushed
	Remove(name string) error     // removes a file or an empty folder
	Mkdir(name string) error
	ReadDir(name string) ([]fs.DirEntry, error) // entries in the order of their names
	SyncDir(name string) error                  // makes the names in a folder durable
	Free() (bytes int64, err error)             // how many bytes an ordinary user may still write
}

// File is a file that is being written.
type File interface {
	io.WriteCloser
	Sync() error // makes its bytes durable, but not its name
}

// OpenFile is a file that is being read.
type OpenFile interface {
	io.ReaderAt
	io.Closer
}

// A disk is the file system below a folder of this machine, which the store
// owns. CheckKey makes sure that keys lead nowhere else.
type disk struct{ dir string }

func (d disk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d disk) Create(name string) (File, error) {
	f, err := files.CreateDirect(d.path(name))
	if err != nil {
		return nil, err // a nil *Direct would be a non-nil File
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
