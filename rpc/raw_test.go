package rpc

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRawMakesRoom for that of a later call, once its handler has returned. Other arguments never do.
func TestRawMakesRoom(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a, client := n.spawn(0), n.clients[0]
		var heard []Raw
		client.onBulk = func(b Raw) {
			require.Equal(t, bytes.Repeat(b[:1], 20_000), []byte(b))
			heard = append(heard, b)
		}
		var told []string
		for i := range 4 {
			letter := string(rune('a' + i))
			require.NoError(t, bulk.Call(a, Raw(strings.Repeat(letter, 20_000))))
			n.tick(10)
			require.NoError(t, tell.Call(a, strings.Repeat(letter, 20_000)))
			n.tick(10)
			told = append(told, "tell "+strings.Repeat(letter, 20_000))
		}
		require.Len(t, heard, 4)
		require.Equal(t, &heard[0][0], &heard[2][0], "the handler kept what it had to copy")
		require.Equal(t, told, client.take())
	})
}
