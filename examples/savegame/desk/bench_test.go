//go:build unix

package desk

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

const benchBytes = 1 << 30

// BenchmarkFirstPut puts a file of random bytes that the server has nothing of, from its scan to the durable version, and before that streams
// the same bytes bare, to nowhere and to a store in a folder: in turns, as a machine's pace changes. It reports the medians, and what the put's
// rate is of the others'. Run it with -benchtime 5x or more. Where others use the processors as well, what both ends used of them says more than
// the time.
func BenchmarkFirstPut(b *testing.B) {
	path := filepath.Join(b.TempDir(), "save")
	f, err := os.Create(path)
	require.NoError(b, err)
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), benchBytes)
	require.NoError(b, errors.Join(err, f.Sync(), f.Close())) // else the disk would still write it below
	b.SetBytes(benchBytes)
	var wall, used [3][]float64 // of each way, in seconds
	for b.Loop() {
		folder := b.TempDir()
		for way, send := range []func(h *host, c *Client){
			func(h *host, c *Client) { sendBare(b, h, c, path, nil) },
			func(h *host, c *Client) { sendBare(b, h, c, path, disk.New(folder)) },
			func(_ *host, c *Client) { putWhole(b, c, path) },
		} {
			h := newHost(b, versions.Config{}, nil)
			c, before, begin := h.dial(), processorTime(), time.Now()
			send(h, c)
			wall[way] = append(wall[way], time.Since(begin).Seconds())
			used[way] = append(used[way], (processorTime() - before).Seconds())
			_, _ = Ask(b.Context(), c, Erase, Edit{Name: "world", Machine: "pc", Force: true}) // what is not there is not erased
			c.Close()
			require.NoError(b, os.RemoveAll(folder))
			syscall.Sync() // else the disk would still be busy with it below
		}
	}
	for way, name := range []string{"bare", "stored", "put"} {
		b.ReportMetric(median(wall[way]), name+"-s")
		b.ReportMetric(median(used[way]), name+"-cpu-s")
	}
	b.ReportMetric(median(wall[0])/median(wall[2]), "of-bare")
	b.ReportMetric(median(wall[1])/median(wall[2]), "of-stored")
}

func median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of oneself it never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func putWhole(b *testing.B, c *Client, path string) {
	src, err := tree.Scan(b.Context(), []string{path}, tree.ScanOptions{})
	require.NoError(b, err)
	_, err = c.Put(b.Context(), src, versions.Request{Name: "world", Machine: "pc"})
	require.NoError(b, err)
	require.NoError(b, src.Close())
}

func sendBare(b *testing.B, h *host, c *Client, path string, store stream.Store) {
	bytesOf := stream.NewBlob("bare")
	require.NoError(b, h.server.World().Do(b.Context(), func() {
		bytesOf.Handle(h.server.streams, func(in *stream.IncomingBlob) {
			in.SetStore(store)
			go func() { _, _ = io.Copy(io.Discard, in) }()
		})
	}))
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	require.NoError(b, bytesOf.Send(b.Context(), c.streams.Peer(c.conn), f, benchBytes, stream.Key("bare")))
}
