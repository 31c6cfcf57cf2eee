package vital

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plain is what a peer without tokens sends in 0.6.
func plain(h PacketHeader, all ...Chunk) []byte {
	h.Chunks = len(all)
	b := AppendPacketHeader(nil, V06, h)
	for _, c := range all {
		c.Size = len(c.Data)
		b = append(AppendHeader(b, V06, c.Header), c.Data...)
	}
	return b
}

func vitalChunk(sequence int, data string) Chunk {
	return Chunk{Header{Flags: Vital, Sequence: sequence}, []byte(data)}
}

func send(t testing.TB, c *Conn, flags Flags, data ...string) {
	for _, d := range data {
		require.NoError(t, c.Send(flags, []byte(d)))
	}
	c.Flush()
}

func TestSequencesBeginAtOneAndWrap(t *testing.T) {
	c := newConn(t, Config{})
	now := epoch
	for n := 1; n < 3000; n++ {
		send(t, c, 0, "x")
		send(t, c, Vital, "y")
		_, got := chunks(t, V06, packet(t, c, now))
		require.Equal(t, []Header{{0, 1, -1}, {Vital, 1, n % 1024}}, []Header{got[0].Header, got[1].Header})
		require.NoError(t, c.Receive(now, plain(PacketHeader{Ack: n % 1024})))
		require.Zero(t, c.Outstanding())
		now = now.Add(time.Millisecond)
	}
}

func TestInOrderAcceptance(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Receive(epoch, plain(PacketHeader{}, vitalChunk(1, "a"), vitalChunk(3, "c"), Chunk{Header{0, 0, -1}, []byte("n")}, vitalChunk(2, "b"), vitalChunk(1, "a"))))
	var got string
	for _, chunk := range drain(c) {
		got += string(chunk.Data)
	}
	require.Equal(t, "anb", got)
	s := c.Stats()
	require.Equal(t, []uint64{3, 1, 1}, []uint64{s.Delivered, s.Gaps, s.Duplicates})

	t.Log("# the gap makes the next packet ask for a resend, at once and without chunks")
	require.Equal(t, unhex(t, "400200"), packet(t, c, epoch))
	require.Nil(t, packet(t, c, epoch))

	t.Log("# more gaps ask again, but not within 100 ms")
	require.NoError(t, c.Receive(epoch, plain(PacketHeader{}, vitalChunk(4, "d"))))
	require.Nil(t, packet(t, c, at(0.0999)))
	send(t, c, 0, "x")
	h, _ := chunks(t, V06, packet(t, c, at(0.0999)))
	require.False(t, h.Resend)
	next, _ := c.NextTimeout()
	require.Equal(t, at(0.1), next)
	h, _ = chunks(t, V06, packet(t, c, at(0.1)))
	require.True(t, h.Resend)
}

func TestAnswersAreLimited(t *testing.T) {
	c := newConn(t, Config{})
	send(t, c, Vital, "a", "b", "c")
	require.NotNil(t, packet(t, c, epoch))
	ask := plain(PacketHeader{Resend: true, Ack: 1})

	t.Log("# the answer has what is not acknowledged, with the flag on the chunks and not on the packet")
	require.NoError(t, c.Receive(at(0.05), ask))
	h, got := chunks(t, V06, packet(t, c, at(0.05)))
	require.Equal(t, PacketHeader{Chunks: 2}, h)
	require.Equal(t, []Chunk{{Header{Vital | Resend, 1, 2}, []byte("b")}, {Header{Vital | Resend, 1, 3}, []byte("c")}}, got)

	t.Log("# a second request is answered 100 ms after the first")
	require.NoError(t, c.Receive(at(0.06), ask))
	require.Nil(t, packet(t, c, at(0.06)))
	next, _ := c.NextTimeout()
	require.Equal(t, at(0.15), next)
	_, got = chunks(t, V06, packet(t, c, at(0.15)))
	require.Len(t, got, 2)

	t.Log("# a third is not, for the peer got on in between")
	require.NoError(t, c.Receive(at(0.16), ask))
	require.NoError(t, c.Receive(at(0.17), plain(PacketHeader{Ack: 2})))
	require.Nil(t, packet(t, c, at(0.9)))
	require.Equal(t, uint64(2), c.Stats().Answers)

	t.Log("# resends go before what is new")
	send(t, c, Vital, "d")
	require.NoError(t, c.Receive(at(1), plain(PacketHeader{Resend: true, Ack: 2})))
	_, got = chunks(t, V06, packet(t, c, at(1)))
	require.Equal(t, []Header{{Vital | Resend, 1, 3}, {Vital, 1, 4}}, []Header{got[0].Header, got[1].Header})
}

