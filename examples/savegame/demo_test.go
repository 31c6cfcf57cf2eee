package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func demoReport(t *testing.T, args ...string) (report, map[string]any) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	r := runProgram(t.Context(), append(args, "-json")...)
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Equal(t, 1, strings.Count(r.stdout, "\n"))
	var rep report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &fields))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "the demo's folder is gone")
	return rep, fields
}

func requireSane(t *testing.T, r report, size int64) {
	t.Helper()
	require.True(t, r.DigestOK)
	require.Equal(t, size, r.Bytes)
	require.Positive(t, r.UploadSeconds)
	require.Positive(t, r.DownloadSeconds)
	require.Equal(t, 256, r.Slots)
	require.Positive(t, r.PeakOutEntries)
	require.LessOrEqual(t, r.PeakOutEntries, r.Slots/2-1+30) // R/2-1+N
	require.Greater(t, r.LinkBytes, uint64(2*size))
	require.Equal(t, "sealed", r.Carrier)
	require.Positive(t, r.RPCP99)
	require.Positive(t, r.RPCP99Unloaded)
}

func TestDemo(t *testing.T) {
	r, fields := demoReport(t, "demo", "-size", "2MiB")
	requireSane(t, r, 2<<20)
	require.Zero(t, r.IdealSeconds)
	for _, name := range []string{
		"bytes", "upload_seconds", "download_seconds", "ideal_seconds", "digest_ok", "peak_out_entries", "slots", "resent_bunches",
		"link_bytes", "carrier", "sealed_packets", "rpc_p99_ms", "rpc_p99_unloaded_ms",
	} {
		require.Contains(t, fields, name)
	}
}

func TestDemoOverAnEmulatedLink(t *testing.T) {
	r, _ := demoReport(t, "-size", "300KB", "-rtt", "10ms", "-loss", "1%", "-rate", "20mbit", "-seed", "3")
	requireSane(t, r, 300_000)
	require.InDelta(t, 0.005+300_000*8/20e6/0.99, r.IdealSeconds, 1e-6)
	require.Greater(t, r.RPCP99Unloaded, 5.0, "the link delays calls")
}

func TestDemoOfAFile(t *testing.T) {
	path, _ := newFile(t, 54321)
	r, _ := demoReport(t, "demo", "-file", path, "-lanes", "2")
	requireSane(t, r, 54321)
}

func TestDemoBySlices(t *testing.T) {
	r, _ := demoReport(t, "-size", "1MiB", "-rtt", "10ms", "-loss", "1%", "-backend", "slices", "--carrier", "quic")
	require.True(t, r.DigestOK)
	require.Equal(t, "quic", r.Carrier)
	require.Less(t, r.PeakOutEntries, 16, "the content fills no reliable buffer")
	require.Positive(t, r.RPCP99)
}

func TestDemoByTheSealedCarrier(t *testing.T) {
	r, _ := demoReport(t, "-size", "1MiB", "-rtt", "10ms", "-loss", "1%", "-backend", "slices")
	require.True(t, r.DigestOK)
	require.Equal(t, "sealed", r.Carrier)
	require.Greater(t, r.SealedPackets, uint64(2<<20/1200))
	require.Less(t, r.PeakOutEntries, 16, "the content fills no reliable buffer")
	require.Positive(t, r.RPCP99)
}

func TestDemoForPeople(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := runProgram(t.Context(), "-size", "100KiB")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "gameplay alone")
	for _, word := range []string{"upload", "download", "identical", "of 256 entries", "gameplay RPC, p99"} {
		require.Contains(t, r.stdout, word)
	}
}

func TestDemoOfAMissingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	requireFailure(t, runProgram(t.Context(), "demo", "-file", missing), missing)
}
