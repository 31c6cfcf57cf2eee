package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quivernet/quiver/internal/files"
)

// takeLock locks a file until it is closed. It writes into it which process has the lock, if the
// disk has room, because that text is only for people.
func takeLock(path string) (*os.File, error) {
	f, err := files.Lock(path, 0)
	if errors.Is(err, files.ErrLocked) {
		holder, _ := os.ReadFile(path) // empty if it is being written or the disk was full
		return nil, fmt.Errorf("folder %s is %w by another process: %s", filepath.Dir(path), ErrLocked, holder)
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "pid %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return f, nil
}
