package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/demo"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestDemoJSON: all fields are there, and what the flags say is what is measured.
func TestDemoJSON(t *testing.T) {
	testkit.TempDir(t)
	run := runProgram("", "demo", "-size", "300KB", "-rtt", "10ms", "-jitter", "2ms", "-loss", "1%", "-rate", "20mbit", "-seed", "3", "-json")
	require.Zero(t, run.code, run.stderr)
	require.Empty(t, run.stderr)
	require.Equal(t, 1, strings.Count(run.stdout, "\n"))
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(run.stdout), &fields))
	for _, name := range []string{
		"bytes", "sent_bytes", "chunks", "upload_seconds", "download_seconds", "ideal_seconds", "digest_ok",
		"link_bytes", "link_loss", "carrier", "sealed_packets", "rpcs", "rpc_p99_ms", "rpcs_unloaded", "rpc_p99_unloaded_ms", "jain", "clients",
	} {
		require.Contains(t, fields, name)
	}
	var r demo.Report
	require.NoError(t, json.Unmarshal([]byte(run.stdout), &r))
	require.True(t, r.DigestOK)
	require.EqualValues(t, 300_000, r.Bytes)
	require.Equal(t, "sealed", r.Carrier)
	require.InDelta(t, 0.005+float64(r.SentBytes)*8/20e6/0.99, r.Ideal, 1e-6, "what is sent")
	require.Positive(t, r.RPCs)
	require.Positive(t, r.RPCsUnloaded)
	require.Greater(t, r.RPCP99Unloaded, 5.0, "the link delays calls")
	require.Greater(t, r.LinkBytes, uint64(2*r.SentBytes))
	require.Positive(t, r.LinkLoss)
}

func TestDemoTable(t *testing.T) {
	testkit.TempDir(t)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one"), make([]byte, 70_000), 0o600))
	r := runProgram("", "demo", "-file", folder, "-lanes", "2")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "gameplay alone")
	for _, word := range []string{"upload", "download", "68 KiB", "identical", "compressed", "gameplay RPC, p99"} {
		require.Contains(t, r.stdout, word)
	}
	require.NotContains(t, r.stdout, "ideal", "the loopback has no rate")

	missing := filepath.Join(folder, "none")
	requireFailure(t, runProgram("", "demo", "-file", missing), exitFailed, missing)
}

// A demo of a save that the disk has no room for filled that.
func TestDemoAsksForRoom(t *testing.T) {
	testkit.TempDir(t)
	want := []string{"save of 1.0 EB is written 7 times", "are free: no space left on device (the demo runs in " + os.TempDir(), "$TMPDIR"}
	requireFailure(t, runProgram("", "demo", "-size", "1EB", "-clients", "3"), exitFull, want...)
}

func TestDemoFlags(t *testing.T) {
	for _, c := range []string{
		"-size big", "-rate fast", "-rate 2000gbit", "-loss some", "-loss 100%", "-loss NaN", "-clients 0", "-backend pigeon", "-carrier pigeon",
		"-lanes x", "-lanes -1", "-jitter -1s", "-rtt -5ms", "-bogus", "word",
	} {
		words := strings.Fields(c)
		want := []string{strings.TrimPrefix(words[0], "-"), words[len(words)-1]}
		requireFailure(t, runProgram("", append([]string{"demo"}, words...)...), exitUsage, want...)
	}
	requireFailure(t, runProgram("", "demo", "-size", "1KB", "-lanes", "33"), exitFailed, "Lanes is 33; it must be from 0 to 32")
}
