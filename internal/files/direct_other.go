//go:build !linux

package files

import "os"

// setDirect does nothing, because O_DIRECT exists only on Linux.
func setDirect(*os.File, bool) (ok bool) { return false }
