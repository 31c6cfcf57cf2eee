package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// command runs the command as a user does.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, news bytes.Buffer
	c := Command(&out, &news)
	c.OnUsageError = func(_ context.Context, _ *cli.Command, err error, _ bool) error { return usageError{err} }
	err = c.Run(t.Context(), append([]string{"demo"}, args...))
	return out.String(), news.String(), err
}

// inFolder gives a test a folder for temporary files, and sees to it that none is left.
func inFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "the demo's folder is gone")
	})
}

func TestJSONHasAllFields(t *testing.T) {
	inFolder(t)
	out, news, err := command(t, "-size", "300KB", "-rtt", "10ms", "-jitter", "2ms", "-loss", "1%", "-rate", "20mbit", "-seed", "3", "-json")
	require.NoError(t, err)
	require.Empty(t, news)
	require.Equal(t, 1, strings.Count(out, "\n"))
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &fields))
	for _, name := range []string{
		"bytes", "sent_bytes", "chunks", "upload_seconds", "download_seconds", "ideal_seconds", "digest_ok",
		"link_bytes", "link_loss", "carrier", "sealed_packets", "rpc_p99_ms", "rpc_p99_unloaded_ms", "jain", "clients",
	} {
		require.Contains(t, fields, name)
	}
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	requireSane(t, &r, 300_000, 1)
	require.Equal(t, "sealed", r.Carrier)
	require.InDelta(t, 0.005+300_000*8/20e6/0.99, r.Ideal, 1e-6)
	require.Greater(t, r.RPCP99Unloaded, 5.0, "the link delays calls")
	require.Greater(t, r.LinkBytes, uint64(2*r.SentBytes))
	require.Positive(t, r.LinkLoss)
}

func requireSane(t *testing.T, r *report, size int64, clients int) {
	t.Helper()
	require.True(t, r.DigestOK)
	require.Equal(t, size, r.Bytes)
	require.InEpsilon(t, size, r.SentBytes, 0.1, "about all of it travels")
	require.Positive(t, r.Chunks)
	require.Len(t, r.Clients, clients)
	for _, c := range r.Clients {
		require.Positive(t, c.Upload)
		require.Positive(t, c.Download)
		require.LessOrEqual(t, c.Upload, r.Upload)
		require.LessOrEqual(t, c.Download, r.Download)
	}
	require.Positive(t, r.RPCP99)
	require.Positive(t, r.RPCP99Unloaded)
	require.GreaterOrEqual(t, r.LinkLoss, 0.0)
	require.LessOrEqual(t, r.LinkLoss, 1.0)
	require.Positive(t, r.Jain)
	require.LessOrEqual(t, r.Jain, 1+1e-9)
}

func TestTableForPeople(t *testing.T) {
	inFolder(t)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one"), make([]byte, 70_000), 0o600))
	out, news, err := command(t, "-file", folder, "-lanes", "2")
	require.NoError(t, err)
	require.Contains(t, news, "gameplay alone")
	for _, word := range []string{"upload", "download", "68 KiB", "identical", "packed", "gameplay RPC, p99"} {
		require.Contains(t, out, word)
	}
	require.NotContains(t, out, "ideal", "the loopback has no rate")
}

// Each carrier moves contents by each backend, over the loopback and over a link.
func TestCarriersAndBackends(t *testing.T) {
	links := map[string]netsim.Config{"loopback": {}, "link": {Delay: 5 * time.Millisecond, Loss: 0.01, Rate: 50e6, Seed: 1}}
	backends := map[string]stream.Backend{"window": stream.Window{}, "slices": stream.Slices{}}
	for where, way := range links {
		for how, backend := range backends {
			for _, carrier := range []string{"sealed", "quic"} {
				t.Run(strings.Join([]string{where, how, carrier}, "/"), func(t *testing.T) {
					t.Parallel()
					r := demo(t, options{size: 300_000, clients: 1, way: way, backend: backend, quic: carrier == "quic"})
					requireSane(t, r, 300_000, 1)
					require.Equal(t, carrier, r.Carrier)
					require.Equal(t, carrier == "quic", r.SealedPackets == 0)
				})
			}
		}
	}
}

func demo(t *testing.T, o options) *report {
	t.Helper()
	o.quiet, o.news = 100*time.Millisecond, t.Output()
	r, err := run(t.Context(), o)
	require.NoError(t, err)
	return r
}

