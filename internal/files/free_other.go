//go:build netbsd || openbsd || solaris

package files

import "errors"

// Free fails: these systems each have another call for it than all the others.
func Free(string) (bytes int64, err error) { return 0, errors.ErrUnsupported }
