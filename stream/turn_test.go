package stream

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turns starts blobs at a server, which has one place for them at a client, and
// returns in which order they begin.
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

// TestHeaviestBeginsFirst: of those that wait the heaviest begins first, of
// equal ones the first, and SetWeight counts.
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

// TestLightTransfersHaveTheirTurn: however many heavier ones keep coming, the
// one that has waited longest is passed by maxPassed of them.
func TestLightTransfersHaveTheirTurn(t *testing.T) {
	inTurns(t, func(n turns) {
		n.start("heavy", MaxWeight)
		n.start("light", 1)
		n.start("light", 1)
		var order []string
		for range 3 * (maxPassed + 1) {
			n.start("heavy", MaxWeight)
			order = append(order, n.end())
		}
		// The first had begun before the light ones came; a heavy one took the
		// place of each that ended.
		require.Equal(n, maxPassed+1, slices.Index(order, "light"))
		order = order[maxPassed+2:]
		require.Equal(n, maxPassed, slices.Index(order, "light"))
		require.NotContains(n, order[maxPassed+1:], "light")
		for range 3 {
			n.end()
		}
		n.requireIdle()
	})
}

// TestEqualTransfersHaveAllPlaces: four that wait for each other's end begin
// all. savegame's server asks four clerks of a user for blobs at once, and
// stood still when one of the places was kept for heavier transfers.
func TestEqualTransfersHaveAllPlaces(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		arrived := make(chan *IncomingBlob, 64)
		save.Handle(n.client.streams, func(in *IncomingBlob) { arrived <- in })
		for range 4 {
			_, err := save.Create(n.server.peer)
			require.NoError(n, err)
		}
		time.Sleep(time.Second)
		require.Len(n, arrived, 4)
	})
}
