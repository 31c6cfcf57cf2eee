// Package flock has files that one process at a time may hold.
package flock

import (
	"errors"
	"os"
	"time"
)

// ErrHeld means that another process, or another open file of this one, holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// retryInterval is how often Wait tries.
const retryInterval = 20 * time.Millisecond

// Try locks an open file until it is closed or the process ends, however that ends. It fails with [ErrHeld] when the file
// is locked already. A lock file stays where it is: were it removed, two processes could lock two files of one name.
func Try(f *os.File) error { return try(f) }

// Wait opens and locks the file at path, which it makes when it is missing, and tries for as long as patience lasts. The
// caller closes the file.
func Wait(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(retryInterval) {
		err := Try(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, ErrHeld) || time.Now().After(deadline) {
			return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
	}
}
