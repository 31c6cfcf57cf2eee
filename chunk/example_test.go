package chunk_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

func Example() {
	s, err := chunk.NewSender(chunk.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := chunk.NewReceiver(chunk.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Send([]byte(strings.Repeat("late join state, ", 1000))); err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a program's own clock
	var buf []byte
	for !s.Done() {
		for p, ok := s.AppendSlice(now, buf[:0]); ok; p, ok = s.AppendSlice(now, buf[:0]) {
			_ = r.ReceiveSlice(now, p) // over the network; a packet that makes no sense is no reason to stop
		}
		for p, ok := r.AppendAck(now, buf[:0]); ok; p, ok = r.AppendAck(now, buf[:0]) {
			_ = s.ReceiveAck(now, p)
		}
		if id, data, ok := r.Chunk(); ok {
			fmt.Printf("chunk %d: %d bytes\n", id, len(data))
		}
		now = now.Add(time.Second / 60)
	}
	// Output: chunk 0: 17000 bytes
}

// TestWireDocument decodes the examples of WIRE.md.
func TestWireDocument(t *testing.T) {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllSubmatch(text, -1)
	require.Len(t, blocks, 2)
	decode := func(i int, want chunk.Packet) {
		b := unhex(t, strings.Join(strings.Fields(string(blocks[i][1])), ""))
		sealed := reseal(append([]byte(nil), b...), protocolID)
		require.Equal(t, hex.EncodeToString(sealed), hex.EncodeToString(b), "the checksum in the document")
		p, err := chunk.Parse(b, protocolID)
		require.NoError(t, err)
		require.Equal(t, want, p)
	}
	decode(0, chunk.Packet{Kind: chunk.KindSlice, Slice: chunk.Slice{ChunkID: 5, Index: 1, Count: 2, Data: []byte("hello")}})
	decode(1, chunk.Packet{Kind: chunk.KindAck, Ack: ackOf(5, 2, 1)})
}
