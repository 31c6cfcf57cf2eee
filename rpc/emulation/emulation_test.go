package emulation

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProfile(t *testing.T) {
	_, err := Profile("Terrible")
	require.ErrorContains(t, err, `unknown profile "Terrible"`)
	bad, err := Profile("Bad")
	require.NoError(t, err)
	require.Equal(t, Settings{PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond}, bad)
}

func TestEveryProfileMakesSense(t *testing.T) {
	for name, s := range profiles {
		require.NoError(t, s.Validate(), name)
	}
	require.ErrorContains(t, Settings{PktDup: -1}.Validate(), "emulation: Settings.PktDup is -1")
	require.ErrorContains(t, Settings{PktLossMinSize: 9, PktLossMaxSize: 8}.Validate(), "9 to 8 is not a range of sizes")
	require.NoError(t, Settings{PktLossMinSize: 9}.Validate())
	require.ErrorContains(t, Settings{LossBurst: math.NaN()}.Validate(), "emulation: Settings.LossBurst is NaN")
	require.ErrorContains(t, Settings{Rate: -1}.Validate(), "emulation: Settings.Rate is -1 bit/s")
	require.ErrorContains(t, Settings{IncomingRate: -1}.Validate(), "IncomingRate -1 bit/s")
}
