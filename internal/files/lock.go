// Package files has operating system functions for files: locks that one process at a time holds,
// folders whose names are made durable, exchanging names, owners, and the free space of a disk.
package files

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked means that another process, or another open file of this one, holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// TryLock locks an open file until it is closed or the process ends in any way. It fails
// with [ErrLocked] if the file is already locked. If lock files are ever removed, every
// holder must check [Stands]; otherwise two processes could lock two files of one name.
func TryLock(f *os.File) error { return tryLock(f.Fd()) }

// leastPatience is how long Lock tries at least. A program that starts another one has a copy
// of its open files, and so of a lock that it has just released, until the other one is loaded.
const leastPatience = 200 * time.Millisecond

// Lock opens and locks the file at path, which it creates if it is missing. It
// tries for as long as patience. The caller must close the file.
func Lock(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(max(patience, leastPatience))
	for err = TryLock(f); errors.Is(err, ErrLocked) && time.Now().Before(deadline); err = TryLock(f) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// Stands reports whether an open file still has its name. If lock files are
// removed or replaced, every holder of a lock must check this, because the lock
// of a file that has lost its name keeps nobody out.
func Stands(f *os.File) bool {
	ours, err := f.Stat()
	named, gone := os.Stat(f.Name())
	return err == nil && gone == nil && os.SameFile(ours, named)
}
