package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// setDirect sets whether writes to f bypass the system's cache. It reports whether the file
// system supports this.
func setDirect(f *os.File, on bool) (ok bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		flags &^= unix.O_DIRECT
		if on {
			flags |= unix.O_DIRECT
		}
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
		}
		ok = err == nil
	})
	return ok
}
