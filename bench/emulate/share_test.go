package emulate

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/job"
)

func TestSharedPathIsOneBottleneck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nets, err := Share(job.Job{Clock: job.Virtual, RTT: 50 * time.Millisecond, Rate: 10e6}, 2)
		require.NoError(t, err)
		begin := time.Now()
		for range 20 {
			for _, n := range nets {
				_, err := n.Client().WriteTo(make([]byte, 1222), n.Address())
				require.NoError(t, err)
			}
		}
		buf := make([]byte, 2000)
		for range 20 {
			for _, n := range nets {
				size, _, err := n.Server().ReadFrom(buf)
				require.NoError(t, err)
				require.Equal(t, 1222, size)
			}
		}
		require.Equal(t, 65*time.Millisecond, time.Since(begin), "40 packets of 1 ms and 25 ms of delay")
		for _, n := range nets {
			up, _ := n.Stats()
			require.EqualValues(t, 20, up.Delivered)
		}
		require.NoError(t, nets[1].Server().SetReadDeadline(time.Now().Add(time.Second)))
		_, _, err = nets[1].Server().ReadFrom(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		for _, n := range nets {
			n.Close()
		}
	})
}
