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

// TestStart: a transfer that begins with the connection knows the path, and waits but for the actor that it is called on, half
// a round trip.
func TestStart(t *testing.T) {
	const size = 256 << 10
	for after, most := range map[time.Duration]time.Duration{0: 83 * time.Millisecond, 50 * time.Millisecond: 60 * time.Millisecond, time.Second: 60 * time.Millisecond} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 100e6, Seed: testkit.Seed(t)}
		overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
			time.Sleep(after)
			sent, got := content(size), collect(l.server)
			begin := time.Now()
			_, err := save.Start(l.toServer, bytes.NewReader(sent), size, Via(Slices{}))
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, (<-got).data))
			require.Less(t, time.Since(begin), most, "begun after %v; half a round trip and the bytes are 46 ms", after)
			require.Zero(t, l.toServer.Conn().Stats().Sealed.PacketsLost)
		})
	}
}
