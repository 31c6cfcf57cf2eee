package netsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigValidate(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
		want string // part of the error; empty = valid
	}{
		{"zero", Config{}, ""},
		{"all", Config{Delay: time.Second, Loss: 1, Rate: 1e9, Queue: 1, Overhead: -1, Burst: Bursts(0.1, 5)}, ""},
		{"loss", Config{Loss: 1.5}, "Loss is 1.5"},
		{"not a number", Config{Duplicate: nan()}, "Duplicate is NaN"},
		{"negative loss", Config{Reorder: -0.1}, "Reorder is -0.1"},
		{"delay", Config{Delay: -1}, "Delay is -1ns"},
		{"idle", Config{Burst: Burst{Idle: -1}}, "Burst.Idle is -1ns"},
		{"rate", Config{Rate: -1}, "Rate is -1 bit/s"},
		{"rate", Config{Rate: 2e12}, "Rate is 2000000000000 bit/s"},
		{"queue", Config{Queue: -1}, "Queue is -1 bytes"},
		{"sizes that are lost", Config{LossMin: 9, LossMax: 8}, "LossMin is 9 bytes and LossMax 8"},
		{"sizes that are lost", Config{LossMin: -1}, "LossMin is -1 bytes"},
		{"sizes above a minimum", Config{LossMin: 9}, ""},
		{"MTU", Config{MTU: -1}, "MTU is -1 bytes"},
		{"endless burst", Config{Burst: Burst{Enter: 0.1}}, "never end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.cfg.Validate()
			if test.want == "" {
				require.NoError(t, err)
				require.NotPanics(t, func() { NewLink(test.cfg) })
				return
			}
			require.ErrorContains(t, err, test.want)
			require.Panics(t, func() { NewLink(test.cfg) })
		})
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, 64<<10, Config{}.queue())
	require.Equal(t, 64<<10, Config{Rate: 10e6, Delay: 25 * time.Millisecond}.queue(), "one BDP is 62,500 B")
	require.Equal(t, 625_000, Config{Rate: 100e6, Delay: 25 * time.Millisecond}.queue(), "one BDP")
	require.Equal(t, 1000, Config{Rate: 100e6, Queue: 1000}.queue())
	require.Equal(t, maxQueue, Config{Rate: maxRate, Delay: time.Hour}.queue())

	require.Equal(t, 28, Config{}.overhead())
	require.Equal(t, 48, Config{Overhead: 48}.overhead())
	require.Equal(t, 0, Config{Overhead: -1}.overhead())

	require.Equal(t, time.Millisecond, Config{}.reorderDelay())
	require.Equal(t, 5*time.Millisecond, Config{Delay: 20 * time.Millisecond}.reorderDelay())
	require.Equal(t, time.Second, Config{ReorderDelay: time.Second}.reorderDelay())
}
