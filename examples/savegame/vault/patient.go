package vault

import (
	"errors"
	"syscall"
	"time"

	"github.com/quivernet/quiver/stream"
)

const (
	// patience is how long a part is waited for that an ending transfer still holds.
	patience = 5 * time.Second
	// retryInterval is how often it is tried meanwhile.
	retryInterval = 20 * time.Millisecond
)

// Patient returns a store whose Open and Remove wait for a part that a transfer which is ending still holds. Where the
// content can not be stored at last Open fails: whoever publishes what the store holds can not do without.
func Patient(store stream.Store) stream.Store { return patient{store} }

type patient struct{ stream.Store }

func (p patient) Open(identity, key string, size int64) (stream.Part, error) {
	var part stream.Part
	err := whileBusy(func() (err error) {
		part, err = p.Store.Open(identity, key, size)
		return err
	})
	switch {
	case errors.Is(err, stream.ErrPartBusy):
		return nil, errors.New("another transfer of the same content goes on; try again when it has ended")
	case errors.Is(err, stream.ErrStoreFull):
		return nil, errors.New(err.Error()) // a plain error: the transfer does not go on without being stored
	}
	return part, err
}

func (p patient) Remove(identity, key string) error {
	return whileBusy(func() error { return p.Store.Remove(identity, key) })
}

// whileBusy repeats fn until the part is free.
func whileBusy(fn func() error) error {
	for range patience / retryInterval {
		if err := fn(); !errors.Is(err, stream.ErrPartBusy) {
			return err
		}
		time.Sleep(retryInterval)
	}
	return fn()
}

// DropIfFull removes what a store keeps of a content that a full disk stopped: it would keep the disk full for nothing.
func DropIfFull(store stream.Store, identity, key string, err error) {
	if errors.Is(err, syscall.ENOSPC) {
		_ = store.Remove(identity, key)
	}
}
