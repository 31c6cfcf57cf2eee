package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func requireSane(t *testing.T, r *Report, size int64, clients int) {
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

// Each carrier moves contents with each backend, over the loopback and over a link.
func TestCarriersAndBackends(t *testing.T) {
	links := map[string]netsim.Config{"loopback": {}, "link": {Delay: 5 * time.Millisecond, Loss: 0.01, Rate: 50e6, Seed: 1}}
	backends := map[string]stream.Backend{"window": stream.Window{}, "slices": stream.Slices{}}
	for where, way := range links {
		for how, backend := range backends {
			for _, carrier := range []string{"sealed", "quic"} {
				t.Run(strings.Join([]string{where, how, carrier}, "/"), func(t *testing.T) {
					t.Parallel()
					r := demo(t, Options{Size: 300_000, Clients: 1, Way: way, Backend: backend, QUIC: carrier == "quic"})
					requireSane(t, r, 300_000, 1)
					require.Equal(t, carrier, r.Carrier)
					require.Equal(t, carrier == "quic", r.SealedPackets == 0)
				})
			}
		}
	}
}

func demo(t *testing.T, o Options) *Report {
	t.Helper()
	o.Quiet, o.News = 100*time.Millisecond, t.Output()
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	return r
}

// Clients share one bottleneck: together they take as long as it needs for what
// all of them have sent.
func TestClientsShareTheBottleneck(t *testing.T) {
	testkit.TempDir(t)
	const clients, size = 3, 400_000
	way := netsim.Config{Delay: 10 * time.Millisecond, Rate: 20e6, Seed: 1}
	r := demo(t, Options{Size: size, Clients: clients, Way: way})
	requireSane(t, r, size, clients)
	floor := float64(clients*r.SentBytes) * 8 / 20e6
	require.Greater(t, r.Upload, floor, "no less than the link needs")
	require.Greater(t, r.Download, floor)
	require.InDelta(t, 0.01+floor, r.Ideal, 1e-6)
	require.GreaterOrEqual(t, r.Jain, 1.0/clients)
	require.Greater(t, r.BystanderP50, 10.0, "the link delays calls")
	require.LessOrEqual(t, r.BystanderP50, r.BystanderP99)
	var table bytes.Buffer
	require.NoError(t, r.Write(&table, false))
	for _, word := range []string{"client 3", "Jain", "bystander", "% of the packets lost"} {
		require.Contains(t, table.String(), word)
	}
}

func TestIdeal(t *testing.T) {
	way := netsim.Config{Delay: 25 * time.Millisecond}
	require.InDelta(t, 0.025, ideal(1<<20, way), 1e-9)
	way.Rate = 10e6
	require.InDelta(t, 8.025, ideal(10e6, way), 1e-9)
	way.Loss = 0.5
	require.InDelta(t, 16.025, ideal(10e6, way), 1e-9)
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

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "10mbit": 10e6, "512kbit/s": 512e3, "1.5Gbit": 1.5e9} {
		rate, err := ParseRate(text)
		require.NoError(t, err)
		require.Equal(t, want, rate, text)
	}
	for _, text := range []string{"10", "100bit", "2000gbit", "fast"} { // 10 is no 10 Mbit/s
		_, err := ParseRate(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]float64{"0": 0, "1%": 0.01, "0.5%": 0.005, "0.25": 0.25} {
		loss, err := ParseLoss(text)
		require.NoError(t, err)
		require.InDelta(t, want, loss, 1e-12, text)
	}
}
