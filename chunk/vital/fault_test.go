package vital

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Faults of the game's code that this package does not have, with the same
// bytes. Others are in trace_test.go and conn_test.go.

// TestAtMost255Chunks: the game writes 256 as 0, or 300 as 44.
func TestAtMost255Chunks(t *testing.T) {
	for _, v := range []Version{V06, V07} {
		cfg := Config{Version: v}
		a, b := newConn(t, cfg), newConn(t, cfg)
		for range 600 {
			require.NoError(t, a.Send(0, []byte{'x'}))
		}
		require.Equal(t, 600, a.Queued())
		a.Flush()
		var counts []int
		for p, _, ok := a.AppendPacket(epoch, nil, 1400); ok; p, _, ok = a.AppendPacket(epoch, nil, 1400) {
			require.NoError(t, b.Receive(epoch, p))
			h, _ := chunks(t, v, p)
			counts = append(counts, h.Chunks)
		}
		require.Equal(t, []int{255, 255, 90}, counts)
		require.Len(t, drain(b), 600)
	}
}

// TestFullPacketLeavesByItself with 255 chunks, or with as many bytes as the game's.
func TestFullPacketLeavesByItself(t *testing.T) {
	c := newConn(t, Config{Plain: true})
	for range 255 {
		require.NoError(t, c.Send(0, nil))
	}
	require.Nil(t, packet(t, c, epoch))
	require.NoError(t, c.Send(0, nil))
	require.Equal(t, plain(PacketHeader{}, make([]Chunk, 255)...), packet(t, c, epoch))
}

// TestOversizeChunks: 0.6 cuts the size of chunks over 1,023 bytes, and the packet is garbage.
func TestOversizeChunks(t *testing.T) {
	for v, most := range map[Version]int{V06: 1023, V07: 1387} {
		a, b := newConn(t, Config{Version: v}), newConn(t, Config{Version: v})
		err := a.Send(Vital, make([]byte, most+1))
		require.ErrorIs(t, err, ErrChunkSize)
		require.ErrorContains(t, err, fmt.Sprintf("%d bytes; the limit is %d in %v with Config.MaxPacket = 1400", most+1, most, v))
		send(t, a, Vital, strings.Repeat("x", most))
		p := packet(t, a, epoch)
		require.LessOrEqual(t, len(p), 1400)
		require.NoError(t, b.Receive(epoch, p))
		require.Len(t, drain(b)[0].Data, most)
	}
}

// TestWrongTokenChangesNothing: 0.7.5 takes the acknowledgement of a packet
// before it looks at the token.
func TestWrongTokenChangesNothing(t *testing.T) {
	for _, v := range []Version{V06, V07} {
		c := newConn(t, Config{Version: v, Token: 7, PeerToken: 8})
		send(t, c, Vital, "a", "b")
		require.NotNil(t, packet(t, c, epoch))
		forged := AppendPacketHeader(nil, v, PacketHeader{Ack: 2, Resend: true, Token: 6, Tokened: true})
		require.NoError(t, c.Receive(epoch, forged))
		require.NoError(t, c.Receive(epoch, append(AppendPacketHeader(nil, v, PacketHeader{Control: true, Token: 6, Tokened: true}), controlClose)))
		require.Equal(t, uint64(2), c.Stats().WrongToken)
		require.Equal(t, 2, c.Outstanding())
		require.NoError(t, c.Receive(epoch, AppendPacketHeader(nil, v, PacketHeader{Ack: 1, Token: 7, Tokened: true})))
		require.Equal(t, 1, c.Outstanding(), "the genuine packet is taken")
	}
	c := newConn(t, Config{})
	require.NoError(t, c.Receive(epoch, AppendPacketHeader(nil, V06, PacketHeader{Token: 7, Tokened: true})))
	require.Equal(t, uint64(1), c.Stats().WrongToken, "a token where there are none")
}

// TestFullStoreIsAnError: the game closes the connection.
func TestFullStoreIsAnError(t *testing.T) {
	c := newConn(t, Config{})
	for range 32 {
		require.NoError(t, c.Send(Vital, make([]byte, 1000)))
	}
	err := c.Send(Vital, make([]byte, 1000))
	require.ErrorIs(t, err, ErrStoreFull)
	require.ErrorContains(t, err, "32000 bytes in 32 vital chunks are not acknowledged, and 1000 more exceed Config.StoreBytes = 32768")
	require.NoError(t, c.Send(0, make([]byte, 1000)), "chunks that are not vital have room")

	c = newConn(t, Config{})
	for range 511 {
		require.NoError(t, c.Send(Vital, []byte("x")))
	}
	require.ErrorContains(t, c.Send(Vital, []byte("x")), "511 vital chunks")
	require.NoError(t, c.Err())
}

