package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/stream"
)

// Suffixes of the files in a Store. A part holds content that is still arriving, and a blob holds
// complete content. The only way to create a blob is to rename a part.
const (
	partSuffix = ".part"
	blobSuffix = ".blob"
)

// A Store is a stream.Store that keeps its files in a folder of its own.
//
// Each identity has a subfolder for the files that are stored under its keys. The names of
// subfolders and files are hashes, so that no identity or key can lead outside the Store.
//
// Content that is still arriving is written under a temporary name. The file is renamed only once
// the content is complete and has been flushed to the disk. If the process is killed, the part
// that it has written stays. If a power failure makes the disk lose some of the part, the digest
// turns out wrong at the end of the transfer, and the part is deleted.
//
// Links, pipes and devices that somebody puts into the folder are neither followed nor opened.
//
// Set the limits before the first use. A Store is safe for concurrent use. Several processes
// may share a folder, since a part is locked while it is open.
type Store struct {
	// MaxBytes limits the bytes of all identities together; the default is 4 GiB.
	// MaxIdentityBytes limits the bytes of one identity; the default is 1 GiB. A negative value
	// means no limit.
	//
	// A part of known size counts with its full size from the start. To make room for a new part,
	// the Store removes files of the same identity, the least recently used first. It never
	// removes a part that is being written, or a file of another identity.
	//
	// If another process shares the folder, the files that it stores are counted a second late.
	// Its open parts are counted by the bytes written so far, at most ten seconds late.
	MaxBytes, MaxIdentityBytes int64
	// MaxIdentityFiles limits the number of files of one identity, complete or not. The default
	// is 1,024. If negative, there is no limit.
	MaxIdentityFiles int
	// PartExpiry is how long an unused part is kept, so that its transfer can be resumed. The
	// default is 7 days. If negative, parts are kept forever.
	PartExpiry time.Duration

	path string // of the folder; set by New

	// mu guards the fields below.
	mu    sync.Mutex
	open  map[string]*part // parts that are open or being opened, by path
	sizes folderSizes      // of the identities' folders
}

// New returns a Store in the folder dir. The folder is created when it is first needed.
func New(dir string) *Store {
	s := &Store{path: dir, open: make(map[string]*part)}
	s.sizes = folderSizes{path: dir, walk: s.walkFolder, stale: make(map[string]bool)}
	return s
}

var _ stream.Store = (*Store)(nil)

// Open implements stream.Store. It begins a part, or resumes one that was stored earlier.
func (s *Store) Open(identity, key string, size int64) (stream.Part, error) {
	if s.path == "" {
		return nil, errors.New("disk: opening a part: the Store has no folder; take what New returned for one")
	}
	p, err := s.openPart(s.basePath(identity, key)+partSuffix, size)
	if err != nil {
		return nil, wrapErr("opening a part", err)
	}
	return p, nil
}

// Lookup implements stream.Store. The Content that it returns also has the methods of an
// [os.File]. For example, c.(interface{ Name() string }).Name() is the path of the content.
func (s *Store) Lookup(identity, key string) (stream.Content, error) {
	c, err := s.lookup(s.basePath(identity, key))
	if err != nil {
		return nil, wrapErr("looking up a content", err)
	}
	return c, nil
}

// Publish moves a complete content out of the store, to path, which must be on the same file
// system. A file that exists at path is replaced atomically. The new file survives a power
// failure.
//
// The sender must have used the text of the content's digest as its stream.Key. If the content
// turned out to have another digest, Publish removes it and returns an error that wraps
// stream.ErrDigest. If there is no content, the error wraps fs.ErrNotExist.
//
// Publish may be called once Read of an incoming blob has returned io.EOF or WriteTo has returned
// nil. By then the content is in the store, unless the transfer had to go on without the store
// (see stream.Config.Store) or the content has been removed to make room.
func (s *Store) Publish(identity string, digest stream.Digest, path string, mode fs.FileMode) error {
	return wrapErr("publishing a content as "+path, s.publish(identity, digest, path, mode))
}

// publish does the work of Publish, which adds the operation to its errors.
func (s *Store) publish(identity string, digest stream.Digest, path string, mode fs.FileMode) error {
	c, err := s.lookup(s.basePath(identity, digest.String()))
	if err != nil {
		return err
	}
	if err := errors.Join(c.Close(), os.Chmod(c.Name(), mode)); err != nil {
		return err
	}
	if c.digest != digest {
		err := fmt.Errorf("%w: expected %v, by its key, got %v, as which identity %q has sent it",
			stream.ErrDigest, digest, c.digest, identity)
		return errors.Join(err, s.Remove(identity, digest.String()))
	}
	if err := os.Rename(c.Name(), path); err != nil {
		return err
	}
	s.mu.Lock()
	s.sizes.invalidate(filepath.Dir(c.Name()))
	s.mu.Unlock()
	return files.SyncFolder(filepath.Dir(path))
}

