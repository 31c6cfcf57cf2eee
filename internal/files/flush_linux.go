package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// StartFlush has the system begin to write to the disk what it holds of a file, and does not wait for that: what is written meanwhile is not
// waited for in the end. It makes nothing durable, and does nothing where it cannot.
func StartFlush(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
	}
}
