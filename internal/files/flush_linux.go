package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// StartFlush makes the system begin to write a file's cached content to the disk, without
// waiting for the end. A later flush then has less to wait for. It makes nothing durable, and
// does nothing if it cannot.
func StartFlush(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			_ = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		})
	}
}
