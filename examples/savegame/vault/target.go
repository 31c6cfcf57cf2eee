package vault

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	store.MaxBytes, store.MaxIdentityBytes, store.MaxIdentityFiles = -1, -1, -1
	return &Target{Path: path, mode: mode, store: Patient(&scoped{store, filepath.Base(path)})}, nil
}

// scoped is a store where identities stand for an identity and a file: two that fetch the same content into one folder
// do not take it from each other.
type scoped struct {
	stream.Store
	file string
}

func (s *scoped) scope(identity string) string { return s.file + "/" + identity }

func (s *scoped) Open(identity, key string, size int64) (stream.Part, error) {
	return s.Store.Open(s.scope(identity), key, size)
}

func (s *scoped) Lookup(identity, key string) (stream.Content, error) {
	return s.Store.Lookup(s.scope(identity), key)
}

func (s *scoped) Remove(identity, key string) error {
	return s.Store.Remove(s.scope(identity), key)
}

// Store is where the content goes on its way.
func (t *Target) Store() stream.Store { return t.store }

// Has reports whether the file has that content already. It fails only with the cause of ctx.
func (t *Target) Has(ctx context.Context, digest [sha256.Size]byte, size int64) (bool, error) {
	f, err := openRegular(t.Path)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != size {
		return false, nil
	}
	got, err := Digest(ctx, f, size)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err == nil && got == digest, nil
}

// Publish makes the file of the complete content in the store, unless another who fetched the same into it was faster.
func (t *Target) Publish(ctx context.Context, identity string, digest [sha256.Size]byte, size int64) error {
	key := hex.EncodeToString(digest[:])
	err := Publish(t.store, identity, key, t.Path, t.mode)
	if errors.Is(err, fs.ErrNotExist) {
		if same, _ := t.Has(ctx, digest, size); same {
			err = nil
		}
	}
	if err != nil {
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
