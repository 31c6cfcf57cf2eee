package desk

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
)

// The manifest of a put that was refused was never taken, and when there were four the next one never began.
func TestRefusedPutsAreInNobodysWay(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	_, err := put(t, c, PutOptions{}, []byte("first"))
	require.NoError(t, err)
	for range 10 {
		var conflict *versions.Conflict
		_, err := put(t, c, PutOptions{}, []byte("second"))
		require.ErrorAs(t, err, &conflict)
	}
	_, err = put(t, c, PutOptions{Mode: versions.Force}, []byte("second"))
	require.NoError(t, err)
}

// Lists that a client asked for and did not read were kept for it, a thousand of them.
func TestUnreadLists(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	_, err := put(t, c, PutOptions{}, nil)
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	refused := make(chan error, 2*maxJobs)
	var asking sync.WaitGroup
	for range maxJobs + 4 {
		asking.Go(func() {
			_, err := ask(ctx, c, askList, listArgs{Number: c.next()})
			refused <- err
		})
	}
	for range 4 {
		require.ErrorIs(t, <-refused, errOther)
	}
	leave()
	asking.Wait()
	require.Eventually(t, func() bool {
		_, err := c.List(t.Context())
		return err == nil
	}, time.Minute, time.Millisecond)
}
