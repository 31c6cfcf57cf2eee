//go:build !linux

package files

import "os"

// StartFlush does nothing: only Linux can flush without waiting for it.
func StartFlush(*os.File) {}
