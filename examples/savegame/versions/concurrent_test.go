package versions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/internal/testkit"
)

// Whatever is put, read and deleted while Collect runs without any grace,
// nothing that is referred to is deleted.
func TestCollectBesidePuts(t *testing.T) { collectBesidePuts(t, 0) }

// The same holds if one call of the store in twenty fails, and the store is
// read again while puts and gets run.
func TestCollectBesidePutsOnAFailingStore(t *testing.T) { collectBesidePuts(t, 20) }

func collectBesidePuts(t *testing.T, one int) {
	c := Config{Grace: 1, Keep: 2, KeepFor: 1, Quota: 400_000}
	p := newPlace(t, c)
	failing := storetest.NewFailing(storetest.NewMemory(nil), testkit.Rand(t), 0) // both clocks are the real one
	p.store = &slow{failing}
	all, err := Open(t.Context(), p.store, c)
	require.NoError(t, err)
	p.all = all
	u, seed := p.user("alice"), testkit.Seed(t)
	failing.Fail(one)
	var clients sync.WaitGroup
	for client := range uint64(6) {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, client))
			for range 25 {
				if err := live(t, u, r, fmt.Sprintf("world %d", r.IntN(3))); err != nil && !errors.Is(err, storetest.ErrFailing) {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			if _, err := all.Collect(t.Context()); err != nil && !errors.Is(err, storetest.ErrFailing) {
				t.Error(err)
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	clients.Wait()
	close(done)
	collector.Wait()
	failing.Fail(0)
	p.collect()
	p.requireSound()
}

// live puts and reads, or deletes.
func live(t *testing.T, u *User, r *rand.Rand, name string) error {
	if r.IntN(8) == 0 {
		if err := u.Erase(t.Context(), name, machine, Ref{}, true); !errors.Is(err, ErrNoSave) {
			return err
		}
		return nil
	}
	var chunks []string
	for range 1 + r.IntN(3) {
		chunks = append(chunks, noise(r.Uint64N(5), 5000))
	}
	s := saveOf(chunks...)
	var full *Full
	if _, _, err := put(t.Context(), u, Request{Name: name, Mode: Force}, s); err != nil && !errors.As(err, &full) {
		return err
	}
	_, err := get(t.Context(), u, name, 0) // what is newest now, whoever put it: whole
	if errors.Is(err, ErrNoSave) || errors.Is(err, ErrTrash) {
		return nil
	}
	return err
}
