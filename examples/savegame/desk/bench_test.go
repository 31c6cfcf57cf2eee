//go:build unix

package desk

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// BenchmarkFirstPut puts a file of random bytes that the server has nothing of, from its scan to the durable version; the others
// stream the same bytes bare, to nowhere and to a store in a folder. Where others use the processors as well, what both ends used of
// them says more than the time.
func BenchmarkFirstPut(b *testing.B) {
	content := make([]byte, benchBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	path := filepath.Join(b.TempDir(), "save")
	f, err := os.Create(path)
	require.NoError(b, err)
	_, err = f.Write(content)
	require.NoError(b, errors.Join(err, f.Sync(), f.Close())) // else the disk would still write it below
	for name, send := range map[string]func(b *testing.B, h *host, c *Client, path string){
		"put":          putWhole,
		"bare":         func(b *testing.B, h *host, c *Client, path string) { sendBare(b, h, c, path, nil) },
		"bare, stored": func(b *testing.B, h *host, c *Client, path string) { sendBare(b, h, c, path, disk.New(b.TempDir())) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchBytes)
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				h := newHost(b, versions.Config{}, nil)
				c, before := h.dial(), processorTime()
				b.StartTimer()
				send(b, h, c, path)
				used += processorTime() - before
			}
			b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of oneself it never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func putWhole(b *testing.B, _ *host, c *Client, path string) {
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
