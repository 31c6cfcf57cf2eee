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

// Suffixes of the files in a Store. A blob is created only by renaming a part.
const (
	partSuffix = ".part"
	blobSuffix = ".blob"
)

// A Store is a stream.Store in a folder of its own.
//
// Each identity has a folder in it, and each content a file in that folder. Both are named
// by hashes, so no identity and no key can reach outside.
//
// Parts are written under names of their own. A complete content appears by rename,
// after it was flushed to the disk. Written bytes survive if the process is killed. If
// the disk loses some in a power failure, the digest is wrong at the end of the
// transfer, and the part is deleted.
//
// Links, pipes and devices that somebody puts into the folder are neither followed nor opened.
//
// Set the limits before the first use. A Store is safe for concurrent use, and several
// processes may share a folder: a part is locked while it is open.
type Store struct {
	// MaxBytes limits the bytes of all identities together; default 4 GiB. MaxIdentityBytes
	// limits the bytes of one identity; default 1 GiB. Negative = no limit.
	//
	// To make room for a new part, the Store removes contents of the same identity, and parts
	// of it that are not being written, the least recently used first. It removes nothing of
	// other identities. A part of known size counts with its full size from the start.
	//
	// If another process shares the folder, its stored content is counted a second late.
	// Its open parts are counted by the bytes written, at most ten seconds late.
	MaxBytes, MaxIdentityBytes int64
	// MaxIdentityFiles limits the number of parts and contents of one identity; default
	// 1,024, negative = no limit.
	MaxIdentityFiles int
	// PartExpiry is the time for which an unused part is kept for resuming; default 7 days,
	// negative = forever.
	PartExpiry time.Duration

	path string

	// mu guards the fields below.
	mu    sync.Mutex
	open  map[string]*part // parts open or being opened, by path
	sizes folderSizes      // sizes of the identities' folders
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
		return nil, doing("opening a part", err)
	}
	return p, nil
}

// Lookup implements stream.Store. The content it returns also has the methods of an
// [os.File]: c.(interface{ Name() string }).Name() is its path.
func (s *Store) Lookup(identity, key string) (stream.Content, error) {
	c, err := s.lookup(s.basePath(identity, key))
	if err != nil {
		return nil, doing("looking up a content", err)
	}
	return c, nil
}

// Publish moves a complete content out of the store, to path. The path must be on the same file
// system. A file at path is replaced atomically, and the new file survives a power failure.
//
// The sender must have used the text of the content's digest as its stream.Key. If the
// content was stored with a digest other than its key, Publish removes it and returns an
// error that wraps stream.ErrDigest. If there is no content, the error wraps fs.ErrNotExist.
//
// Publish may be called once Read of an incoming blob has returned io.EOF or WriteTo has
// returned nil. The content is then in the store, unless the transfer continued without the
// store (see stream.Config.Store) or the content was removed to make room.
func (s *Store) Publish(identity string, digest stream.Digest, path string, mode fs.FileMode) error {
	return doing("publishing a content as "+path, s.publish(identity, digest, path, mode))
}

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
	s.sizes.changed(filepath.Dir(c.Name()))
	s.mu.Unlock()
	return files.SyncFolder(filepath.Dir(path))
}

// syncFolders flushes the names in an identity's folder, in the store's folder, and in the
// folder that contains the store. Flushing an unchanged folder costs nothing.
func (s *Store) syncFolders(folder string) error {
	return errors.Join(files.SyncFolder(folder), files.SyncFolder(s.path), files.SyncFolder(filepath.Dir(s.path)))
}

// Remove implements stream.Store. It deletes the part and the content of a key. If the part
// is being written, the error wraps stream.ErrPartBusy.
func (s *Store) Remove(identity, key string) error {
	base := s.basePath(identity, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes.changed(filepath.Dir(base))
	if s.open[base+partSuffix] != nil {
		return doing("removing a part", stream.ErrPartBusy)
	}
	err := ignoreMissing(removeUnlocked(base + partSuffix))
	return doing("removing a content", errors.Join(err, removeBlobs(base, "")))
}

// doing adds to err a description of the operation that failed. It returns nil if err is nil.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("disk: %s: %w", what, err)
}

// basePath returns the path for an identity's key, without a suffix.
func (s *Store) basePath(identity, key string) string {
	return filepath.Join(s.path, hashName(identity), hashName(key))
}

// hashName returns a file name of 40 hex digits for any string.
func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:20])
}

// isHashName reports whether name has the form of a name returned by hashName.
func isHashName(name string) bool {
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == 20
}

// blobName returns the path of a complete content. base is its path without a suffix. The
// name has a dash in place of the digest's colon, which some systems do not allow in names.
func blobName(base string, digest stream.Digest) string {
	return base + "." + strings.Replace(digest.String(), ":", "-", 1) + blobSuffix
}

// blobDigest parses the digest in a blob's name.
func blobDigest(path string) (digest stream.Digest, ok bool) {
	name, isBlob := strings.CutSuffix(filepath.Base(path), blobSuffix)
	_, text, _ := strings.Cut(name, ".")
	digest, err := stream.ParseDigest(strings.Replace(text, "-", ":", 1))
	return digest, isBlob && err == nil
}

// blobs returns the paths of the complete contents under base. There is none, one, or two
// after a crash between a rename and the removal of the older content.
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

// removeBlobs removes all complete contents under base except keep.
func removeBlobs(base, keep string) error {
	found, err := blobs(base)
	for _, path := range found {
		if path != keep {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// lookupTries is the maximum number of attempts of lookup. A content may vanish after its
// folder was listed, because it was replaced or was removed to make room.
const lookupTries = 20

// lookup opens the newest complete content under base.
func (s *Store) lookup(base string) (*content, error) {
	for range lookupTries {
		found, err := blobs(base)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		newest := slices.MaxFunc(found, func(a, b string) int { return modified(a).Compare(modified(b)) })
		c, err := openContent(newest)
		if err == nil {
			// Mark the content as used. An error affects only the order of eviction.
			now := time.Now()
			_ = os.Chtimes(c.Name(), now, now)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: base, Err: fs.ErrNotExist}
}

// modified returns the time at which a content was stored or last used. It is zero if
// the content is gone.
func modified(path string) (at time.Time) {
	if info, err := os.Lstat(path); err == nil {
		at = info.ModTime()
	}
	return at
}

// A content is a stream.Content in a Store.
type content struct {
	*os.File
	size   int64
	digest stream.Digest
}

var _ stream.Content = (*content)(nil)

// openContent opens a complete content.
func openContent(path string) (*content, error) {
	f, err := openStored(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = requireRegular(info, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	digest, _ := blobDigest(path)
	return &content{File: f, size: info.Size(), digest: digest}, nil
}

// readFolder lists a folder. A missing folder counts as empty. A link to a folder is an
// error, because the store never creates one.
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

// ignoreMissing returns err, or nil if it says that the file does not exist.
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

// requireRegular returns an error for a link, pipe or device that somebody put in the place
// of one of the store's files.
func requireRegular(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return nil
}

func (c *content) Size() int64           { return c.size }
func (c *content) Digest() stream.Digest { return c.digest }
