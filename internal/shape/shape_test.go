package shape

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the peer sent as a shape is quoted in logs.
func TestDifferenceIsClipped(t *testing.T) {
	d := diff([]string{"a: b"}, []string{"a: \x1b[31m\n" + strings.Repeat("é", 500)})
	require.LessOrEqual(t, len(d), maxDifference)
	require.NotContains(t, d, "\x1b")
	require.NotContains(t, d, "\n")
}

// If a shape was cut, the difference is found in what is left, or reported to be beyond it.
func TestDifferenceInACutShape(t *testing.T) {
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("Class.Method%d: Server, Reliable, none", i))
	}
	cut := lines[:1000]
	require.Equal(t, "they differ after the first 1000 methods and fields", Difference(lines[:9_999], cut, true))
	require.Contains(t, Difference(append([]string{"Extra: class 0"}, lines...), cut, true), `the world of the client has class "Extra"`)
	require.Equal(t, fmt.Sprintf("%q is missing at the client", lines[5]), Difference(lines[:5], cut, true))
}

// TestMismatchCountsClasses: the number of classes of each end distinguishes a
// forgotten Bind from an end that is older.
func TestMismatchCountsClasses(t *testing.T) {
	var client, server Shape
	client.Class(0, "Player", "")
	client.Add("Player.Fire", "Server, Reliable, none")
	client.Class(1, "Voxel", "")
	server.Class(0, "Player", "")
	server.Add("Player.Fire", "Server, Unreliable, none")
	server.Class(1, "Pipe", "stream.Install")
	server.Class(2, "Voxel", "")
	differs := `Player.Fire is "Server, Reliable, none" at the client and "Server, Unreliable, none" at the server`
	require.Equal(t, "2 classes at the client, 3 at the server: "+differs, Mismatch(client.Lines, server.Lines, false))
	require.Equal(t, "2 classes at the client, 3 or more at the server: "+differs, Mismatch(client.Lines, server.Lines, true))
}

func TestTheSameDoNotDiffer(t *testing.T) {
	var ours, theirs Shape
	for _, s := range []*Shape{&ours, &theirs} {
		s.Class(0, "Player", "")
		s.Add("Player.Fire", "Server, Reliable, none")
	}
	require.Empty(t, diff(ours.Lines, theirs.Lines))
	require.Equal(t, ours.Hash(), theirs.Hash())
	theirs.Class(1, "Pipe", "stream.Install")
	require.Equal(t, `stream.Install was called at the server and not at the client ("Pipe: class 1, by stream.Install")`, diff(ours.Lines, theirs.Lines))
	require.NotEqual(t, ours.Hash(), theirs.Hash())
}
