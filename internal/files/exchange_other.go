//go:build !linux

package files

import "errors"

// Exchange fails, because only Linux exchanges two names atomically.
func Exchange(_, _ string) error { return errors.ErrUnsupported }