// Clients share one bottleneck: together they take as long as it needs for what all of them sent.
func TestClientsShareTheBottleneck(t *testing.T) {
	inFolder(t)
	const clients, size = 3, 400_000
	way := netsim.Config{Delay: 10 * time.Millisecond, Rate: 20e6, Seed: 1}
	r := demo(t, options{size: size, clients: clients, way: way})
	requireSane(t, r, size, clients)
	floor := float64(clients*r.SentBytes) * 8 / 20e6
	require.Greater(t, r.Upload, floor, "no less than the link needs")
	require.Greater(t, r.Download, floor)
	require.InDelta(t, 0.01+clients*size*8/20e6, r.Ideal, 1e-6)
	require.GreaterOrEqual(t, r.Jain, 1.0/clients)
	require.Greater(t, r.BystanderP50, 10.0, "the link delays calls")
	require.LessOrEqual(t, r.BystanderP50, r.BystanderP99)
	var table bytes.Buffer
	require.NoError(t, r.write(&table, false))
	for _, word := range []string{"client 3", "Jain", "bystander", "% of the packets lost"} {
		require.Contains(t, table.String(), word)
	}
}

func TestJain(t *testing.T) {
	of := func(rates ...float64) float64 {
		clients := make([]times, len(rates))
		for i, r := range rates {
			clients[i].Upload = r
		}
		return jain(clients, func(t times) float64 { return t.Upload })
	}
	require.InDelta(t, 1, of(5), 1e-9)
	require.InDelta(t, 1, of(3, 3, 3), 1e-9)
	require.InDelta(t, 0.25, of(1, 0, 0, 0), 1e-9)
	require.InDelta(t, 0.9, of(1, 2), 1e-9)
}

func TestIdeal(t *testing.T) {
	way := netsim.Config{Delay: 25 * time.Millisecond}
	require.InDelta(t, 0.025, ideal(1<<20, way), 1e-9)
	way.Rate = 10e6
	require.InDelta(t, 8.025, ideal(10e6, way), 1e-9)
	way.Loss = 0.5
	require.InDelta(t, 16.025, ideal(10e6, way), 1e-9)
}

func TestPercentile(t *testing.T) {
	g := newGameplay()
	require.Zero(t, g.percentile(loaded, 99))
	for i := range 200 {
		g.delays[loaded] = append(g.delays[loaded], time.Duration(200-i)*time.Millisecond)
	}
	require.Equal(t, 198.0, g.percentile(loaded, 99))
	require.Equal(t, 100.0, g.percentile(loaded, 50))
	require.Equal(t, 1.0, g.percentile(loaded, 0))
	require.Equal(t, 200.0, g.percentile(loaded, 100))
}

func TestGeneratedSaves(t *testing.T) {
	make := func(size int64, seed uint64) []byte {
		path := filepath.Join(t.TempDir(), "save")
		require.NoError(t, generate(path, size, seed))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return b
	}
	for _, size := range []int64{0, 1, 16, 1000, 1<<20 + 7} {
		require.Len(t, make(size, 1), int(size))
	}
	require.Equal(t, make(100_000, 5), make(100_000, 5))
	require.NotEqual(t, make(100_000, 5), make(100_000, 6))
}

// usageError is what a command line makes of wrong usage.
type usageError struct{ error }

func TestBadFlags(t *testing.T) {
	for _, c := range []string{
		"-size big", "-rate fast", "-rate 2000gbit", "-loss some", "-loss 100%", "-loss NaN", "-clients 0", "-backend pigeon", "-carrier pigeon",
		"-lanes x", "-jitter -1s", "-rtt -5ms", "-bogus", "word",
	} {
		words := strings.Fields(c)
		_, _, err := command(t, words...)
		require.ErrorAs(t, err, &usageError{}, c)
		for _, word := range words {
			require.Contains(t, err.Error(), strings.TrimPrefix(word, "-"))
		}
	}
	_, _, err := command(t, "-size", "1B", "-lanes", "99")
	require.ErrorContains(t, err, "Lanes is 99")
}

func TestSetters(t *testing.T) {
	var o options
	for text, want := range map[string]int64{"0": 0, "10mbit": 10e6, "512kbit/s": 512e3, "1.5Gbit": 1.5e9, "100bit": 100} {
		require.NoError(t, o.setRate(text))
		require.Equal(t, want, o.way.Rate, text)
	}
	for text, want := range map[string]float64{"0": 0, "1%": 0.01, "0.5%": 0.005, "0.25": 0.25} {
		require.NoError(t, o.setLoss(text))
		require.InDelta(t, want, o.way.Loss, 1e-12, text)
	}
	for text, want := range map[string]int64{"0": 0, "16MiB": 16 << 20, "300KB": 300e3, "77": 77} {
		require.NoError(t, o.setSize(text))
		require.Equal(t, want, o.size, text)
	}
}

func TestMissingFile(t *testing.T) {
	inFolder(t)
	missing := filepath.Join(t.TempDir(), "none")
	_, _, err := command(t, "-file", missing)
	require.ErrorContains(t, err, missing)
}
