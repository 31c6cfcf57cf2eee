package vault

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoSave means that there is no save of that name.
var ErrNoSave = errors.New("no such save")

// Folder is the saves of one identity.
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
	entries, err := os.ReadDir(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// Open opens a save and tells its SHA-256. The file stays as it is whatever becomes of the save.
func (f *Folder) Open(name string) (file *os.File, size int64, digest [sha256.Size]byte, err error) {
	if err := CheckName(name); err != nil {
		return nil, 0, digest, err
	}
	path := filepath.Join(f.path, name)
	file, err = os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, digest, ErrNoSave
	}
	if err != nil {
		return nil, 0, digest, Reason(err)
	}
	digest, size, err = f.vault.digest(file, path)
	if err != nil {
		_ = file.Close()
		return nil, 0, digest, Reason(err)
	}
	return file, size, digest, nil
}

// Remove deletes a save.
func (f *Folder) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(f.path, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoSave
	case err != nil:
		return Reason(err)
	}
	return SyncFolder(f.path)
}

// CopyOf makes name a save with that content if a save of the folder has it, and reports whether one has.
func (f *Folder) CopyOf(digest [sha256.Size]byte, size int64, name string) (bool, error) {
	saves, err := f.List()
	if err != nil {
		return false, err
	}
	for _, s := range saves {
		if s.Size != size {
			continue
		}
		file, _, got, err := f.Open(s.Name)
		if err != nil {
			continue // removed meanwhile, or unreadable: the content comes from the client
		}
		_ = file.Close()
		if got == digest {
			return true, f.duplicate(s.Name, name)
		}
	}
	return false, nil
}

// duplicate gives the content of one save to another. Saves are replaced and never written to, so they may share it.
func (f *Folder) duplicate(from, to string) error {
	if from == to {
		return nil
	}
	temp, err := temporaryName(f.path)
	if err != nil {
		return Reason(err)
	}
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
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return Reason(err)
	}
	return Publish(f.vault.parts, identity, key, filepath.Join(f.path, name), 0o600)
}
