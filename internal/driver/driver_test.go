package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDriver: one goroutine at a time is between Enter and Exit, the one that
// drove last is inside, and signals that nothing waits for are one.
func TestDriver(t *testing.T) {
	d := New()
	require.False(t, d.Inside())
	require.True(t, d.Enter(true))
	require.False(t, d.Enter(false), "it is taken")
	require.True(t, d.Inside())
	d.Exit()
	require.True(t, d.Inside(), "it drove last")
	other := make(chan [2]bool)
	go func() {
		before := d.Inside()
		d.Enter(false)
		other <- [2]bool{before, d.Inside()}
	}()
	require.Equal(t, [2]bool{}, <-other, "who does not say that it drives is not inside")
	d.Rest(true)
	go func() { other <- [2]bool{d.Inside()} }()
	require.Equal(t, [2]bool{}, <-other)
	d.Rest(false)
	require.True(t, d.Inside())
	require.False(t, d.Outside())
	go func() { other <- [2]bool{d.Outside(), New().Outside()} }()
	require.Equal(t, [2]bool{true, false}, <-other, "nobody has driven the new one")
	d.Signal()
	d.Signal()
	<-d.Wake()
	require.Empty(t, d.Wake())
}

// TestDrivenBy: the number that was given counts for one Enter of a goroutine
// that drives, and for no other.
func TestDrivenBy(t *testing.T) {
	d := New()
	d.DrivenBy(Goroutine() + 1)
	require.True(t, d.Enter(false))
	d.Exit()
	require.True(t, d.Enter(true))
	d.Exit()
	require.False(t, d.Inside(), "it was another goroutine's")
	require.True(t, d.Enter(true))
	d.Exit()
	require.True(t, d.Inside(), "nobody has given one")
	d.DrivenBy(Goroutine() + 1)
	require.True(t, d.Enter(false))
	require.False(t, d.Enter(true), "the seat is taken")
	d.Exit()
	require.True(t, d.Enter(true))
	d.Exit()
	require.True(t, d.Inside(), "the number was that of the Enter which failed")
	d.DrivenBy(Goroutine())
	require.True(t, d.Enter(true))
	d.Exit()
	require.True(t, d.Inside())
}
