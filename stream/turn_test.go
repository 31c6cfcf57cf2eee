package stream

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestHeavyTransferBehindLongOnes: a heavy transfer need not wait for the end of those that fill all places but the one that is kept for it. A
// hundred elements of MaxWeight behind five arrays of 1 Mi waited until the first of four had ended, 8.9 s.
func TestHeavyTransferBehindLongOnes(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		path := netsim.Config{Delay: 20 * time.Millisecond, Rate: 4e6, Seed: testkit.Seed(t)}
		overQUIC(t, path, func(t *testing.T, l loopback) {
			got := make(chan string, 8)
			save.Handle(l.server, func(in *IncomingBlob) {
				go func() {
					_, _ = io.Copy(io.Discard, in)
					got <- in.Name()
				}()
			})
			start := func(size int, name string, weight int) *Transfer {
				tr, err := save.Start(l.toServer, bytes.NewReader(content(size)), int64(size), Via(via), Name(name), Weight(weight))
				require.NoError(t, err)
				return tr
			}
			for range 5 {
				start(1<<20, "long", 1)
			}
			time.Sleep(100 * time.Millisecond)
			begin := time.Now()
			start(200, "heavy", MaxWeight)
			require.Equal(t, "heavy", <-got)
			require.Less(t, time.Since(begin), time.Second)
			lifted := start(300, "lifted", 1)
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, got)
			lifted.SetWeight(2)
			begin = time.Now()
			require.Equal(t, "lifted", <-got)
			require.Less(t, time.Since(begin), time.Second)
			for range 5 {
				require.Equal(t, "long", <-got)
			}
		})
	})
}

// turns starts blobs at a server, which has one place for them at a client, and returns in which order they begin.
type turns struct {
	*network
	arrived chan *IncomingBlob
}

func inTurns(t *testing.T, fn func(n turns)) {
	inNetwork(t, setup{client: Config{MaxTransfers: 1}}, func(n *network) {
		arrived := make(chan *IncomingBlob, 64)
		save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
		fn(turns{n, arrived})
	})
}

func (n turns) start(name string, weight int) *Transfer {
	t := n.mustStart(n.server.peer, content(10), Name(name), Weight(weight))
	time.Sleep(100 * time.Millisecond)
	return t
}

// end reads the transfer that has begun, and returns its name.
func (n turns) end() string {
	in := <-n.arrived
	_, err := io.Copy(io.Discard, in)
	require.NoError(n, err)
	return in.Name()
}

// TestHeaviestBeginsFirst: of those that wait the heaviest begins first, of equal ones the first, and SetWeight counts.
func TestHeaviestBeginsFirst(t *testing.T) {
	inTurns(t, func(n turns) {
		n.start("begun", 1)
		n.start("light", 1)
		n.start("light too", 1)
		n.start("heavy", 7)
		lifted := n.start("lifted", 1)
		lowered := n.start("lowered", 9)
		n.start("heavy too", 7)
		lifted.SetWeight(8)
		lowered.SetWeight(0)
		for _, want := range []string{"begun", "lifted", "heavy", "heavy too", "light", "light too", "lowered"} {
			require.Equal(n, want, n.end())
		}
		n.requireIdle()
	})
}

// TestLightTransfersHaveTheirTurn: however many heavier ones keep coming, the one that has waited longest is passed by mostPassed of them.
func TestLightTransfersHaveTheirTurn(t *testing.T) {
	inTurns(t, func(n turns) {
		n.start("heavy", MaxWeight)
		n.start("light", 1)
		n.start("light", 1)
		var order []string
		for range 3 * (mostPassed + 1) {
			n.start("heavy", MaxWeight)
			order = append(order, n.end())
		}
		// The first had begun before the light ones came; a heavy one took the place of each that ended.
		require.Equal(n, mostPassed+1, slices.Index(order, "light"))
		order = order[mostPassed+2:]
		require.Equal(n, mostPassed, slices.Index(order, "light"))
		require.NotContains(n, order[mostPassed+1:], "light")
		for range 3 {
			n.end()
		}
		n.requireIdle()
	})
}