func TestFlush(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Send(Vital, []byte("a")))
	require.Nil(t, packet(t, c, at(0.5)))
	next, _ := c.NextTimeout()
	require.Equal(t, at(0.5).Add(1), next)
	require.NotNil(t, packet(t, c, next), "500 ms after the last packet")
	require.NoError(t, c.Send(0, []byte("b")))
	require.Nil(t, packet(t, c, next))
	c.Flush()
	require.NotNil(t, packet(t, c, next))
}

func TestKeepAlive(t *testing.T) {
	for v, want := range map[Version]string{V06: "10000000", V07: "04000001020304" + "00"} {
		cfg := Config{Version: v}
		if v == V07 {
			cfg.PeerToken = 0x01020304
		}
		c := newConn(t, cfg)
		require.Nil(t, packet(t, c, at(1)))
		require.Equal(t, unhex(t, want), packet(t, c, at(1).Add(1)))
		require.Nil(t, packet(t, c, at(2)))
	}
}

func TestAcknowledgementLeavesByItself(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Receive(epoch, plain(PacketHeader{}, vitalChunk(1, "a"))))
	require.Nil(t, packet(t, c, at(0.0999)))
	require.Equal(t, unhex(t, "000100"), packet(t, c, at(0.1)))

	t.Log("# the peer did not get it, and sends the chunk again")
	require.NoError(t, c.Receive(at(1), plain(PacketHeader{}, vitalChunk(1, "a"))))
	require.Equal(t, unhex(t, "000100"), packet(t, c, at(1.1)))
	require.Len(t, drain(c), 1)
}

func TestTimerResendsWhatWaitedTooLong(t *testing.T) {
	c := newConn(t, Config{})
	send(t, c, Vital, strings.Repeat("a", 600), strings.Repeat("b", 700), strings.Repeat("c", 800))
	require.NoError(t, c.Advance(epoch))
	for range 2 {
		_, _, ok := c.AppendPacket(epoch, nil, 1400)
		require.True(t, ok)
	}
	send(t, c, Vital, "d")
	require.NotNil(t, packet(t, c, at(0.5)))
	_, got := chunks(t, V06, packet(t, c, at(1.001)))
	require.Equal(t, []Header{{Vital | Resend, 600, 1}, {Vital | Resend, 700, 2}}, []Header{got[0].Header, got[1].Header}, "one packet of it")
	require.Nil(t, packet(t, c, at(1.9)))
}

func TestTimeouts(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Advance(at(10)))
	require.ErrorIs(t, c.Advance(at(10).Add(1)), ErrTimeout)
	require.ErrorIs(t, c.Send(0, nil), ErrTimeout)
	require.ErrorIs(t, c.Receive(at(11), plain(PacketHeader{})), ErrTimeout)
	_, ok := c.NextTimeout()
	require.False(t, ok)
	require.Nil(t, drain(c))

	c = newConn(t, Config{Timeout: 2 * time.Second})
	send(t, c, Vital, "a")
	require.NotNil(t, packet(t, c, epoch))
	for s := range 3 {
		require.NoError(t, c.Receive(at(float64(s)), plain(PacketHeader{})))
	}
	require.ErrorIs(t, c.Advance(at(2.1)), ErrNotAcked)
}

func TestClose(t *testing.T) {
	long := strings.Repeat("r", 300)
	for reason, want := range map[string]string{"": "", "server full": "server full", long: long[:253] + "…"} {
		a, b := newConn(t, Config{Version: V07, Token: 1, PeerToken: 2}), newConn(t, Config{Version: V07, Token: 2, PeerToken: 1})
		a.Close(reason)
		a.Close("not this one")
		var closed *CloseError
		require.ErrorAs(t, a.Send(0, []byte("x")), &closed)
		p := packet(t, a, epoch)
		require.Equal(t, &CloseError{Reason: want}, a.Err())
		require.ErrorAs(t, b.Receive(epoch, p), &closed)
		require.Equal(t, &CloseError{Reason: want, Remote: true}, closed)
		require.Contains(t, closed.Error(), "by the peer")
		require.Contains(t, a.Err().Error(), "here")
		_, _, ok := a.AppendPacket(epoch, nil, 1400)
		require.False(t, ok)
	}
}

