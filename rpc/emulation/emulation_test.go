package emulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProfile(t *testing.T) {
	_, err := Profile("Terrible")
	require.ErrorContains(t, err, `no emulation profile "Terrible"`)
	bad, err := Profile("Bad")
	require.NoError(t, err)
	require.Equal(t, Settings{PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond}, bad)
}

func TestEveryProfileMakesSense(t *testing.T) {
	for name, s := range profiles {
		require.NoError(t, s.Validate(), name)
	}
	require.ErrorContains(t, Settings{PktDup: -1}.Validate(), "emulation: Settings.PktDup is -1")
}
