package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quivernet/quiver/internal/files"
)

// takeLock takes a lock file until it is closed, and writes down who has it.
func takeLock(path string) (*os.File, error) {
	f, err := files.Lock(path, 0)
	if errors.Is(err, files.ErrLocked) {
		holder, _ := os.ReadFile(path) // empty: it is just being written
		return nil, fmt.Errorf("folder %s is %w by another process, %s", filepath.Dir(path), ErrLocked, holder)
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // only to be read by people
	holder := fmt.Appendf(nil, "number %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(holder, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the store: %w", err), f.Close())
	}
	return f, nil
}
