//go:build !linux

package files

import "os"

// StartFlush does nothing. Only Linux has a call, sync_file_range(2), that starts writing a
// file to disk without waiting for the end.
func StartFlush(*os.File) {}
