package testkit

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody is the ID of a user that owns nothing.
const Nobody = 65534

// AsNobody runs do on one thread. If the test runs as root, which may read any file, do has only
// the file access rights of Nobody. It can then read only files that belong to Nobody or that
// others may read.
func AsNobody(t testing.TB, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		if _, err := unix.SetfsuidRetUid(Nobody); err != nil {
			t.Fatal(err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	do()
}