// TestCloseKeepsToMaxPacket: a long reason makes no packet that is larger than
// Config.MaxPacket, whatever is offered.
func TestCloseKeepsToMaxPacket(t *testing.T) {
	for _, cfg := range []Config{{}, {Version: V07, Token: 1, PeerToken: 2}, {DDNet: true, Token: 1, PeerToken: 1}} {
		cfg.MaxPacket = 100
		c := newConn(t, cfg)
		c.Close(strings.Repeat("r", 300))
		require.Len(t, packet(t, c, epoch), 100)
	}
}

// TestTimesWithoutEnd: with the longest times nothing is ever due, and
// NextTimeout does not claim so.
func TestTimesWithoutEnd(t *testing.T) {
	c := newConn(t, Config{Timeout: math.MaxInt64, KeepAlive: math.MaxInt64, FlushAfter: math.MaxInt64, ResendAfter: math.MaxInt64, AckAfter: math.MaxInt64})
	send(t, c, Vital, "a")
	require.NotNil(t, packet(t, c, epoch))
	require.NoError(t, c.Send(0, []byte("b")))
	when, ok := c.NextTimeout()
	require.True(t, ok)
	require.Greater(t, when.Sub(epoch), 100*365*24*time.Hour)

	peer := newConn(t, Config{})
	send(t, peer, Vital, "v")
	require.NoError(t, c.Receive(epoch, packet(t, peer, epoch)))
	when, ok = c.NextTimeout()
	require.True(t, ok)
	require.Greater(t, when.Sub(epoch), 100*365*24*time.Hour)
}

func TestSmallPackets(t *testing.T) {
	c := newConn(t, Config{})
	send(t, c, Vital, strings.Repeat("v", 500))
	send(t, c, 0, strings.Repeat("n", 400))
	take := func(now time.Time, max int) (headers []Header) {
		require.NoError(t, c.Advance(now))
		for b, _, ok := c.AppendPacket(now, nil, max); ok; b, _, ok = c.AppendPacket(now, nil, max) {
			require.LessOrEqual(t, len(b), max)
			_, all := chunks(t, V06, b)
			for _, chunk := range all {
				headers = append(headers, chunk.Header)
			}
		}
		check(t, c)
		return headers
	}
	t.Log("# the vital chunk waits for a larger packet, and what is behind it as well")
	require.Empty(t, take(epoch, 300))
	require.Equal(t, uint64(1), c.Stats().TooBig)
	require.Equal(t, []Header{{Vital, 500, 1}, {0, 400, -1}}, take(at(0.6), 1000))
	t.Log("# so does a resend")
	require.Empty(t, take(at(1.61), 300))
	require.Equal(t, []Header{{Vital | Resend, 500, 1}}, take(at(2.7), 600))
	t.Log("# a chunk that is not vital is dropped")
	send(t, c, 0, strings.Repeat("n", 400), "m")
	require.Equal(t, []Header{{0, 1, -1}}, take(at(2.8), 300))
	require.Empty(t, take(at(2.9), 11))
	require.True(t, errors.Is(c.Err(), nil))
}

// TestVitalChunkThatNeverFits: its connection ends, so Config.MaxPacket is at
// most the least size that AppendPacket is given.
func TestVitalChunkThatNeverFits(t *testing.T) {
	c := newConn(t, Config{})
	send(t, c, Vital, strings.Repeat("v", 500), "behind it")
	c.Flush()
	for now, ok := epoch, true; ok; now, ok = c.NextTimeout() {
		require.NoError(t, c.Receive(now, plain(PacketHeader{})))
		if c.Advance(now) != nil {
			break
		}
		for b, _, ok := c.AppendPacket(now, nil, 300); ok; b, _, ok = c.AppendPacket(now, nil, 300) {
			_, all := chunks(t, V06, b)
			require.Empty(t, all)
		}
	}
	require.ErrorIs(t, c.Err(), ErrNotAcked)
}

