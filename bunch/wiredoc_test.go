package bunch

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wireExamples returns the packets that WIRE.md shows.
func wireExamples(t *testing.T) (packets [][]byte) {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	for _, block := range strings.Split(string(text), "```hex\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var packet []byte
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, ";")
			line = strings.ReplaceAll(strings.TrimSpace(line), " ", "")
			if b, count, ok := strings.Cut(line, "*"); ok {
				n := 0
				_, err := fmt.Sscan(count, &n)
				require.NoError(t, err)
				line = strings.Repeat(b, n)
			}
			b, err := hex.DecodeString(line)
			require.NoError(t, err, line)
			packet = append(packet, b...)
		}
		packets = append(packets, packet)
	}
	return packets
}

// TestWireExamples lets two connections write and read exactly what WIRE.md shows.
func TestWireExamples(t *testing.T) {
	want := wireExamples(t)
	require.Len(t, want, 4)
	client, ch := newClient(t, Config{})
	server, err := NewConn(epoch, Config{ReceiveLimit: 1 << 20})
	require.NoError(t, err)
	now := epoch
	write := func(c *Conn, n int) []byte {
		b, _, ok := c.AppendPacket(now, nil, 1163)
		require.True(t, ok)
		require.Equal(t, hex.EncodeToString(want[n]), hex.EncodeToString(b))
		return b
	}

	require.NoError(t, client.Send(ch, Reliable, []byte("hi")))
	require.NoError(t, client.Send(ch, Reliable, []byte("there")))
	require.NoError(t, client.Send(ch, Unreliable, []byte("ping")))
	require.NoError(t, server.Receive(now, write(client, 0)))
	now = now.Add(1600 * time.Microsecond)
	require.NoError(t, server.Send(0, Reliable, []byte("ok")))
	require.NoError(t, client.Receive(now, write(server, 1)))
	require.Equal(t, uint64(1<<20), client.flow.limit)
	require.True(t, client.Drained())
	require.NoError(t, client.Send(ch, Reliable, make([]byte, 1099)))
	require.NoError(t, server.Receive(now, write(client, 2)))
	require.NoError(t, client.SendTracked(ch, 7, []byte("hp=9")))
	require.NoError(t, server.Receive(now, write(client, 3)))

	var texts []string
	for m, ok := server.Next(); ok; m, ok = server.Next() {
		texts = append(texts, fmt.Sprintf("%d %q", m.Delivery, strings.TrimLeft(string(m.Payload), "\x00")))
	}
	require.Equal(t, []string{`0 "hi"`, `0 "there"`, `2 "ping"`, `0 ""`, `4 "hp=9"`}, texts)
	m, ok := client.Next()
	require.True(t, ok)
	require.Equal(t, "ok", string(m.Payload))
}

// TestWireCodes holds the table of codes to the constants.
func TestWireCodes(t *testing.T) {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	for code, name := range codeNames {
		require.Contains(t, string(text), fmt.Sprintf("| %d | %s |", code, name))
	}
}
