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
	"syscall"
	"time"

	"github.com/quivernet/quiver/internal/files"
)

// Store keeps immutable objects. It is safe for concurrent use.
//
// If Put or Delete fails with an error other than those named here, it is unknown whether it took
// effect, for example because the answer of a cloud store was lost. Put and Delete may be repeated,
// and List shows what exists.
type Store interface {
	// Get returns the bytes of an object, or fs.ErrNotExist.
	Get(ctx context.Context, key string) ([]byte, error)

	// Put makes an object. When Put returns, the object is durable, and Get and List find it. If
	// the key already has an object, Put fails with fs.ErrExist; that object is durable too, and
	// doesn't change. Of two concurrent Puts of one key, one fails. data must not change until Put
	// returns.
	Put(ctx context.Context, key string, data []byte) error

	// Start begins a Put, and returns as soon as it no longer needs data, so that a caller that
	// puts many objects doesn't have to keep them until they are durable. It returns errors that
	// occur until then, which always include fs.ErrExist. wait returns the result of the Put when
	// it is done, and must be called exactly once, on any goroutine.
	Start(ctx context.Context, key string, data []byte) (wait func() error, err error)

	// List returns the objects whose keys begin with dir/, or all objects if dir is empty. Objects
	// of one folder are in the order of their names. A folder that can't be read yields an error,
	// after which List continues. List may or may not return objects that are put or deleted while
	// it runs.
	List(ctx context.Context, dir string) iter.Seq2[Object, error]

	// Delete deletes objects. When it returns, they are durably deleted. A key without an object
	// isn't an error.
	Delete(ctx context.Context, keys ...string) error

	// Room returns how many more bytes fit, as counted by Occupied, or math.MaxInt64 if no limit is
	// known.
	Room(ctx context.Context) (bytes int64, err error)
}

// Object is what List returns about an object.
type Object struct {
	// Key is the object's key. If CheckKey rejects it, somebody else put the file there, or it is a
	// damaged pack. It can then be neither read nor deleted here.
	Key  string
	Size int64 // in bytes
	Time time.Time
}

const (
	// MaxKey is the maximum length of a key in bytes. With the path of a folder before it, it fits
	// into the 1,024 bytes that cloud stores allow.
	MaxKey = 768
	// MaxElement is the maximum length of a key's element, between two slashes. File systems allow
	// 255 bytes, and some encrypted ones fewer.
	MaxElement = 240
	// BlockBytes is the unit in which almost every file system allocates space for files; see
	// [Occupied].
	BlockBytes = 4096
)

// Occupied returns how many bytes an object of a size takes on a disk: whole blocks, and one more
// for its name and the other metadata, so that a million empty objects aren't free.
func Occupied(size int64) int64 { return (size+BlockBytes-1)/BlockBytes*BlockBytes + BlockBytes }

// ErrKey means that a key is not valid.
var ErrKey = errors.New("invalid key")

// goodElement reports whether e is valid between two slashes of a key. It doesn't use a regular
// expression because it is called for the key of each chunk.
func goodElement(e string) bool {
	const bytes = "abcdefghijklmnopqrstuvwxyz0123456789._=-"
	return e != "" && len(e) <= MaxElement && e[0] != '.' && e[len(e)-1] != '.' && strings.Trim(e, bytes) == ""
}

// CheckKey returns an error unless key is valid. A key consists of elements of lowercase letters,
// digits and ._=- separated by slashes, none of which begins or ends with a dot. Such an element is
// a valid file name on every system, including case-insensitive ones, except for the device names
// of Windows, which callers must avoid if they make keys from other people's words.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w %.40q…: has %d bytes; the limit is %d", ErrKey, key, len(key), MaxKey)
	}
	for element := range strings.SplitSeq(key, "/") {
		if !goodElement(element) {
			return fmt.Errorf("%w %q: each element must have 1 to %d lowercase letters, digits and ._=-, without a dot at either end", ErrKey, key, MaxElement)
		}
	}
	return nil
}

// IsFull reports whether err means that a disk has no room, or that a quota on it is exceeded.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// ErrLocked means that another process has the folder. The text of the error tells which one.
var ErrLocked = errors.New("in use")

// ErrBroken means that the disk failed in a way that leaves it unknown what is on it.
var ErrBroken = errors.New("store has failed and must be opened again")

// Files is what a [Folder] needs of a file system. It is so small that a test can implement it with
// a file system that loses everything that wasn't flushed. Names are relative, with slashes. Errors
// wrap fs.ErrExist and fs.ErrNotExist where they apply.
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

// A disk is the file system below a folder of this machine, which the store owns. CheckKey ensures
// that keys don't lead elsewhere.
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
