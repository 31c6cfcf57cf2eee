package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInstancesComeOneAfterAnother: the next one may be opened when the one before has ended, in order and not too often.
func TestInstancesComeOneAfterAnother(t *testing.T) {
	var i Instances
	now := time.Unix(1000, 0)
	i.Begin(now)
	i.Renew(1)
	require.True(t, i.Live())
	require.False(t, i.MayOpen(2, now), "the first one is in use")
	i.End(now)
	require.False(t, i.MayOpen(3, now), "one is left out")
	for n := uint32(2); n <= freeInstances; n++ {
		require.True(t, i.MayOpen(n, now))
		i.Fail(n, now)
	}
	require.False(t, i.MayOpen(freeInstances+1, now), "too often")
	now = now.Add(instanceTime)
	require.True(t, i.MayOpen(freeInstances+1, now))
	require.EqualValues(t, freeInstances, i.Newest())
}

// TestPausesDouble: while none opens.
func TestPausesDouble(t *testing.T) {
	var i Instances
	now := time.Unix(1000, 0)
	i.Begin(now)
	var waits []time.Duration
	for n := uint32(1); n < 10; n++ {
		i.Renew(n)
		i.End(now)
		wait := i.Next(now)
		waits = append(waits, wait)
		now = now.Add(wait)
		require.Zero(t, i.Next(now))
	}
	require.Equal(t, []time.Duration{10, 20, 40, 80, 160, 320, 600, 600, 600}, seconds(waits))
	i.Opened()
	i.End(now)
	require.Equal(t, LeastRetryTime, i.Next(now))
}

func seconds(times []time.Duration) (s []time.Duration) {
	for _, d := range times {
		s = append(s, d/time.Second)
	}
	return s
}

// TestMessagesOfInstances: of one that has passed is no error, of one to come, and ids that nobody asked for, are.
func TestMessagesOfInstances(t *testing.T) {
	var i Instances
	i.Begin(time.Unix(1000, 0))
	i.Renew(1)
	i.End(time.Unix(1001, 0))
	i.Renew(2)
	for instance, want := range [][2]bool{{false, true}, {false, true}, {true, true}, {false, false}} {
		current, ok := i.Has(uint32(instance))
		require.Equal(t, want, [2]bool{current, ok}, "%d", instance)
	}
	_, ok := i.Given(2)
	require.False(t, ok)
	require.False(t, i.Want(FewSpares))
	require.True(t, i.Want(FewSpares-1))
	require.False(t, i.Want(0), "they are asked for")
	current, ok := i.Given(2)
	require.True(t, current && ok)
	require.True(t, i.Want(0))
	current, ok = i.Given(1)
	require.True(t, ok && !current)
}
