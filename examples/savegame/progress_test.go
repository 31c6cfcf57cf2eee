package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// still is a transfer that does not move.
type still struct{ p stream.Progress }

func (s still) Progress() stream.Progress { return s.p }
func (s still) Done() <-chan struct{}     { return nil }

func TestMeter(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeter(now)
	require.Equal(t, "  0 % of 4.0 MiB", m.describe(stream.Progress{Total: 4 << 20}))
	m.add(now.Add(time.Second), 1<<20)
	require.Equal(t, " 25 % of 4.0 MiB, 1.0 MiB/s, 3s left", m.describe(stream.Progress{Acked: 1 << 20, Total: 4 << 20}))
	m.add(now.Add(4*time.Second), 4<<20)
	require.Equal(t, "100 % of 4.0 MiB, 1.0 MiB/s", m.describe(stream.Progress{Acked: 4 << 20, Total: 4 << 20}))
	require.Equal(t, "100 % of 0 B", newMeter(now).describe(stream.Progress{}))
}

func TestMeterForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeter(now)
	m.add(now.Add(time.Second), 100<<20) // what was there before
	for i := range 10 {
		m.add(now.Add(time.Duration(i+2)*time.Second), 100<<20+int64(i+1)<<20)
	}
	require.InDelta(t, 1<<20, m.rate(), 1)
}

func TestDisplayWritesLines(t *testing.T) {
	var out bytes.Buffer
	d := newDisplay(&out)
	require.False(t, d.terminal)
	d.watch("put x", still{stream.Progress{Acked: 5, Total: 10}})()
	require.Regexp(t, `^put x:  50 % of 10 B`, out.String())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\r")
}

func TestDisplayDrawsABar(t *testing.T) {
	var out bytes.Buffer
	d := &display{out: &out, terminal: true}
	d.watch("put x", still{stream.Progress{Acked: 5 << 20, Total: 10 << 20}})()
	require.Contains(t, out.String(), "put x")
	require.Contains(t, out.String(), "50%")
	require.Contains(t, out.String(), "MiB")
}

func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("first"), errors.New("second\r\nthird"))
	require.Equal(t, "first; second; third", oneLine(err))
}
