package vital

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// releases are the versions of the game that wrote the vectors.
var releases = map[string]Version{"0.6.4": V06, "0.6.5": V06, "0.7.5": V07}

func load(t testing.TB, file string, into any) {
	text, err := os.ReadFile("testdata/" + file + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// content returns data that differs from that of other chunks.
func content(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i + i>>8 + n*31)
	}
	return b
}

func newConn(t testing.TB, cfg Config) *Conn {
	c, err := NewConn(epoch, cfg)
	require.NoError(t, err)
	return c
}

// at returns a time so many seconds after the beginning.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// packet returns the one packet that is ready, or nil.
func packet(t testing.TB, c *Conn, now time.Time) []byte {
	require.NoError(t, c.Advance(now))
	b, _, ok := c.AppendPacket(now, nil, 1400)
	if !ok {
		return nil
	}
	if c.Err() == nil {
		_, _, more := c.AppendPacket(now, nil, 1400)
		require.False(t, more, "a second packet")
		check(t, c)
	}
	return b
}

// drain returns all chunks received.
func drain(c *Conn) (all []Chunk) {
	for chunk, ok := c.Next(); ok; chunk, ok = c.Next() {
		chunk.Data = append([]byte(nil), chunk.Data...)
		all = append(all, chunk)
	}
	return all
}

// chunks returns the chunks of a packet.
func chunks(t testing.TB, v Version, packet []byte) (h PacketHeader, all []Chunk) {
	h, body, err := ParsePacket(v, packet, nil)
	require.NoError(t, err)
	if h.Control {
		return h, nil
	}
	require.NoError(t, checkChunks(v, body, h.Chunks))
	for range h.Chunks {
		c, rest, err := ParseChunk(v, body)
		require.NoError(t, err)
		all, body = append(all, c), rest
	}
	return h, all
}

// check looks at what must hold once all that was ready has been sent.
func check(t testing.TB, c *Conn) {
	if at, ok := c.NextTimeout(); c.err == nil && (!ok || !at.After(c.now)) {
		t.Fatalf("the timeout is not after now: %v", c.now.Sub(at))
	}
	checkAlways(t, c)
}

// checkAlways looks at what must always hold.
func checkAlways(t testing.TB, c *Conn) {
	if c.err != nil {
		return
	}
	sum := func(q *recovery.Ring[queuedChunk], vital bool) (cost int) {
		for n := q.Oldest; n < q.Next; n++ {
			if it := q.At(n); vital || it.flags&Vital == 0 {
				cost += it.cost
			}
		}
		return cost
	}
	kept, unsent := 0, 0
	for n := c.store.chunks.Oldest; n < c.store.chunks.Next; n++ {
		kept += c.store.chunks.At(n).cost
	}
	for n := c.queue.chunks.Oldest; n < c.queue.chunks.Next; n++ {
		if c.queue.chunks.At(n).flags == Vital {
			unsent++
		}
	}
	switch {
	case c.store.chunks.Next != c.store.sendNext+uint64(unsent):
		t.Fatalf("acked %d, stored %d, fresh %d, %d unsent", c.store.chunks.Oldest-1, c.store.chunks.Len(), c.store.sendNext, unsent)
	case c.store.chunks.Len() > maxOutstanding || kept != c.store.data.used || kept > c.cfg.StoreBytes:
		t.Fatalf("%d chunks stored with %d bytes, %d in use", c.store.chunks.Len(), kept, c.store.data.used)
	case sum(&c.queue.chunks, false) != c.queue.data.used || c.queue.data.used > c.cfg.QueueBytes:
		t.Fatalf("%d bytes queued", c.queue.data.used)
	case sum(&c.inbox.chunks, true)+c.inbox.returned.cost != c.inbox.data.used || c.inbox.data.used > c.cfg.ReceiveBytes:
		t.Fatalf("%d bytes received", c.inbox.data.used)
	case c.store.resendNext > c.store.resendEnd || c.store.resendEnd > c.store.sendNext:
		t.Fatalf("resends from %d to %d, %d was not sent", c.store.resendNext, c.store.resendEnd, c.store.sendNext)
	}
}
