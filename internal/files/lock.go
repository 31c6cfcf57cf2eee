// Package files provides operating system functions for files: locks that only one process at
// a time holds, folders whose names are made durable, exchanging names, owners, and the free
// space of a disk.
package files

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked means that the lock is held by another process or another open file of this
// process.
var ErrLocked = errors.New("another process holds the lock")

// TryLock locks an open file until it is closed or the process ends in any way. It fails with
// [ErrLocked] if the file is already locked. If lock files are ever removed, every holder must
// check [Stands], because otherwise two processes could lock two files with the same name.
func TryLock(f *os.File) error { return tryLock(f.Fd()) }

// minPatience is the minimum time for which Lock tries. A program that starts another one shares
// its open files with it until the other one has been loaded, so a lock that the program just
// released may still be held.
const minPatience = 200 * time.Millisecond

// lockInterval is the time between two attempts of Lock. It's unnoticeable to a person, and an
// attempt costs next to nothing.
const lockInterval = 20 * time.Millisecond

// Lock opens and locks the file at path, which it creates if it is missing. It gives up after
// patience. The caller must close the file.
func Lock(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(max(patience, minPatience))
	for {
		err = TryLock(f)
		if !errors.Is(err, ErrLocked) || !time.Now().Before(deadline) {
			break
		}
		time.Sleep(lockInterval)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// Stands reports whether an open file still has its name. If lock files are removed or
// replaced, every holder of a lock must check this, because the lock of a file that has lost
// its name keeps nobody out.
func Stands(f *os.File) bool {
	ours, err := f.Stat()
	named, gone := os.Stat(f.Name())
	return err == nil && gone == nil && os.SameFile(ours, named)
}
