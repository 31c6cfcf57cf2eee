// Package files is what rooms ask of the system about files of this machine: locks that one process at a time holds, folders whose names are made
// durable, names that are swapped, owners, and the room that a disk has.
package files

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked means that another process, or another open file of this one, holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// TryLock locks an open file until it is closed or the process ends, however that ends. It fails with [ErrLocked] when the file
// is locked already. Who removes a lock file has all others ask [Stands]: else two processes could lock two files of one name.
func TryLock(f *os.File) error { return tryLock(f.Fd()) }

// leastPatience is how long Lock tries at least: a program that starts another one has a copy of its open files, and so of a
// lock that it has just let go, until the other one is loaded.
const leastPatience = 200 * time.Millisecond

// Lock opens and locks the file at path, which it makes when it is missing, and tries for as long as patience lasts. The
// caller closes the file.
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

// Stands reports whether an open file has its name still. Where lock files are removed, or others put in their place, who got a lock asks this:
// the lock of a file that has lost its name holds nobody off.
func Stands(f *os.File) bool {
	ours, err := f.Stat()
	named, gone := os.Stat(f.Name())
	return err == nil && gone == nil && os.SameFile(ours, named)
}
