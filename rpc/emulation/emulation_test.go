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
}

// TestSettingsThatMakeNoSense: every field has the same text for a negative value, and a field that
// limits another is named.
func TestSettingsThatMakeNoSense(t *testing.T) {
	for name, s := range map[string]Settings{
		"PktLossMinSize is -1":      {PktLossMinSize: -1},
		"PktLossMaxSize is -1":      {PktLossMaxSize: -1},
		"PktLag is -1ns":            {PktLag: -1},
		"PktLagVariance is -1ns":    {PktLagVariance: -1},
		"PktLagMin is -1ns":         {PktLagMin: -1},
		"PktLagMax is -1ns":         {PktLagMax: -1},
		"PktJitter is -1ns":         {PktJitter: -1},
		"PktIncomingLagMin is -1ns": {PktIncomingLagMin: -1},
		"PktIncomingLagMax is -1ns": {PktIncomingLagMax: -1},
		"LossBurst is NaN":          {LossBurst: math.NaN()},
		"LossBurst is -1":           {LossBurst: -1},
		"Rate is -1":                {Rate: -1},
		"IncomingRate is -1":        {IncomingRate: -1},
		"Queue is -1":               {Queue: -1},
	} {
		require.EqualError(t, s.Validate(), "emulation: Settings."+name+"; it must not be negative")
	}
	for want, s := range map[string]Settings{
		"PktLoss is 101; it must be a percentage from 0 to 100":                          {PktLoss: 101},
		"PktDup is -1; it must be a percentage from 0 to 100":                            {PktDup: -1},
		"PktIncomingLoss is -1; it must be a percentage":                                 {PktIncomingLoss: -1},
		"PktLag is 100ns; the minimum is 10µs: give it a unit, such as time.Millisecond": {PktLag: 100},
		"PktLagMax is 60ns; the minimum":                                                 {PktLagMin: 30, PktLagMax: 60},
		"PktJitter is 5ns; the minimum":                                                  {PktJitter: 5},
		"PktIncomingLagMax is 9ns; the minimum":                                          {PktIncomingLagMax: 9},
		"PktLagVariance is 20ms; the limit is 10ms (PktLag)":                             {PktLag: 10 * time.Millisecond, PktLagVariance: 20 * time.Millisecond},
		"PktLagVariance is 1ns; the limit is 0s (PktLag)":                                {PktLagVariance: 1},
		"PktLagMin is 2ns; the limit is 1ns (PktLagMax)":                                 {PktLagMin: 2, PktLagMax: 1},
		"PktIncomingLagMin is 2ns; the limit is 0s (PktIncoming":                         {PktIncomingLagMin: 2},
		"PktLossMinSize is 9; the limit is 8 (PktLossMaxSize)":                           {PktLossMinSize: 9, PktLossMaxSize: 8},
		"PktLag is 1h0m0.000000001s; the maximum is 1h0m0s":                              {PktLag: time.Hour + 1, PktLagVariance: time.Hour},
		"PktLagMax is 2562047h47m16.854775807s; the maximum is 1h":                       {PktLagMax: math.MaxInt64},
		"PktJitter is 2562047h47m16.854775807s; the maximum is 1h":                       {PktJitter: math.MaxInt64},
		"PktIncomingLagMax is 2562047h47m16.854775807s; the maxim":                       {PktIncomingLagMax: math.MaxInt64},
		"Rate is 1000000000001; the maximum is 1000000000000":                            {Rate: 1e12 + 1},
		"IncomingRate is 9223372036854775807; the maximum is":                            {IncomingRate: math.MaxInt64},
		"Queue is 1073741825; the maximum is 1073741824":                                 {Queue: 1<<30 + 1},
		"LossBurst is +Inf; it must be finite":                                           {LossBurst: math.Inf(1)},
		"LossBurst is 2; the minimum is 9.00 with a PktLoss of 90":                       {LossBurst: 2, PktLoss: 90},
	} {
		require.ErrorContains(t, s.Validate(), "emulation: Settings."+want)
	}
	for _, s := range []Settings{{PktLossMinSize: 9}, {PktLag: time.Second, PktLagVariance: time.Second}, {LossBurst: 9, PktLoss: 90}, {LossBurst: 2, PktLoss: 100}, {LossBurst: 1, PktLoss: 90}} {
		require.NoError(t, s.Validate())
	}
}
