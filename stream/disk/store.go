package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// Suffixes of what lies in a Store. A part becomes a blob by renaming; nothing else has a blob's name.
const (
	partSuffix = ".part"
	blobSuffix = ".blob"
)

// Store is a stream.Store in a folder of its own. Each identity has a folder in it, and each content a file there, both named by
// hashes, so that no identity and no key can reach outside. Parts are written under names of their own; a complete
// content appears by rename, after it was flushed to the disk. What was written survives a killed process; after a power
// failure, a prefix that the disk lost fails the digest at the end and is deleted. Links, pipes and devices that
// somebody puts into the folder are neither followed nor opened.
//
// Set the limits before the first use. Several processes may share a folder: a part is locked while it is open.
type Store struct {
	// MaxBytes bounds all that is stored; default 4 GiB. MaxIdentityBytes bounds what one identity stores; default
	// 1 GiB. An identity's contents, and its parts that nobody writes, make room for its new parts, the least recently
	// used first; nothing makes room for another identity's. A part of known size counts with all of it from the start.
	// Negative: no limit. Each process counts what others write only as far as it is written, and that ten seconds late at most.
	MaxBytes, MaxIdentityBytes int64
	// MaxIdentityFiles bounds the parts and contents of one identity; default 1,024. Negative: no limit.
	MaxIdentityFiles int
	// PartExpiry is how long a part that nobody writes to waits to be resumed; default 7 days. Negative: for ever.
	PartExpiry time.Duration

	path string

	mu     sync.Mutex
	open   map[string]*part    // by path of the part; nil while it is being opened
	looked map[string]lookedAt // by folder of an identity
}

// New returns a Store in the folder dir, which is made when it is first needed.
func New(dir string) *Store {
	return &Store{path: dir, open: make(map[string]*part)}
}

var _ stream.Store = (*Store)(nil)

// Open begins or resumes a part.
func (s *Store) Open(identity, key string, size int64) (stream.Part, error) {
	p, err := s.openPart(s.file(identity, key)+partSuffix, size)
	if err != nil {
		return nil, fmt.Errorf("disk: opening a part: %w", err)
	}
	return p, nil
}

// Lookup opens the complete content, which is an *os.File too: its Name is the path.
func (s *Store) Lookup(identity, key string) (stream.Content, error) {
	c, err := s.lookup(s.file(identity, key))
	if err != nil {
		return nil, fmt.Errorf("disk: looking up a content: %w", err)
	}
	return c, nil
}

// Publish takes a complete content out of the store and makes it the file path, or what replaces that, in one step that lasts; path is on
// the same file system. It is for senders that give the content's digest as stream.Key, as
// text, and its algorithm as stream.Hash: what a peer stored under another content's digest
// is removed, and is an error that Is stream.ErrDigest. Absent content Is fs.ErrNotExist.
func (s *Store) Publish(identity string, digest stream.Digest, path string, mode fs.FileMode) error {
	if err := s.publish(identity, digest, path, mode); err != nil {
		return fmt.Errorf("disk: publishing a content as %s: %w", path, err)
	}
	return nil
}

func (s *Store) publish(identity string, digest stream.Digest, path string, mode fs.FileMode) error {
	c, err := s.lookup(s.file(identity, digest.String()))
	if err != nil {
		return err
	}
	if err := errors.Join(c.Close(), os.Chmod(c.Name(), mode)); err != nil {
		return err
	}
	if c.digest != digest {
		return errors.Join(fmt.Errorf("%w: it is %v", stream.ErrDigest, c.digest), s.Remove(identity, digest.String()))
	}
	if err := os.Rename(c.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolders has the system keep the names in an identity's folder, that folder, and the store's. Those that have not changed cost nothing.
func (s *Store) syncFolders(folder string) error {
	return errors.Join(syncFolder(folder), syncFolder(s.path), syncFolder(filepath.Dir(s.path)))
}

// Remove deletes what is stored, or fails with stream.ErrPartBusy while it is being written.
func (s *Store) Remove(identity, key string) error {
	base := s.file(identity, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.looked, filepath.Dir(base))
	if _, busy := s.open[base+partSuffix]; busy {
		return fmt.Errorf("disk: removing a part: %w", stream.ErrPartBusy)
	}
	err := ignoreMissing(removeUnlocked(base + partSuffix))
	if err = errors.Join(err, removeBlobs(base, "")); err != nil {
		return fmt.Errorf("disk: removing a content: %w", err)
	}
	return nil
}

// file is the path of identity's key without a suffix.
func (s *Store) file(identity, key string) string {
	return filepath.Join(s.path, hashName(identity), hashName(key))
}

// hashName makes a file name of any string: 40 digits.
func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:20])
}

// blobName is the name of a complete content; base is the path without a suffix. A colon can not stand in names everywhere.
func blobName(base string, digest stream.Digest) string {
	return base + "." + strings.Replace(digest.String(), ":", "-", 1) + blobSuffix
}

// blobDigest reads the digest out of a blob's name.
func blobDigest(path string) (digest stream.Digest, ok bool) {
	name, isBlob := strings.CutSuffix(filepath.Base(path), blobSuffix)
	_, text, _ := strings.Cut(name, ".")
	digest, err := stream.ParseDigest(strings.Replace(text, "-", ":", 1))
	return digest, isBlob && err == nil
}

// blobs are the paths of the complete contents under base: one, but for a crash between two renames.
func blobs(base string) ([]string, error) {
	dir, name := filepath.Split(base)
	entries, err := readFolder(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if _, ok := blobDigest(e.Name()); ok && strings.HasPrefix(e.Name(), name+".") && e.Type().IsRegular() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}

// removeBlobs removes the complete contents under base but for the one named keep.
func removeBlobs(base, keep string) error {
	found, err := blobs(base)
	for _, path := range found {
		if path != keep {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// lookupTries is how often a content is looked up that goes between the look into its folder and the opening: a new one has replaced it,
// or it has made room.
const lookupTries = 20

func (s *Store) lookup(base string) (*content, error) {
	for range lookupTries {
		found, err := blobs(base)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		c, err := openNewest(found)
		if err == nil {
			now := time.Now()
			_ = os.Chtimes(c.Name(), now, now) // for the order of eviction only
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: base, Err: fs.ErrNotExist}
}

// openNewest opens the newest of some contents.
func openNewest(paths []string) (newest *content, err error) {
	for _, path := range paths {
		c, err := openContent(path)
		if err == nil && newest != nil && newest.stored.After(c.stored) {
			newest, c = c, newest
		}
		if newest != nil {
			_ = newest.Close()
		}
		if err != nil {
			return nil, err
		}
		newest = c
	}
	return newest, nil
}

// content is a stream.Content in a Store.
type content struct {
	*os.File
	size   int64
	stored time.Time // or used last
	digest stream.Digest
}

var _ stream.Content = (*content)(nil)

func openContent(path string) (*content, error) {
	f, err := openOwn(path)
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
	return &content{File: f, size: info.Size(), stored: info.ModTime(), digest: digest}, nil
}

// readFolder lists a folder, which is empty when it is not there. A link to a folder is none of ours.
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

// requireRegular refuses what somebody put under the name of a file of ours: a link, a pipe, a device.
func requireRegular(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return nil
}

func (c *content) Size() int64           { return c.size }
func (c *content) Digest() stream.Digest { return c.digest }
