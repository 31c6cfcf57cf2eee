//go:build !linux

package files

import "os"

// setDirect does nothing: only Linux has such a flag.
func setDirect(*os.File, bool) (ok bool) { return false }