func TestFullQueueIsAnError(t *testing.T) {
	c := newConn(t, Config{QueueBytes: 3200})
	for range 3 {
		require.NoError(t, c.Send(0, make([]byte, 1000)))
	}
	require.ErrorContains(t, c.Send(0, make([]byte, 1000)), "3000 bytes wait, and 1000 more exceed Config.QueueBytes = 3200")
	for range 197 {
		require.NoError(t, c.Send(0, nil))
	}
	err := c.Send(0, nil)
	require.ErrorIs(t, err, ErrQueueFull)
	require.ErrorContains(t, err, "200 chunks wait")
	require.NoError(t, c.Send(Vital, make([]byte, 1000)))
}

// TestBadChunkSpoilsItsPacketOnly: the game takes the chunks before the bad
// one, and reads past the end for its header.
func TestBadChunkSpoilsItsPacketOnly(t *testing.T) {
	c := newConn(t, Config{})
	good := plain(PacketHeader{}, vitalChunk(1, "a"), vitalChunk(2, "b"))
	for cut := range good {
		require.NoError(t, c.Receive(epoch, good[:cut]))
	}
	require.NoError(t, c.Receive(epoch, append(plain(PacketHeader{}, vitalChunk(1, "a")), 0)))
	require.Equal(t, uint64(len(good)+1), c.Stats().Malformed)
	require.Empty(t, drain(c))
	require.NoError(t, c.Receive(epoch, good))
	require.Len(t, drain(c), 2)
}

func TestWhatIsNotForAConnIsCounted(t *testing.T) {
	c := newConn(t, Config{})
	for _, p := range []string{"ffffffffffff61", "10000001", "10000005", "800001" + "3c", "00000104", "03e700"} {
		require.NoError(t, c.Receive(epoch, unhex(t, p)))
	}
	s := c.Stats()
	require.Equal(t, []uint64{3, 2, 1}, []uint64{s.Ignored, s.Malformed, s.BadAck})
}

// TestLostRequestIsRepeated: the game waits for another chunk that shows the gap.
func TestLostRequestIsRepeated(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Receive(epoch, plain(PacketHeader{}, vitalChunk(2, "b"))))
	for i := range 5 {
		now := epoch.Add(time.Duration(i) * 300 * time.Millisecond)
		h, _ := chunks(t, V06, packet(t, c, now))
		require.True(t, h.Resend)
		require.Nil(t, packet(t, c, now.Add(299*time.Millisecond)))
	}
	require.NoError(t, c.Receive(at(1.499), plain(PacketHeader{}, vitalChunk(1, "a"), vitalChunk(2, "b"))))
	require.Nil(t, packet(t, c, at(1.55)))
	require.Equal(t, unhex(t, "000200"), packet(t, c, at(1.599)))
	require.Nil(t, packet(t, c, at(2.5)))
}

// TestLostAcknowledgementsAreNoRoundTrip: after an outage the first
// acknowledgement is of what was sent long before.
func TestLostAcknowledgementsAreNoRoundTrip(t *testing.T) {
	c := newConn(t, Config{})
	send(t, c, Vital, "a")
	require.NotNil(t, packet(t, c, epoch))
	require.NoError(t, c.Receive(at(0.05), plain(PacketHeader{Ack: 1})))
	require.Equal(t, 50*time.Millisecond, c.Stats().RTT)
	send(t, c, Vital, "b")
	require.NotNil(t, packet(t, c, at(0.1)))
	require.NoError(t, c.Receive(at(9), plain(PacketHeader{Ack: 2})))
	require.Less(t, c.Stats().RTT, 200*time.Millisecond)
}

// TestRememberedProgress: a window that is acknowledged bit by bit is not given
// up, though its end waits for long.
func TestRememberedProgress(t *testing.T) {
	c := newConn(t, Config{})
	for n := range 60 {
		require.NoError(t, c.Send(Vital, content(10, n)))
	}
	c.Flush()
	require.NotNil(t, packet(t, c, epoch))
	for n := 1; n < 60; n++ {
		require.NoError(t, c.Receive(at(float64(n)), plain(PacketHeader{Ack: n})))
		require.NoError(t, c.Advance(at(float64(n))))
		for _, _, ok := c.AppendPacket(at(float64(n)), nil, 1400); ok; _, _, ok = c.AppendPacket(at(float64(n)), nil, 1400) {
		}
	}
	require.Equal(t, 1, c.Outstanding())
}
