package vital

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func FuzzParseHeader(f *testing.F) {
	f.Add(false, []byte{0x40, 0xf4, 0xff})
	f.Add(true, []byte{0x40, 0xc4, 0xff})
	f.Add(true, []byte{0})
	f.Fuzz(func(t *testing.T, seven bool, b []byte) {
		v := V06
		if seven {
			v = V07
		}
		h, n, err := ParseHeader(v, b)
		if err != nil {
			require.Less(t, len(b), 3)
			return
		}
		again, m, err := ParseHeader(v, AppendHeader(nil, v, h))
		require.NoError(t, err)
		require.Equal(t, h, again)
		require.Equal(t, n, m)
		require.LessOrEqual(t, h.Size, v.maxSize())
		require.LessOrEqual(t, h.Sequence, sequenceMask)
	})
}

// FuzzParsePacket reads a packet, writes what it read, and gets the same bytes.
func FuzzParsePacket(f *testing.F) {
	for release, v := range releases {
		var file struct{ Vectors []packetVector }
		load(f, "tw_packets_"+release, &file)
		for _, x := range file.Vectors {
			f.Add(v == V07, unhex(f, x.Packet))
		}
	}
	f.Add(false, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(true, []byte{0x21, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(true, []byte{0x04, 0, 0, 1, 2, 3, 4, 4, 'x', 0})
	f.Fuzz(func(t *testing.T, seven bool, packet []byte) {
		v := V06
		if seven {
			v = V07
		}
		if own, response, data, err := ParseConnless(v, packet); err == nil {
			require.True(t, bytes.Equal(packet, AppendConnless(nil, v, own, response, data)))
		}
		h, n, err := ParsePacketHeader(v, packet)
		if err != nil {
			return
		}
		b := AppendPacketHeader(nil, v, h)
		require.Equal(t, packet[:n], b)
		if h, payload, err := ParsePacket(v, packet, nil); err == nil {
			require.LessOrEqual(t, n+len(payload), maxPacket)
			_, again, err := ParsePacket(v, AppendPacket(nil, v, h, payload), nil)
			require.NoError(t, err)
			require.True(t, bytes.Equal(payload, again))
		}
		if body := packet[n:]; !h.Control && !h.Compressed && checkChunks(v, body, h.Chunks) == nil {
			for range h.Chunks {
				chunk, rest, err := ParseChunk(v, body)
				require.NoError(t, err)
				b, body = append(AppendHeader(b, v, chunk.Header), chunk.Data...), rest
			}
			require.True(t, bytes.Equal(packet, b))
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte{0x3f})
	f.Add([]byte{0xbf, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, system, n, err := ParseMessage(b)
		if err == nil {
			require.Equal(t, b[:n], AppendMessage(nil, id, system))
		}
	})
}

// FuzzReceive passes arbitrary packets to a Conn with chunks in flight.
func FuzzReceive(f *testing.F) {
	f.Add(false, plain(PacketHeader{Ack: 1, Resend: true}, vitalChunk(1, "a"), vitalChunk(3, "b")))
	f.Add(true, []byte{0x04, 0, 0, 0, 0, 0, 0, 4, 'x', 0})
	f.Add(false, []byte{0x13, 0xff, 0, 0})
	f.Add(false, append([]byte{0x80, 0, 1}, bytes.Repeat([]byte{0xff}, 1397)...))
	f.Add(false, AppendPacket(nil, V06, PacketHeader{Control: true}, AppendToken(nil, 7)))
	f.Fuzz(func(t *testing.T, seven bool, packet []byte) {
		cfg := Config{ReceiveBytes: 4096}
		switch {
		case seven:
			cfg.Version = V07
		case len(packet)%2 == 1:
			cfg.DDNet, cfg.Token, cfg.PeerToken = true, 7, 7
		}
		c := newConn(t, cfg)
		send(t, c, Vital, "one", "two", "three")
		_, _, ok := c.AppendPacket(epoch, nil, 1400)
		require.True(t, ok)
		for i := range 4 {
			now := at(float64(i) / 8)
			c.Receive(now, packet)
			c.Advance(now)
			for n := 0; ; n++ {
				require.Less(t, n, 100)
				p, _, ok := c.AppendPacket(now, nil, 1400)
				if !ok {
					break
				}
				require.LessOrEqual(t, len(p), 1400)
			}
			check(t, c)
		}
		drain(c)
		s := c.Stats()
		require.Equal(t, s.Received, s.Taken+s.Malformed+s.WrongToken+s.BadAck+s.Ignored)
	})
}

// script plays operations on two ends and a wire that loses, doubles, delays and changes packets.
type script struct {
	t    *testing.T
	now  time.Time
	ends [2]*Conn
	wire [2][][]byte // packets from end i
	sent [2]int
	got  [2]int
	bad  int // packets changed on the way
}

func (s *script) step(op, arg byte) {
	from := int(op & 1)
	c, wire := s.ends[from], &s.wire[from]
	switch op >> 1 % 10 {
	case 0, 1:
		if c.Send(Vital, content(int(arg)*5, s.sent[from])) == nil {
			s.sent[from]++
		}
	case 2:
		_ = c.Send(0, content(int(arg)*4, 0))
	case 3:
		c.Flush()
	case 4, 5:
		s.deliver(from, int(arg), op>>1%10 == 5)
	case 6:
		if len(*wire) > 0 {
			*wire = (*wire)[1:]
		}
	case 7:
		s.now = s.now.Add(time.Duration(arg) * 3 * time.Millisecond)
	case 8:
		if len(*wire) > 0 && len((*wire)[0]) > 0 && s.bad < 20 {
			p := bytes.Clone((*wire)[0])
			p[int(arg)%len(p)] ^= 0x20 // tokens or flags would not let it pass
			s.bad++
			_, n, err := ParsePacketHeader(V07, p)
			if err != nil || int(arg)%len(p) >= 3 && int(arg)%len(p) < n {
				require.NoError(s.t, s.ends[1-from].Receive(s.now, p))
			}
		}
	case 9:
		s.flush(from, 100+int(arg)*6)
	}
	s.take()
}

// deliver delivers a packet, not always the first, and keeps it in flight if it must arrive twice.
func (s *script) deliver(from, arg int, twice bool) {
	wire := &s.wire[from]
	if len(*wire) == 0 {
		return
	}
	i := arg % min(3, len(*wire))
	p := (*wire)[i]
	if !twice {
		*wire = append((*wire)[:i:i], (*wire)[i+1:]...)
	}
	require.NoError(s.t, s.ends[1-from].Receive(s.now, p))
}

// flush puts on the wire what is ready.
func (s *script) flush(from, max int) {
	c := s.ends[from]
	require.NoError(s.t, c.Advance(s.now))
	for n := 0; ; n++ {
		require.Less(s.t, n, 1000)
		p, _, ok := c.AppendPacket(s.now, nil, max)
		if !ok {
			break
		}
		require.LessOrEqual(s.t, len(p), max)
		s.wire[from] = append(s.wire[from], p)
	}
	check(s.t, c)
}

func (s *script) take() {
	for to, c := range s.ends {
		for chunk, ok := c.Next(); ok; chunk, ok = c.Next() {
			if chunk.Flags == Vital {
				require.True(s.t, bytes.Equal(content(len(chunk.Data), s.got[1-to]), chunk.Data), "chunk %d", s.got[1-to])
				s.got[1-to]++
				require.LessOrEqual(s.t, s.got[1-to], s.sent[1-to])
			}
		}
	}
}

// FuzzPair plays a script, then lets the wire be perfect: every vital chunk arrives.
func FuzzPair(f *testing.F) {
	f.Add([]byte{0, 9, 6, 0, 18, 255, 8, 0, 19, 255, 9, 0})
	f.Add(bytes.Repeat([]byte{0, 200, 1, 3, 4, 9, 18, 250, 19, 250, 12, 0, 8, 1, 9, 2, 14, 99, 10, 1, 16, 30}, 8))
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := &script{t: t, now: epoch}
		for i := range s.ends {
			s.ends[i] = newConn(t, Config{Version: V07, Token: uint32(i), PeerToken: uint32(1 - i), ReceiveBytes: 8192, Timeout: time.Hour})
		}
		for ; len(ops) >= 2 && s.now.Sub(epoch) < 20*time.Minute; ops = ops[2:] {
			s.step(ops[0], ops[1])
		}
		for range 2000 {
			if s.got == s.sent && s.ends[0].Outstanding()+s.ends[1].Outstanding() == 0 {
				return
			}
			s.now = s.now.Add(50 * time.Millisecond)
			for from := range s.ends {
				s.ends[from].Flush()
				s.flush(from, 1400)
				for len(s.wire[from]) > 0 {
					s.deliver(from, 0, false)
					s.take()
				}
			}
		}
		t.Fatalf("sent %v, received %v", s.sent, s.got)
	})
}
