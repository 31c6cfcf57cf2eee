package rpc

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRawMakesRoom: the memory of a long Raw is used for a later call once its
// handler has returned. That of other arguments never is.
func TestRawMakesRoom(t *testing.T) {
	const size = 32_000
	inNet(t, 1, Config{}, func(n *network) {
		a, client := n.spawn(0), n.clients[0]
		heard := make(map[*byte]bool)
		client.onBulk = func(b Raw) {
			require.Equal(t, bytes.Repeat(b[:1], size), []byte(b))
			heard[&b[0]] = true
		}
		var told []string
		for i := range 20 {
			letter := string(rune('a' + i))
			for range 2 {
				require.NoError(t, bulk.Call(a, Raw(strings.Repeat(letter, size))))
				n.tick(10)
			}
			require.NoError(t, tell.Call(a, strings.Repeat(letter, size)))
			n.tick(10)
			told = append(told, "tell "+strings.Repeat(letter, size))
		}
		require.Less(t, len(heard), 40, "the handler kept what it had to copy")
		require.Equal(t, told, client.take())
	})
}

// TestRawHasNoRoom: a Raw has no capacity beyond its length, which could contain
// data of another connection. What a handler appends must be in memory of its own.
func TestRawHasNoRoom(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a, client := n.spawn(0), n.clients[0]
		var sizes, rooms []int
		client.onBulk = func(b Raw) { sizes, rooms = append(sizes, len(b)), append(rooms, cap(b)) }
		want := []int{100, 5_000, 32_000}
		for _, size := range want {
			require.NoError(t, bulk.Call(a, make(Raw, size)))
			n.tick(10)
		}
		require.Equal(t, want, sizes)
		require.Equal(t, want, rooms)
	})
}
