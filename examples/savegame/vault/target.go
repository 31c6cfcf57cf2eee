package vault

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quivernet/quiver/stream"
)

// nearParts is where contents wait that are on their way into a folder.
const nearParts = ".savegame-parts"

// Target is a file that a save goes to. It appears, or replaces what is there, when the save is complete.
type Target struct {
	Path  string
	mode  fs.FileMode
	store stream.Store
}

// OpenTarget sees that the file can be made. A folder in place of a file means the file called name in it.
func OpenTarget(path, name string) (*Target, error) {
	mode := fs.FileMode(0)
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		path = filepath.Join(path, name)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case err == nil:
		mode = info.Mode().Perm()
	}
	fresh, err := Writable(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if mode == 0 {
		mode = fresh
	}
	store := stream.DirStore(filepath.Join(filepath.Dir(path), nearParts))
	store.MaxBytes, store.MaxIdentityBytes = -1, -1
	return &Target{Path: path, mode: mode, store: Patient(store)}, nil
}

// Store is where the content goes on its way.
func (t *Target) Store() stream.Store { return t.store }

// Has reports whether the file has that content already.
func (t *Target) Has(digest [sha256.Size]byte, size int64) bool {
	f, err := os.Open(t.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != size {
		return false
	}
	got, err := Digest(f, size)
	return err == nil && got == digest
}

// Publish makes the file of the complete content in the store.
func (t *Target) Publish(identity, key string) error {
	if err := Publish(t.store, identity, key, t.Path, t.mode); err != nil {
		return t.Explain(identity, key, err)
	}
	t.tidy()
	return nil
}

// Explain names the file in an error that came of writing its content.
func (t *Target) Explain(identity, key string, err error) error {
	if Reason(err) == err {
		return err
	}
	DropIfFull(t.store, identity, key, err)
	t.tidy()
	return fmt.Errorf("file %s can not be written: %w", t.Path, Reason(err))
}

// tidy removes the folder of the parts if nothing waits in it.
func (t *Target) tidy() {
	root := filepath.Join(filepath.Dir(t.Path), nearParts)
	folders, _ := os.ReadDir(root)
	for _, f := range folders {
		_ = os.Remove(filepath.Join(root, f.Name()))
	}
	_ = os.Remove(root)
}