// TestDamageIsNotSeen: the protocol relies on UDP's checksum.
func TestDamageIsNotSeen(t *testing.T) {
	c := newConn(t, Config{})
	b := plain(PacketHeader{}, vitalChunk(1, "hello"))
	b[len(b)-1] ^= 1
	require.NoError(t, c.Receive(epoch, b))
	got := drain(c)
	require.Len(t, got, 1)
	require.Equal(t, "helln", string(got[0].Data))
}

func TestSlowReader(t *testing.T) {
	cfg := Config{ReceiveBytes: 4096}
	a, b := newConn(t, cfg), newConn(t, cfg)
	want, sent := 0, 0
	for step := range 400 {
		now := at(float64(step) / 20)
		for ; sent < 40 && a.Send(Vital, content(700, sent)) == nil; sent++ {
			a.Flush()
		}
		for _, pair := range [][2]*Conn{{a, b}, {b, a}} {
			require.NoError(t, pair[0].Advance(now))
			for p, _, ok := pair[0].AppendPacket(now, nil, 1400); ok; p, _, ok = pair[0].AppendPacket(now, nil, 1400) {
				require.NoError(t, pair[1].Receive(now, p))
			}
			check(t, pair[0])
		}
		if chunk, ok := b.Next(); step%3 == 0 && ok {
			require.Equal(t, content(700, want), chunk.Data)
			want++
		} else if ok {
			require.Equal(t, content(700, want), chunk.Data)
			want++
		}
	}
	require.Equal(t, 40, want)
	require.Positive(t, b.Stats().Full)

	t.Log("# chunks that are not vital take at most half, however small")
	for range 40 {
		require.NoError(t, b.Receive(at(30), plain(PacketHeader{Ack: 0}, make([]Chunk, 255)...)))
	}
	require.LessOrEqual(t, b.inbox.chunks.Len(), 4096/chunkShare/2)
	require.NoError(t, b.Receive(at(30), plain(PacketHeader{}, vitalChunk(41, "still taken"))))
	all := drain(b)
	require.Equal(t, "still taken", string(all[len(all)-1].Data))
}

func TestConfigNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Version(2)":           {Version: 2},
		"0.6 has both or none": {Token: 5},
		"MaxPacket is 63":      {MaxPacket: 63},
		"MaxPacket is 1401":    {MaxPacket: 1401},
		"StoreBytes is 2045":   {StoreBytes: 2045},
		"QueueBytes is -1":     {QueueBytes: -1},
		"ReceiveBytes is 2773": {Version: V07, ReceiveBytes: 2773},
		"Timeout is -1ns; it":  {Timeout: -1},
		"KeepAlive is -1ns":    {KeepAlive: -1},
		"FlushAfter is -1ns":   {FlushAfter: -1},
		"ResendAfter is -1ns":  {ResendAfter: -1},
	} {
		_, err := NewConn(epoch, cfg)
		require.ErrorContains(t, err, field)
	}
	require.Equal(t, "0.6 0.7", V06.String()+" "+V07.String())
}

func TestEmptyVitalChunksAreLimitedToo(t *testing.T) {
	c := newConn(t, Config{ReceiveBytes: 4096})
	for n := 1; n <= 300; n++ {
		require.NoError(t, c.Receive(epoch, plain(PacketHeader{}, vitalChunk(n, ""))))
	}
	require.Equal(t, uint64(4096/chunkShare), c.received)
	require.Len(t, drain(c), 4096/chunkShare)
	h, _ := chunks(t, V06, packet(t, c, epoch))
	require.True(t, h.Resend, "asks for the rest as soon as there is room")
}

func TestNextTimeoutIsNowWhenAPacketIsReady(t *testing.T) {
	c := newConn(t, Config{})
	require.NoError(t, c.Advance(at(0.2)))
	send(t, c, Vital, "a")
	next, ok := c.NextTimeout()
	require.True(t, ok)
	require.Equal(t, at(0.2), next)
	require.NotNil(t, packet(t, c, at(0.2)))
	require.NoError(t, c.Receive(at(0.2), plain(PacketHeader{}, vitalChunk(2, "b"))))
	next, _ = c.NextTimeout()
	require.Equal(t, at(0.2), next)
}
