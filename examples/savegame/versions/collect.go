package versions

import (
	"context"
	"errors"
	"fmt"
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
	users, err := v.everyone(ctx)
	for _, u := range users {
		c, failed := u.collect(ctx)
		all = Collected{all.Versions + c.Versions, all.Objects + c.Objects, all.Bytes + c.Bytes}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("cleaning up the saves of %s: %w", u.name, failed))
		}
	}
	return all, err
}

func (u *User) collect(ctx context.Context) (Collected, error) {
	if err := u.lock(ctx); err != nil {
		return Collected{}, err
	}
	defer u.records.Unlock()
	u.freed = Collected{}
	var err error
	for name := range u.names {
		err = errors.Join(err, u.retain(ctx, name))
	}
	err = errors.Join(err, u.free(ctx, u.all.config.Now().Add(-u.all.config.Grace)))
	return u.freed, err
}
