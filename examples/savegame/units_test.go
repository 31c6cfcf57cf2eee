package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "123": 123, "7B": 7, "64KiB": 64 << 10, "16MiB": 16 << 20, "16mib": 16 << 20, "1.5 GiB": 3 << 29, "2kb": 2000, "1TB": 1e12,
	} {
		got, err := parseSize(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "MiB", "-1", "16XiB", "1e30", "NaN", "1 2"} {
		_, err := parseSize(s)
		require.Error(t, err, s)
	}
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "10mbit": 10e6, "512kbit/s": 512e3, "1.5Gbit": 15e8, "9600bit": 9600, "8": 8} {
		got, err := parseRate(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "fast", "-1mbit", "10MB"} {
		_, err := parseRate(s)
		require.Error(t, err, s)
	}
}

func TestParseShare(t *testing.T) {
	for s, want := range map[string]float64{"0": 0, "1%": 0.01, "0.5 %": 0.005, "0.25": 0.25, "99.9%": 0.999} {
		got, err := parseShare(s)
		require.NoError(t, err, s)
		require.InDelta(t, want, got, 1e-12, s)
	}
	for _, s := range []string{"", "1", "100%", "-1%", "x%", "NaN"} {
		_, err := parseShare(s)
		require.Error(t, err, s)
	}
}

func TestFormat(t *testing.T) {
	require.Equal(t, "0 B", formatSize(0))
	require.Equal(t, "1023 B", formatSize(1023))
	require.Equal(t, "16.0 MiB", formatSize(16<<20))
	require.Equal(t, "2048.0 GiB", formatSize(2<<40))
	require.Equal(t, "8.0 MiB/s", formatRate(16<<20, 2*time.Second))
	require.Equal(t, "-", formatRate(1, 0))
}

func TestPercentile(t *testing.T) {
	var samples []time.Duration
	for i := 100; i >= 1; i-- {
		samples = append(samples, time.Duration(i))
	}
	require.Equal(t, time.Duration(99), percentile(samples, 99))
	require.Equal(t, time.Duration(50), percentile(samples, 50))
	require.Equal(t, time.Duration(100), percentile(samples, 100))
	require.Equal(t, time.Duration(1), percentile(samples, 0))
	require.Equal(t, time.Duration(7), percentile([]time.Duration{7}, 99))
	require.Zero(t, percentile(nil, 99))
	require.Equal(t, time.Duration(100), samples[0], "the samples keep their order")
	require.InDelta(t, 1.235, milliseconds(1235*time.Microsecond), 1e-9)
}

func TestIdeal(t *testing.T) {
	require.Zero(t, ideal(1<<20, 0, 0, 0))
	require.Equal(t, 25*time.Millisecond, ideal(1<<20, 50*time.Millisecond, 0.01, 0))
	require.Equal(t, 8*time.Second+25*time.Millisecond, ideal(10e6, 50*time.Millisecond, 0, 10e6))
	require.Equal(t, 16*time.Second, ideal(10e6, 0, 0.5, 10e6))
}