// syncFolders makes the names of an identity's folder and of the files in it durable. We don't
// know which of the folders above it are new, but flushing one that hasn't changed costs nothing.
func (s *Store) syncFolders(folder string) error {
	return errors.Join(files.SyncFolder(folder), files.SyncFolder(s.path), files.SyncFolder(filepath.Dir(s.path)))
}

// Remove implements stream.Store. It deletes the part and the content that are stored under a
// key. If the part is being written, the error wraps stream.ErrPartBusy.
func (s *Store) Remove(identity, key string) error {
	base := s.basePath(identity, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes.invalidate(filepath.Dir(base))
	if s.open[base+partSuffix] != nil {
		return wrapErr("removing a part", stream.ErrPartBusy)
	}
	err := ignoreMissing(removeUnlocked(base + partSuffix))
	return wrapErr("removing a content", errors.Join(err, removeBlobs(base, "")))
}

// wrapErr adds the operation that failed to err. It returns nil if err is nil.
func wrapErr(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("disk: %s: %w", what, err)
}

// basePath returns the path for an identity's key, without a suffix.
func (s *Store) basePath(identity, key string) string {
	return filepath.Join(s.path, hashName(identity), hashName(key))
}

// hashName turns any string into a file name, of 40 hex digits.
func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:20])
}

// isHashName reports whether name could have come from hashName.
func isHashName(name string) bool {
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == 20
}

// blobName returns the path of a complete content. The file name contains the digest, with a dash
// in place of the colon, because some systems don't allow colons in names.
func blobName(base string, digest stream.Digest) string {
	return base + "." + strings.Replace(digest.String(), ":", "-", 1) + blobSuffix
}

// blobDigest returns the digest in a blob's name. ok is false if path isn't the path of a blob.
func blobDigest(path string) (digest stream.Digest, ok bool) {
	name, isBlob := strings.CutSuffix(filepath.Base(path), blobSuffix)
	_, text, _ := strings.Cut(name, ".")
	digest, err := stream.ParseDigest(strings.Replace(text, "-", ":", 1))
	return digest, isBlob && err == nil
}

// blobs returns the paths of the blobs under base. Normally there is at most one. There are two
// after a crash between the rename to a new blob and the removal of the older one.
func blobs(base string) ([]string, error) {
	dir, name := filepath.Split(base)
	entries, err := readFolder(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		_, isBlob := blobDigest(e.Name())
		if isBlob && strings.HasPrefix(e.Name(), name+".") && e.Type().IsRegular() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}

// removeBlobs removes all blobs under base except keep.
func removeBlobs(base, keep string) error {
	found, err := blobs(base)
	for _, path := range found {
		if path != keep {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// maxLookups is the maximum number of attempts of lookup. An attempt fails if the blob is
// replaced, or removed to make room, after its folder was listed.
const maxLookups = 20

// lookup opens the newest complete content under base, and marks it as used.
func (s *Store) lookup(base string) (*content, error) {
	for range maxLookups {
		found, err := blobs(base)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		newest := slices.MaxFunc(found, func(a, b string) int { return modTime(a).Compare(modTime(b)) })
		c, err := openContent(newest)
		if err == nil {
			// The least recently used blobs are evicted first. If setting the time fails, the
			// worst that can happen is that blobs are evicted in another order.
			now := time.Now()
			_ = os.Chtimes(c.Name(), now, now)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: base, Err: fs.ErrNotExist}
}

// modTime returns when a blob was stored or last used, or the zero time if it's gone.
func modTime(path string) (at time.Time) {
	if info, err := os.Lstat(path); err == nil {
		at = info.ModTime()
	}
	return at
}

// A content is a blob that is open for reading, as a stream.Content.
type content struct {
	*os.File
	size   int64
	digest stream.Digest
}

var _ stream.Content = (*content)(nil)

func (c *content) Size() int64           { return c.size }
func (c *content) Digest() stream.Digest { return c.digest }

// openContent opens a complete content.
func openContent(path string) (*content, error) {
	f, err := openStored(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(info, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	digest, _ := blobDigest(path)
	return &content{File: f, size: info.Size(), digest: digest}, nil
}

// readFolder lists a folder. A folder that doesn't exist counts as empty. A link to a folder is
// an error, because the store never creates one, so somebody else has.
func readFolder(path string) ([]fs.DirEntry, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotFolder}
	}
	if err != nil {
		return nil, ignoreMissing(err)
	}
	entries, err := os.ReadDir(path)
	return entries, ignoreMissing(err)
}

// ignoreMissing returns nil if err says that a file doesn't exist, and otherwise err.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

var (
	errNotFolder  = errors.New("it is not a folder")
	errNotRegular = errors.New("it is not a regular file")
)

// checkRegular returns an error if somebody has put a link, pipe or device where one of the
// store's files should be.
func checkRegular(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return nil
}
