package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEarliest(t *testing.T) {
	var e Earliest
	e.Add(time.Unix(1, 0), false)
	_, ok := e.Time()
	require.False(t, ok)
	for _, second := range []int64{5, 7, 3, 4} {
		e.Add(time.Unix(second, 0), true)
	}
	e.Add(time.Unix(1, 0), false)
	at, ok := e.Time()
	require.True(t, ok)
	require.Equal(t, time.Unix(3, 0), at)
}
