package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// still is a transfer that does not move.
type still struct{ p stream.Progress }

func (s still) Progress() stream.Progress { return s.p }

func words(s state) string { return strings.Join(s.words, "") }

func TestMeter(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeter(now)
	require.Equal(t, "  0 % of 4.0 MiB", words(m.describe(now, stream.Progress{Total: 4 << 20})))
	require.Equal(t, " 25 % of 4.0 MiB, 1.0 MiB/s, 3s left", words(m.describe(now.Add(time.Second), stream.Progress{Acked: 1 << 20, Total: 4 << 20})))
	require.Equal(t, "100 % of 4.0 MiB, 1.0 MiB/s", words(m.describe(now.Add(4*time.Second), stream.Progress{Acked: 4 << 20, Total: 4 << 20})))
	require.Equal(t, "100 % of 0 B", words(newMeter(now).describe(now, stream.Progress{})))
}

// What was there already showed as if it had come in the first second.
func TestMeterOfAResumedTransfer(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeter(now)
	p := stream.Progress{Total: 4 << 20, Resumed: 2 << 20}
	require.Equal(t, " 50 % of 4.0 MiB", words(m.describe(now.Add(time.Second), p)))
	p.Acked = 3 << 20
	require.Equal(t, " 75 % of 4.0 MiB, 512.0 KiB/s, 2s left", words(m.describe(now.Add(2*time.Second), p)))
}

func TestMeterForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeter(now)
	m.add(now.Add(time.Second), 100<<20) // a burst
	for i := range 10 {
		m.add(now.Add(time.Duration(i+2)*time.Second), 100<<20+int64(i+1)<<20)
	}
	require.InDelta(t, 1<<20, m.rate(), 1)
}

// look watches a transfer for so long.
func look(d *display, p stream.Progress, long time.Duration) {
	stop := d.watch("x", still{p})
	time.Sleep(long)
	stop()
}

func TestDisplayWritesLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDisplay(&out)
		look(d, stream.Progress{Acked: 5, Total: 10}, 2500*time.Millisecond)
		require.Equal(t, 3, strings.Count(out.String(), "\n"))
		require.Regexp(t, `^x:  50 % of 10 B`, out.String())
		require.NotContains(t, out.String(), "\r")
		require.Equal(t, 2500*time.Millisecond, d.took)

		out.Reset()
		look(d, stream.Progress{Acked: 5, Total: 10}, lineInterval/2)
		require.Empty(t, out.String(), "it was over soon")
	})
}

func TestDisplayDrawsABar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &display{out: &out, terminal: func() int { return 45 }}
		look(d, stream.Progress{Acked: 5 << 20, Total: 10 << 20}, barInterval*7/2)
		require.Equal(t, 1, strings.Count(out.String(), "\n"), "all but the last are drawn over")
		require.Contains(t, out.String(), "\rx:  50 % of 10.0 MiB")
	})
}

// A terminal of 45 columns got a new line with every look.
func TestLineFitsTheTerminal(t *testing.T) {
	m := newMeter(time.Unix(1000, 0))
	s := m.describe(time.Unix(1010, 0), stream.Progress{Acked: 5 << 20, Total: 10 << 20})
	for _, label := range []string{"x", "world.sav", strings.Repeat("進行", 40), strings.Repeat("e\u0301", 50)} {
		for most := 1; most < 120; most++ {
			line := fit(label, s, most)
			require.LessOrEqual(t, columns(line), most, line)
			if most >= 5 {
				require.Contains(t, line, " 50 %")
			}
		}
	}
	require.Equal(t, "world.sav:  50 %", fit("world.sav", s, 19))
	require.Equal(t, "world.sav:  50 % of 10.0 MiB, 512.0 KiB/s", fit("world.sav", s, 44))
	require.Equal(t, "world.sav:  50 % of 10.0 MiB, 512.0 KiB/s, 10s left [======      ]", fit("world.sav", s, 66))
}

func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("first"), errors.New("second\r\nthird"))
	require.Equal(t, "first; second; third", oneLine(err))
}
