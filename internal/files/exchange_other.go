//go:build !linux

package files

import "errors"

// Exchange fails: only Linux swaps two names in one step.
func Exchange(_, _ string) error { return errors.ErrUnsupported }
