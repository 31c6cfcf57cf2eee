package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestElementsPerRPC(t *testing.T) {
	tests := []struct{ maxBytes, size, want int }{
		{0, 1, 32768},
		{0, 100, 327},
		{32 << 10, 32 << 10, 1},
		{32 << 10, 32<<10 + 1, 1},
		{32 << 10, 16<<10 + 1, 1},
		{32 << 10, 16 << 10, 2},
		{32 << 10, maxElementBytes, 1},
		{maxElementBytes, 1000, 65},
		{10, 500, 1},
	}
	for _, test := range tests {
		got, err := elementsPerRPC(test.maxBytes, test.size)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%+v", test)
	}
}

func TestElementsPerRPCRefusesWhatNeverFits(t *testing.T) {
	_, err := elementsPerRPC(0, maxElementBytes+1)
	require.EqualError(t, err, "element may take up to 65473 bytes; the limit is 65472, the largest bunch minus headers: reduce the bounds of its fields or split it")
	_, err = elementsPerRPC(-1, 10)
	require.ErrorContains(t, err, "MaxBytesPerRPC is -1")
	_, err = elementsPerRPC(maxRPCBytes, 10)
	require.ErrorContains(t, err, "MaxBytesPerRPC is 65536")
	_, err = elementsPerRPC(0, 0)
	require.ErrorContains(t, err, "not positive")
}
