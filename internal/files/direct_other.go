//go:build !linux

package files

import "os"

// setDirect does nothing: O_DIRECT is Linux's.
func setDirect(*os.File, bool) (ok bool) { return false }
