package stream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContentReadBeforeTheAnswerIsGrantedAgain: worlds that tick so seldom answer a header long after the application has
// read all that came with it. A window of 64 KiB or 1 MiB came whole.
func TestContentReadBeforeTheAnswerIsGrantedAgain(t *testing.T) {
	for _, via := range []Backend{Window{}, Slices{}, Slices{Carrier: Raw}} {
		for _, pending := range []int64{minPending, 100_000, earlyBytes, defaultMaxPending} {
			t.Run(fmt.Sprintf("%T%+v/%d", via, via, pending), func(t *testing.T) { testContentReadBeforeTheAnswer(t, via, pending) })
		}
	}
}

func testContentReadBeforeTheAnswer(t *testing.T, via Backend, pending int64) {
	inNetwork(t, setup{via: via, client: Config{MaxPending: pending}, tick: 50 * time.Millisecond}, func(n *network) {
		time.Sleep(time.Second) // for the limits of the client
		arrived := collect(n.client.streams)
		ctx, stop := context.WithTimeout(n.ctx, time.Minute)
		defer stop()
		data := content(3 << 20)
		require.NoError(n, n.mustStart(n.server.peer, data).Wait(ctx))
		require.EqualValues(n, len(data), (<-arrived).in.in.credit.consumed)
	})
}
