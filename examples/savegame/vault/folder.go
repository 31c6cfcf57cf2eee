package vault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/stream"
)

// ErrNoSave means that there is no save of that name.
var ErrNoSave = errors.New("no such save")

// Folder is the saves of one identity: the regular files in it that have a save's name. A link or a pipe that somebody
// put there is none, and is neither followed nor opened.
type Folder struct {
	vault    *Vault
	identity string
	path     string
}

// Save describes one save.
type Save struct {
	Name     string
	Size     int64
	Modified time.Time
}

// List returns the saves by name.
func (f *Folder) List() ([]Save, error) {
	if err := checkFolder(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing the saves: %w", Reason(err))
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, fmt.Errorf("listing the saves: %w", Reason(err))
	}
	var saves []Save
	for _, e := range entries {
		if !e.Type().IsRegular() || CheckName(e.Name()) != nil {
			continue
		}
		if info, err := e.Info(); err == nil {
			saves = append(saves, Save{e.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(saves, func(a, b Save) int { return strings.Compare(a.Name, b.Name) })
	return saves, nil
}

// find returns the path of a save.
func (f *Folder) find(name string) (path string, err error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if err := checkFolder(f.path); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNoSave
	} else if err != nil {
		return "", Reason(err)
	}
	path = filepath.Join(f.path, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
		return "", ErrNoSave
	case err != nil:
		return "", Reason(err)
	}
	return path, nil
}

// Open opens a save and tells its digest. The file stays as it is whatever becomes of the save.
func (f *Folder) Open(ctx context.Context, name string) (file *os.File, size int64, digest stream.Digest, err error) {
	return f.open(ctx, name, Hash)
}

func (f *Folder) open(ctx context.Context, name string, hash stream.Algorithm) (file *os.File, size int64, digest stream.Digest, err error) {
	path, err := f.find(name)
	if err != nil {
		return nil, 0, digest, err
	}
	if file, err = openOwn(path); err != nil {
		return nil, 0, digest, Reason(err)
	}
	digest, size, err = f.vault.digest(ctx, file, path, hash)
	if err != nil {
		_ = file.Close()
		return nil, 0, digest, Reason(err)
	}
	return file, size, digest, nil
}

// Remove deletes a save.
func (f *Folder) Remove(name string) error {
	path, err := f.find(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return ErrNoSave // another one has just removed it
	} else if err != nil {
		return Reason(err)
	}
	return SyncFolder(f.path)
}

// Has reports whether the save called name has that content.
func (f *Folder) Has(ctx context.Context, name string, digest stream.Digest, size int64) (bool, error) {
	path, err := f.find(name)
	if err != nil {
		return false, ignore(err, ErrNoSave)
	}
	if info, err := os.Lstat(path); err != nil || info.Size() != size {
		return false, nil
	}
	file, _, got, err := f.open(ctx, name, digest.Algorithm())
	if err != nil {
		return false, nil // removed meanwhile, or unreadable: the content comes from the client
	}
	return got == digest, file.Close()
}

func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}

// CopyOf makes name a save with that content if a save of the folder has it, and reports whether one has.
func (f *Folder) CopyOf(ctx context.Context, digest stream.Digest, size int64, name string) (bool, error) {
	saves, err := f.List()
	if err != nil {
		return false, err
	}
	for _, s := range saves {
		had, err := f.Has(ctx, s.Name, digest, size)
		if err != nil {
			return false, err
		}
		if had {
			return true, f.duplicate(s.Name, name)
		}
	}
	return false, context.Cause(ctx)
}

// duplicate gives the content of one save to another. Saves are replaced and never written to, so they may share it.
func (f *Folder) duplicate(from, to string) error {
	if from == to {
		return nil
	}
	temp := filepath.Join(f.path, temporary+rand.Text())
	defer os.Remove(temp)
	source := filepath.Join(f.path, from)
	if os.Link(source, temp) != nil {
		if err := copyFile(source, temp); err != nil {
			return Reason(err)
		}
	}
	return place(temp, filepath.Join(f.path, to))
}

// Adopt makes a complete content of the store the save called name and takes it out of the store.
func (f *Folder) Adopt(identity, key, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := f.make(); err != nil {
		return Reason(err)
	}
	return Publish(f.vault.parts, identity, key, filepath.Join(f.path, name), 0o600)
}

// make makes the folder where it is missing, and has the system keep it.
func (f *Folder) make() error {
	switch err := os.Mkdir(f.path, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return checkFolder(f.path)
	case err != nil:
		return err
	}
	return SyncFolder(filepath.Dir(f.path))
}
