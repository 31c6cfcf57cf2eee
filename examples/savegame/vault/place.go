package vault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/quivernet/quiver/stream"
)

// ErrContent means that a content is not the one that its key names.
var ErrContent = errors.New("the content is not what was announced")

// Publish takes a complete content out of a store on the same file system and makes it the file path, in one step. The
// store has flushed it. The key must be the content's digest.
func Publish(store stream.Store, identity, key, path string, mode fs.FileMode) error {
	content, err := store.Lookup(identity, key)
	if err != nil {
		return Reason(err)
	}
	digest := content.Digest()
	source, isFile := content.(interface{ Name() string })
	if err := content.Close(); err != nil {
		return Reason(err)
	}
	if !isFile {
		return fmt.Errorf("the store holds a %T, not a file", content)
	}
	if digest.String() != key {
		return errors.Join(ErrContent, store.Remove(identity, key))
	}
	if err := os.Chmod(source.Name(), mode); err != nil {
		return Reason(err)
	}
	return place(source.Name(), path)
}

// place renames a complete and flushed file to its final name and has the system keep that.
func place(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return Reason(err)
	}
	return SyncFolder(filepath.Dir(to))
}

// SyncFolder has the system keep the names in a folder. Windows has no way to ask for it, and file systems that can not
// do it say so and are not blamed.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Reason(err)
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return Reason(errors.Join(err, f.Close()))
}

// copyFile copies and flushes.
func copyFile(from, to string) error {
	source, err := openOwn(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}
