package vault

import (
	"errors"
	"fmt"
)

// Errors of a save that does not fit.
var (
	ErrTooLarge = errors.New("save is too large")
	ErrQuota    = errors.New("quota exceeded")
)

// reservation is room for a save that is on its way.
type reservation struct {
	name string
	size int64
}

// Reserve takes room for a save of that name, in place of the one that has the name now. Release gives it back, once
// the save is there or will not come.
func (f *Folder) Reserve(name string, size int64) (release func(), err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	limits := f.vault.limits
	if limits.MaxBytes > 0 && size > limits.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the server's limit is %d (-max-size)", ErrTooLarge, size, limits.MaxBytes)
	}
	v := f.vault
	v.mu.Lock()
	defer v.mu.Unlock()
	used, count, err := f.usedLocked(name)
	if err != nil {
		return nil, err
	}
	if limits.Quota > 0 && used+size > limits.Quota {
		return nil, fmt.Errorf("%w: %d bytes are stored and %d more do not fit into %d (-quota)", ErrQuota, used, size, limits.Quota)
	}
	if count >= maxSaves {
		return nil, fmt.Errorf("%w: %d saves are stored, the limit is %d", ErrQuota, count, maxSaves)
	}
	r := &reservation{name, size}
	if v.reserved[f.identity] == nil {
		v.reserved[f.identity] = make(map[*reservation]struct{})
	}
	v.reserved[f.identity][r] = struct{}{}
	return func() { f.release(r) }, nil
}

// usedLocked counts the saves but the one called except, and what is reserved.
func (f *Folder) usedLocked(except string) (bytes int64, count int, err error) {
	saves, err := f.List()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range saves {
		if s.Name != except {
			bytes += s.Size
			count++
		}
	}
	for r := range f.vault.reserved[f.identity] {
		bytes += r.size
		count++
	}
	return bytes, count, nil
}

func (f *Folder) release(r *reservation) {
	f.vault.mu.Lock()
	defer f.vault.mu.Unlock()
	delete(f.vault.reserved[f.identity], r)
	if len(f.vault.reserved[f.identity]) == 0 {
		delete(f.vault.reserved, f.identity)
	}
}
