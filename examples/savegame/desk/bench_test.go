//go:build linux

package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
	"github.com/quivernet/quiver/stream/tree"
)

const (
	benchBytes = 1 << 30
	// asServer is a variable that makes this program the server of BenchmarkFirstPut.
	asServer = "SAVEGAME_BENCH_SERVER"
)

// ways are how BenchmarkFirstPut brings a file to a server.
var ways = []struct {
	name string
	send func(b *testing.B, c *Client, path string)
}{
	{"bare", func(b *testing.B, c *Client, path string) { sendBlob(b, c, path, bareBlob) }},
	{"stored", func(b *testing.B, c *Client, path string) { sendBlob(b, c, path, storedBlob) }},
	{"put", putWhole},
}

var bareBlob, storedBlob = stream.NewBlob("bare"), stream.NewBlob("stored")

// BenchmarkFirstPut puts a file of random bytes that the server has nothing of, from its
// scan to the durable version, and before that streams the same bytes bare, to nowhere
// and to a store in a folder: in turns, as a machine's pace changes, and each to a new
// server, which is a process of its own. It reports medians: of the times, of what both
// ends used of the processors, and of what the put's rate is of the others' of its turn;
// and what each end held at most. Run it with -benchtime 5x or more. Where others use
// the processors as well, what both ends used of them says more than the time.
func BenchmarkFirstPut(b *testing.B) {
	path := filepath.Join(b.TempDir(), "save")
	f, err := os.Create(path)
	require.NoError(b, err)
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), benchBytes)
	require.NoError(b, errors.Join(err, f.Sync(), f.Close())) // else the disk would still write it below
	b.SetBytes(benchBytes)
	all := make(map[string][]float64) // what is reported, of each turn
	for b.Loop() {
		wall := make(map[string]float64)
		for _, way := range ways {
			took, seconds, server := run(b, path, way.send)
			wall[way.name] = took
			all[way.name+"-s"] = append(all[way.name+"-s"], took)
			all[way.name+"-cpu-s"] = append(all[way.name+"-cpu-s"], seconds)
			all[way.name+"-server-MB"] = append(all[way.name+"-server-MB"], server.MB)
		}
		all["of-bare"] = append(all["of-bare"], wall["bare"]/wall["put"])
		all["of-stored"] = append(all["of-stored"], wall["stored"]/wall["put"])
	}
	all["client-MB"] = []float64{usedSoFar(b).MB}
	for unit, values := range all {
		b.ReportMetric(median(values), unit)
	}
}

func median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

// use is what a process has used: seconds of the processors, and MB of memory at most.
type use struct{ Seconds, MB float64 }

// run sends the file to a new server, and returns in how many seconds, what of
// the processors both ends used, and what the server used.
func run(b *testing.B, path string, send func(b *testing.B, c *Client, path string)) (wall, seconds float64, server use) {
	dir, err := os.MkdirTemp(b.TempDir(), "")
	require.NoError(b, err)
	process := exec.Command(os.Args[0], "-test.run=^TestServesTheBenchmark$")
	process.Env, process.Stderr = append(os.Environ(), asServer+"=1", "TMPDIR="+dir), os.Stderr
	stop, err := process.StdinPipe()
	require.NoError(b, err)
	out, err := process.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, process.Start())
	lines := json.NewDecoder(out)
	c := dialServer(b, lines)
	before, begin := usedSoFar(b).Seconds, time.Now()
	send(b, c, path)
	wall, seconds = time.Since(begin).Seconds(), usedSoFar(b).Seconds-before
	c.Close()
	require.NoError(b, stop.Close())
	require.NoError(b, lines.Decode(&server))
	_, _ = io.Copy(io.Discard, out) // what the test says
	require.NoError(b, process.Wait())
	require.NoError(b, os.RemoveAll(dir))
	syscall.Sync() // else the disk would still be busy with it below
	return wall, seconds + server.Seconds, server
}

// dialServer dials the server that says where it is.
func dialServer(b *testing.B, lines *json.Decoder) *Client {
	var at address
	require.NoError(b, lines.Decode(&at))
	c, err := Dial(b.Context(), ClientConfig{Connect: to(b, at.Server, at.Fingerprint, nil), Token: at.Token})
	require.NoError(b, err)
	return c
}

// address is what a client has to know of a server.
type address struct{ Server, Token, Fingerprint string }

// TestServesTheBenchmark is the server of BenchmarkFirstPut, until its standard input ends.
func TestServesTheBenchmark(t *testing.T) {
	if os.Getenv(asServer) == "" {
		return // it is the benchmark that runs it
	}
	h := newHost(t, versions.Config{}, nil)
	require.NoError(t, h.server.World().Do(t.Context(), func() {
		takeBlob(h, bareBlob, nil)
		takeBlob(h, storedBlob, disk.New(t.TempDir()))
	}))
	said := json.NewEncoder(os.Stdout)
	require.NoError(t, said.Encode(address{h.addr, h.config.Token, h.fingerprint}))
	_, _ = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, said.Encode(usedSoFar(t)))
}

func takeBlob(h *host, blob *stream.Blob, store stream.Store) {
	blob.Handle(h.server.streams, func(in *stream.IncomingBlob) {
		if store != nil {
			in.SetStore(store)
		}
		go func() { _, _ = io.Copy(io.Discard, in) }()
	})
}

func usedSoFar(t testing.TB) (u use) {
	var r syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	u.Seconds = time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
	status, err := os.ReadFile("/proc/self/status") // as Maxrss of a process begins with what its parent had
	require.NoError(t, err)
	_, peak, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	_, err = fmt.Sscan(peak, &u.MB)
	require.NoError(t, err)
	u.MB /= 1e3 // they are kB
	return u
}

func putWhole(b *testing.B, c *Client, path string) {
	src, err := tree.Scan(b.Context(), []string{path}, tree.ScanOptions{})
	require.NoError(b, err)
	_, err = c.Put(b.Context(), src, versions.Request{Name: "world", Machine: "pc"})
	require.NoError(b, err)
	require.NoError(b, src.Close())
}

func sendBlob(b *testing.B, c *Client, path string, blob *stream.Blob) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	require.NoError(b, blob.Send(b.Context(), c.streams.Peer(c.conn), f, benchBytes, stream.Key("bare")))
}
