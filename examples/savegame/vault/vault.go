package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// What lies in a vault's folder.
const (
	savesFolder = "saves"
	partsFolder = "parts"
	// temporary begins the names of files that are not finished; no save's name begins with a dot.
	temporary = ".tmp-"
)

// Limits of a vault. Zero means no limit.
type Limits struct {
	MaxBytes int64 // of one save
	Quota    int64 // bytes that the saves and unfinished uploads of one identity take on the disk
}

// Vault is a folder of saves. It is safe for concurrent use, by one process.
type Vault struct {
	dir    string
	limits Limits
	store  *disk.Store  // of what is on its way
	parts  stream.Store // the same, patient

	mu       sync.Mutex
	accounts map[string]*account // by identity
	digests  map[string]digested // by path
}

// Open makes the folder where it is missing, sees that it can be written, and removes what a killed process left behind.
func Open(dir string, limits Limits) (*Vault, error) {
	v := &Vault{
		dir:      dir,
		limits:   limits,
		accounts: make(map[string]*account),
		digests:  make(map[string]digested),
	}
	saves := filepath.Join(dir, savesFolder)
	if err := os.MkdirAll(saves, 0o700); err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, Reason(err))
	}
	if _, err := Writable(dir); err != nil {
		return nil, err
	}
	if err := sweep(saves); err != nil {
		return nil, fmt.Errorf("folder %s: %w", saves, Reason(err))
	}
	// Reserve counts what is in the store, and says what may go.
	v.store = disk.New(filepath.Join(dir, partsFolder))
	v.store.MaxBytes, v.store.MaxIdentityBytes, v.store.MaxIdentityFiles = -1, -1, -1
	v.parts = Patient(v.store)
	return v, nil
}

// Writable makes a file in dir and removes it. The mode is what new files get there.
func Writable(dir string) (mode fs.FileMode, err error) {
	path := filepath.Join(dir, temporary+rand.Text())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.Write([]byte{0}) // a full disk takes the name and no byte
		if info, statErr := f.Stat(); statErr == nil {
			mode = info.Mode().Perm()
		}
		err = errors.Join(err, f.Close(), os.Remove(path))
	}
	if err != nil {
		return 0, fmt.Errorf("folder %s can not be written: %w", dir, Reason(err))
	}
	return mode, nil
}

// sweep removes temporary files.
func sweep(saves string) error {
	return filepath.WalkDir(saves, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), temporary) && e.Type().IsRegular() {
			err = os.Remove(path)
		}
		return err
	})
}

// Parts is where saves wait while they arrive. Its keys are the digests of the contents.
func (v *Vault) Parts() stream.Store { return v.parts }

// Limits returns the limits.
func (v *Vault) Limits() Limits { return v.limits }

// Folder returns the saves of an identity: 32 hex digits, as [Identify] makes them.
func (v *Vault) Folder(identity string) *Folder {
	return &Folder{vault: v, identity: identity, path: filepath.Join(v.dir, savesFolder, filepath.Base(identity))}
}
