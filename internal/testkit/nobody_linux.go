package testkit

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody is a user who owns nothing.
const Nobody = 65534

// AsNobody runs do, on one thread, with the rights of Nobody where the test is root's, who may read whatever a file's mode says. Files that do may
// read have to let others, or belong to Nobody.
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
