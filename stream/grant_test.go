package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContentReadBeforeTheAnswerIsGrantedAgain: worlds that tick so rarely
// answer a header long after the application has read everything that arrived
// with it. A window of 64 KiB or 1 MiB must arrive completely.
func TestContentReadBeforeTheAnswerIsGrantedAgain(t *testing.T) {
	for _, via := range []Backend{Window{}, Slices{}} {
		for _, pending := range []int64{minPending, 100_000, earlyBytes, (&Config{}).maxPending()} {
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
		require.EqualValues(n, len(data), (<-arrived).in.in.answer.credit.consumed)
	})
}

// TestLargestElementPassesTheSmallestWindow: an element of 64 KiB needs the
// whole window, so the few bytes before it must be granted again at once.
func TestLargestElementPassesTheSmallestWindow(t *testing.T) {
	overBackends(t, testLargestElementPassesTheSmallestWindow)
}

func testLargestElementPassesTheSmallestWindow(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{MaxPending: minPending}}, func(n *network) {
		ctx, stop := context.WithTimeout(n.ctx, time.Minute)
		defer stop()
		posters.Handle(n.client.streams, func(in *IncomingArray[poster]) { in.OnBatch(func([]poster) {}) })
		var all []poster
		for range 20 {
			all = append(all, poster{strings.Repeat("s", 10_000)}, poster{strings.Repeat("l", 65_000)})
		}
		require.NoError(n, posters.Send(ctx, n.server.peer, all))
	})
}
