package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// TestStart: a transfer that begins with the connection is not slower than one that begins later.
func TestStart(t *testing.T) {
	const size = 256 << 10
	for range 12 {
		for _, after := range []time.Duration{0, 50 * time.Millisecond, time.Second} {
			path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 100e6, Seed: testkit.Seed(t)}
			overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
				time.Sleep(after)
				st0 := l.toServer.Conn().Stats().Sealed
				sent, got := content(size), collect(l.server)
				begin := time.Now()
				_, err := save.Start(l.toServer, bytes.NewReader(sent), size, Via(Slices{}))
				require.NoError(t, err)
				<-got
				took := time.Since(begin)
				st := l.toServer.Conn().Stats().Sealed
				t.Logf("after %v: %v  %+v\n    %+v", after, took, st0, st)
			})
		}
	}
}
