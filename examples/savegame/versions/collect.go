package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Collected says what Collect deleted.
type Collected struct {
	Versions int   // that have had their time
	Objects  int   // that no version, put or get refers to
	Bytes    int64 // of the store, of both
}

// Collect deletes what has had its time and, after the grace, what puts that were given up left behind. It goes on with
// the next user when one fails. Run it now and then, as once in an hour; puts and gets may go on meanwhile.
func (v *Versions) Collect(ctx context.Context) (all Collected, err error) {
	names, _, err := v.names(ctx)
	v.mu.Lock()
	names = slices.AppendSeq(names, maps.Keys(v.users)) // who has nothing there may be remembered to have some
	v.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		u, failed := v.User(ctx, name)
		if failed == nil {
			var c Collected
			c, failed = u.collect(ctx)
			all = Collected{all.Versions + c.Versions, all.Objects + c.Objects, all.Bytes + c.Bytes}
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("cleaning up the saves of %s: %w", name, failed))
		}
	}
	return all, err
}

func (u *User) collect(ctx context.Context) (Collected, error) {
	u.records.Lock()
	defer u.records.Unlock()
	u.mu.Lock()
	if u.running == 0 {
		u.names = nil // the store may have more than is remembered, where calls failed
	}
	before := u.freed
	u.mu.Unlock()
	if err := u.learn(ctx); err != nil {
		return Collected{}, err
	}
	var err error
	for name := range u.names {
		err = errors.Join(err, u.retain(ctx, name))
	}
	chunks, manifests := u.orphans(u.all.config.Now().Add(-u.all.config.Grace))
	err = errors.Join(err, u.free(ctx, chunks, manifests))
	u.mu.Lock()
	defer u.mu.Unlock()
	after := u.freed
	return Collected{after.Versions - before.Versions, after.Objects - before.Objects, after.Bytes - before.Bytes}, err
}
