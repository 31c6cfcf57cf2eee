package pages

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestNobodySharesAPage: what one has taken, and not given back, no other has,
// and giving and taking allocates nothing.
func TestNobodySharesAPage(t *testing.T) {
	var all sync.WaitGroup
	for who := range byte(8) {
		all.Go(func() {
			for range 1000 {
				p := Take()
				p[0], p[Size-1] = who, who
				q := Take()
				q[0] = ^who
				require.Equal(t, [2]byte{who, who}, [2]byte{p[0], p[Size-1]})
				Give(p)
				Give(q)
			}
		})
	}
	all.Wait()
	if allocs := testing.AllocsPerRun(1000, func() { Give(Take()) }); !testkit.Race {
		require.Zero(t, allocs)
	}
}
