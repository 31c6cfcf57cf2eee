package badnet

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc/emulation"
)

const ms = time.Millisecond

// TestLinks: each setting means what Unreal's does, of which PktDup doubles
// nothing beside PktOrder or PktLag.
func TestLinks(t *testing.T) {
	for name, c := range map[string]struct {
		settings emulation.Settings
		out, in  netsim.Config
	}{
		"nothing":            {},
		"loss":               {settings: emulation.Settings{PktLoss: 5}, out: netsim.Config{Loss: 0.05}},
		"loss of some sizes": {settings: emulation.Settings{PktLoss: 5, PktLossMinSize: 100, PktLossMaxSize: 900}, out: netsim.Config{Loss: 0.05, LossMin: 100, LossMax: 900}},
		"runs of losses":     {settings: emulation.Settings{PktLoss: 10, LossBurst: 4}, out: netsim.Config{Burst: netsim.Bursts(0.1, 4)}},
		"runs of one":        {settings: emulation.Settings{PktLoss: 10, LossBurst: 1}, out: netsim.Config{Loss: 0.1}},
		"all in runs":        {settings: emulation.Settings{PktLoss: 100, LossBurst: 4}, out: netsim.Config{Loss: 1}},
		"order":              {settings: emulation.Settings{PktOrder: true}, out: netsim.Config{Reorder: 0.5, ReorderDelay: 33 * ms}},
		"doubled":            {settings: emulation.Settings{PktDup: 10}, out: netsim.Config{Duplicate: 0.1}},
		"doubled and order":  {settings: emulation.Settings{PktDup: 10, PktOrder: true}, out: netsim.Config{Reorder: 0.5, ReorderDelay: 33 * ms}},
		"doubled and lag":    {settings: emulation.Settings{PktDup: 10, PktLag: 50 * ms}, out: netsim.Config{Delay: 50 * ms}},
		"lag that varies":    {settings: emulation.Settings{PktLag: 50 * ms, PktLagVariance: 20 * ms}, out: netsim.Config{Delay: 30 * ms, Jitter: 40 * ms}},
		"a range of lags":    {settings: emulation.Settings{PktLagMin: 30 * ms, PktLagMax: 80 * ms}, out: netsim.Config{Delay: 30 * ms, Jitter: 50 * ms}},
		"PktLag goes first":  {settings: emulation.Settings{PktLag: 10 * ms, PktLagMin: 30 * ms, PktLagMax: 80 * ms}, out: netsim.Config{Delay: 10 * ms}},
		"jitter":             {settings: emulation.Settings{PktJitter: 25 * ms}, out: netsim.Config{Alternate: 25 * ms}},
		"a bottleneck":       {settings: emulation.Settings{Rate: 1e6, Queue: 9000}, out: netsim.Config{Rate: 1e6, Queue: 9000}},
		"a bottleneck of what comes": {
			settings: emulation.Settings{IncomingRate: 1e6, Queue: 9000, PktIncomingLagMin: 10 * ms, PktIncomingLagMax: 10 * ms},
			out:      netsim.Config{Queue: 9000}, in: netsim.Config{Rate: 1e6, Queue: 9000, Delay: 10 * ms},
		},
		"what comes": {
			settings: emulation.Settings{PktIncomingLoss: 5, PktIncomingLagMin: 10 * ms, PktIncomingLagMax: 30 * ms},
			in:       netsim.Config{Loss: 0.05, Delay: 10 * ms, Jitter: 20 * ms},
		},
		"a seed": {settings: emulation.Settings{Seed: 7}, out: netsim.Config{Seed: 7}, in: netsim.Config{Seed: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			out, in, err := Links(c.settings)
			require.NoError(t, err)
			require.Equal(t, c.out, out)
			require.Equal(t, c.in, in)
		})
	}
	_, _, err := Links(emulation.Settings{PktLoss: 101})
	require.ErrorContains(t, err, "Settings.PktLoss is 101")
	_, _, err = Links(emulation.Settings{Rate: 1e15})
	require.ErrorContains(t, err, "Settings.Rate is 1000000000000000; the maximum is 1000000000000")
	_, _, err = Links(emulation.Settings{IncomingRate: 1e15})
	require.ErrorContains(t, err, "Settings.IncomingRate is 1000000000000000; the maximum is 1000000000000")
}

// TestIncomingRate: a socket behind a slow downlink receives no more than its rate,
// queues that many bytes, and drops what does not fit; what it sends is sent at once.
func TestIncomingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(netsim.Config{}, netsim.Config{})
		defer func() { require.NoError(t, errors.Join(near.Close(), far.Close())) }()
		out, in, err := Links(emulation.Settings{IncomingRate: 80_000, Queue: 20_560})
		require.NoError(t, err)
		slow, free := NewSockets(out, in).Add(near)
		defer free()
		began, b := time.Now(), make([]byte, 1000)
		for range 50 {
			_, err = far.WriteTo(b, near.LocalAddr())
			require.NoError(t, err)
		}
		require.NoError(t, slow.SetReadDeadline(began.Add(time.Minute)))
		arrived, last := 0, began
		for ; ; arrived++ {
			if _, _, err = slow.ReadFrom(b); err != nil {
				break
			}
			last = time.Now()
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 20, arrived, "of 1,028 bytes with the headers")
		require.InDelta(t, 20*1028*8/80_000.0, last.Sub(began).Seconds(), 0.01)

		began = time.Now()
		for range 50 {
			_, err = slow.WriteTo(b, far.LocalAddr())
			require.NoError(t, err)
		}
		for range 50 {
			_, _, err = far.ReadFrom(b)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
	})
}

// TestValidSettingsMakeValidLinks, whatever they are.
func TestValidSettingsMakeValidLinks(t *testing.T) {
	random, valid := testkit.Rand(t), 0
	lag := func() time.Duration { return time.Duration(random.IntN(3)-random.IntN(2)) * time.Hour / 2 }
	share := func() float64 {
		return []float64{0, 1e-9, 50, 99.9999, 100, 101, random.Float64() * 100}[random.IntN(7)]
	}
	bytes := func() int { return []int{0, 1, 1 << 30, 1<<30 + 1, random.IntN(2000)}[random.IntN(5)] }
	for range 20_000 {
		settings := emulation.Settings{
			PktLoss: share(), PktLossMinSize: bytes(), PktLossMaxSize: bytes(), PktDup: share(), PktOrder: random.IntN(2) == 0,
			PktLag: lag(), PktLagVariance: lag(), PktLagMin: lag(), PktLagMax: lag(), PktJitter: lag(),
			PktIncomingLoss: share(), PktIncomingLagMin: lag(), PktIncomingLagMax: lag(),
			LossBurst: []float64{0, 1, 1.0000001, 2, 1e9, 1e300}[random.IntN(6)], Queue: bytes(),
		}
		settings.Rate, settings.IncomingRate = []int64{0, 1, 1e12}[random.IntN(3)], []int64{0, 1, 1e12}[random.IntN(3)]
		out, in, err := Links(settings)
		if err == nil {
			valid++
			require.NoError(t, out.Validate(), "%+v", settings)
			require.NoError(t, in.Validate(), "%+v", settings)
		}
	}
	require.Greater(t, valid, 100)
}
