package input

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestInputsThatCannotBe: New refuses what would fail later, or under a name that is not the
// game's.
func TestInputsThatCannotBe(t *testing.T) {
	class := rpc.NewClass("Hero")
	New[int](class, "Move", 60)
	name := strings.Repeat("x", 105)
	for want, declare := range map[string]func(){
		`rpc: class Hero declares Hero.Move twice: give one of them another name`:   func() { New[int](class, "Move", 30) },
		`input: New("None"): 0 ticks a second; must be 1 to 240`:                    func() { New[int](class, "None", 0) },
		`input: New("xxxxxxxxxxxxxxxxxxxx"…): name has 106 bytes; the limit is 105`: func() { New[int](class, name+"x", 60) },
		`input: New("Huge"): [70000]uint8 has at least 70002 bytes; the limit is 65510 (bunch.MaxBunchBytes): ` +
			`make inputs much smaller, because a message repeats those of several ticks`: func() { New[[70000]byte](class, "Huge", 60) },
	} {
		require.PanicsWithValue(t, want, declare)
	}
	require.Panics(t, func() { New[func()](class, "Func", 60) })
	New[int](class, name, 60)
	New[[]byte](class, "Any", 60)
}
