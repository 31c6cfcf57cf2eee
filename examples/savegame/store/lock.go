package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quivernet/quiver/examples/savegame/flock"
)

// maxHolder bounds what is read of a lock file.
const maxHolder = 200

// takeLock takes a lock file until it is closed, and writes down who has it. The file stays: were it removed, two
// processes could lock two files of one name.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the store: %w", err)
	}
	err = flock.Try(f)
	if errors.Is(err, flock.ErrHeld) {
		holder, _ := io.ReadAll(io.LimitReader(f, maxHolder)) // empty: it is just being written
		err = &Locked{filepath.Dir(path), "another process, " + string(holder)}
	} else if err == nil {
		err = writeHolder(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func writeHolder(f *os.File) error {
	host, _ := os.Hostname() // only to be read by people
	holder := fmt.Sprintf("number %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(holder), 0)
	return err
}
