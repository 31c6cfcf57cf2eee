package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/stream"
)

// Errors of a save that does not fit.
var (
	ErrTooLarge = errors.New("save is too large")
	ErrQuota    = errors.New("quota exceeded")
)

// What one identity may have. A list of its saves stays short by that, and so does the number of its open files.
const (
	maxSaves   = 1000
	maxUploads = 16 // at once; others wait for their turn
	maxParts   = 16 // unfinished uploads that nobody goes on with now
)

// reservation is room for a save that is on its way. Its content is not evicted as long as there is one.
type reservation struct {
	key  string // of the content in the store
	size int64
}

// account is what one identity has on its way. Guarded by the vault's mutex.
type account struct {
	reserved map[*reservation]struct{}
	freed    chan struct{} // closed when a reservation is given back
}

// Reserve takes room for a save of that name whose content has that key in the store. Release gives it back, once the
// save is there or will not come. All bytes of the identity on the disk count: its saves, also one that is to be
// replaced, and its unfinished uploads, of which the oldest are deleted where that makes enough room. While other
// uploads of the identity have the room, Reserve waits.
func (f *Folder) Reserve(ctx context.Context, name, key string, size int64) (release func(), err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if most := f.vault.limits.MaxBytes; most > 0 && size > most {
		return nil, fmt.Errorf("%w: %d bytes, the server's limit is %d (--max-size)", ErrTooLarge, size, most)
	}
	r := &reservation{key, size}
	for {
		again, err := f.tryReserve(r, name)
		switch {
		case err == nil:
			return func() { f.release(r) }, nil
		case again == nil:
			return nil, err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// tryReserve fails with a channel when it is worth while to try again, once that is closed.
func (f *Folder) tryReserve(r *reservation, name string) (again <-chan struct{}, err error) {
	v := f.vault
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.accounts[f.identity]
	if a == nil {
		a = &account{reserved: make(map[*reservation]struct{}), freed: make(chan struct{})}
	}
	again, err = f.fitLocked(a, r, name)
	if err == nil {
		a.reserved[r] = struct{}{}
		v.accounts[f.identity] = a
	}
	return again, err
}

// fitLocked reports why there is no room, and makes some by deleting unfinished uploads.
func (f *Folder) fitLocked(a *account, r *reservation, name string) (again <-chan struct{}, err error) {
	stored, others, err := f.usedLocked(name)
	if err != nil {
		return nil, err
	}
	coming, keys := int64(0), []string{r.key}
	for other := range a.reserved {
		coming += other.size
		keys = append(keys, other.key)
	}
	quota := f.vault.limits.Quota
	room := quota - stored - coming - r.size
	switch {
	case quota > 0 && r.size > quota-stored:
		return nil, fmt.Errorf("%w: %d bytes are stored and %d more do not fit into %d (--quota); a save that is replaced counts until the new one is whole", ErrQuota, stored, r.size, quota)
	case others >= maxSaves:
		return nil, fmt.Errorf("%w: %d saves are stored, the limit is %d", ErrQuota, others, maxSaves)
	case len(a.reserved) >= maxUploads, others+len(a.reserved) >= maxSaves, quota > 0 && room < 0:
		return a.freed, fmt.Errorf("%w: %d other uploads of %d bytes go on", ErrQuota, len(a.reserved), coming)
	case quota <= 0:
		room = -1
	}
	err = f.vault.store.Trim(f.identity, room, maxParts, keys...)
	if errors.Is(err, stream.ErrPartBusy) {
		return soon(), err // a transfer of them is just ending
	}
	return nil, err
}

// usedLocked counts the bytes of the saves, and the saves but the one called except.
func (f *Folder) usedLocked(except string) (bytes int64, others int, err error) {
	saves, err := f.List()
	for _, s := range saves {
		bytes += s.Size
		if s.Name != except {
			others++
		}
	}
	return bytes, others, err
}

// soon is a channel that will be closed after retryInterval.
func soon() <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(retryInterval, func() { close(c) })
	return c
}

func (f *Folder) release(r *reservation) {
	f.vault.mu.Lock()
	defer f.vault.mu.Unlock()
	a := f.vault.accounts[f.identity]
	delete(a.reserved, r)
	close(a.freed)
	a.freed = make(chan struct{})
	if len(a.reserved) == 0 {
		delete(f.vault.accounts, f.identity)
	}
}
