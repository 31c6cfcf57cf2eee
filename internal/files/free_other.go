//go:build netbsd || openbsd || solaris

package files

import "errors"

// Free fails, because each of these systems needs a different call.
func Free(string) (bytes int64, err error) { return 0, errors.ErrUnsupported }
