package vital

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestDDNetVectors writes and reads packets of DDNet: of 0.6 with and without
// its token, and of 0.7.
func TestDDNetVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			packetVector
			Seven    bool   `json:"sixup"`
			Resend   bool   `json:"resend_flag"`
			Security string `json:"security_token"`
			Unpacked string `json:"unpacked_payload_hex"`
		}
	}
	load(t, "tw_packets_ddnet", &file)
	require.NotEmpty(t, file.Vectors)
	for _, x := range file.Vectors {
		t.Run(x.Name, func(t *testing.T) {
			v, security, want := V06, token(t, x.Security), PacketHeader{Ack: x.Ack, Chunks: x.Count, Resend: x.Resend, Compressed: x.Compressed}
			if x.Seven {
				v, want.Token, want.Tokened = V07, security, true
			}
			h, payload, err := ParsePacket(v, unhex(t, x.Packet), nil)
			require.NoError(t, err)
			require.Equal(t, want, h)
			require.Equal(t, x.Unpacked, hex.EncodeToString(payload))

			written := unhex(t, x.Payload)
			require.NoError(t, checkChunks(v, written, x.Count))
			if !x.Seven && security != 0 {
				rest, got, err := CutToken(payload)
				require.NoError(t, err)
				require.Equal(t, security, got)
				require.True(t, bytes.Equal(written, rest))
				written = AppendToken(written, security)
			}
			require.Equal(t, x.Packet, hex.EncodeToString(AppendPacket(nil, v, h, written)))
		})
	}
}

// TestDDNetConn builds two of DDNet's packets, and takes them.
func TestDDNetConn(t *testing.T) {
	cfg := Config{DDNet: true, Token: 0xa1b2c3d4, PeerToken: 0xa1b2c3d4}
	a, b := newConn(t, cfg), newConn(t, cfg)
	send(t, a, Vital, string(unhex(t, "f7efc478005bb524")))
	a.Flush()
	p := packet(t, a, epoch)
	require.Equal(t, "000001400801f7efc478005bb524a1b2c3d4", hex.EncodeToString(p), "token_one_vital_seq1")
	require.NoError(t, b.Receive(epoch, p))
	require.Len(t, drain(b), 1)

	p = packet(t, b, at(0.2))
	require.Equal(t, "000100a1b2c3d4", hex.EncodeToString(p), "its acknowledgement")
	require.NoError(t, a.Receive(at(0.3), p))
	require.Equal(t, "10000000a1b2c3d4", hex.EncodeToString(packet(t, a, at(1.1))), "a keep-alive")
	a.Close("bye")
	p = packet(t, a, at(1.2))
	require.Equal(t, "10000004"+hex.EncodeToString([]byte("bye\x00"))+"a1b2c3d4", hex.EncodeToString(p))
	var closed *CloseError
	require.ErrorAs(t, b.Receive(at(1.2), p), &closed)
	require.Equal(t, "bye", closed.Reason)
}

// TestDDNetRefuses what has no token, or another.
func TestDDNetRefuses(t *testing.T) {
	c := newConn(t, Config{DDNet: true, Token: 7, PeerToken: 7})
	chunk := append(AppendHeader(nil, V06, Header{Vital, 1, 1}), 'x')
	for name, payload := range map[string][]byte{
		"none": chunk, "another": AppendToken(bytes.Clone(chunk), 8), "too short": {1, 2, 3},
	} {
		before := c.Stats().WrongToken
		require.NoError(t, c.Receive(epoch, AppendPacket(nil, V06, PacketHeader{Chunks: 1}, payload)))
		require.Equal(t, before+1, c.Stats().WrongToken, name)
	}
	require.NoError(t, c.Receive(epoch, AppendPacketHeader(nil, V06, PacketHeader{Token: 7, Tokened: true})), "0.6.5's token")
	require.Equal(t, uint64(4), c.Stats().WrongToken)
	require.NoError(t, c.Receive(epoch, AppendPacket(nil, V06, PacketHeader{Control: true}, AppendToken(nil, 7))))
	require.Equal(t, uint64(1), c.Stats().Malformed, "a control packet of a token only")
	require.Empty(t, drain(c))
	for _, cfg := range []Config{
		{DDNet: true}, {DDNet: true, Token: 1, PeerToken: 2}, {DDNet: true, Version: V07, Token: 1, PeerToken: 1},
		{DDNet: true, Token: unknownToken, PeerToken: unknownToken},
	} {
		require.ErrorContains(t, cfg.Validate(), "Config.DDNet")
	}
}

// TestDDNetFullPacket: no packet is over 1,400 bytes, and none over what its carrier takes.
func TestDDNetFullPacket(t *testing.T) {
	for _, most := range []int{200, 1400} {
		c := newConn(t, Config{DDNet: true, Token: 7, PeerToken: 7, MaxPacket: most, Plain: true})
		for range 40 {
			require.NoError(t, c.Send(0, content(150, 3)))
		}
		c.Flush()
		largest := 0
		for p, _, ok := c.AppendPacket(epoch, nil, most); ok; p, _, ok = c.AppendPacket(epoch, nil, most) {
			largest = max(largest, len(p))
		}
		require.LessOrEqual(t, largest, most)
		require.Greater(t, largest, most-160)
	}
}

// TestCompressedTalk: compressible content arrives as well, for each kind of peer, in fewer bytes.
func TestCompressedTalk(t *testing.T) {
	for name, cfg := range map[string]Config{
		"0.6": {}, "0.7": {Version: V07, Token: 1, PeerToken: 1}, "DDNet": {DDNet: true, Token: 1, PeerToken: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bytesOf := func(plain bool) (total int) {
				from := cfg
				from.Plain = plain
				a, b := newConn(t, from), newConn(t, cfg)
				for i := range 20 {
					require.NoError(t, a.Send(Flags(i&1), make([]byte, 100)))
				}
				a.Flush()
				for p, _, ok := a.AppendPacket(epoch, nil, 1400); ok; p, _, ok = a.AppendPacket(epoch, nil, 1400) {
					total += len(p)
					require.NoError(t, b.Receive(epoch, p))
				}
				require.Equal(t, plain, a.Stats().Compressed == 0)
				got := drain(b)
				require.Len(t, got, 20)
				for _, c := range got {
					require.True(t, bytes.Equal(make([]byte, 100), c.Data))
				}
				return total
			}
			require.Less(t, bytesOf(false)*4, bytesOf(true))
		})
	}
}

// TestDDNetTalk loses nothing vital on a path that loses packets.
func TestDDNetTalk(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.05, Seed: testkit.Seed(t)}
	k, pair := newTalk(t, V06, path, 500, 0)
	for _, c := range k.ends {
		c.cfg.DDNet, c.cfg.Token, c.cfg.PeerToken = true, 9, 9
	}
	require.NoError(t, pair.Run(time.Hour, k.done))
	for _, c := range k.ends {
		require.Equal(t, c.Stats().Received, c.Stats().Taken)
	}
}

// TestStrangersCostLittle: a stranger's packet with a token in its header is
// not decompressed, and decompressing allocates nothing.
func TestStrangersCostLittle(t *testing.T) {
	bomb := append([]byte{0x80, 0, 1}, bytes.Repeat([]byte{0xff}, 1397)...)
	c := newConn(t, Config{Token: 1, PeerToken: 1})
	require.NoError(t, c.Receive(epoch, append([]byte{0x88, 0, 1, 0, 0, 0, 2}, bomb[7:]...)))
	require.Equal(t, uint64(1), c.Stats().WrongToken)
	for _, cfg := range []Config{{}, {DDNet: true, Token: 7, PeerToken: 7}} {
		c := newConn(t, cfg)
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = c.Receive(epoch, bomb) }))
		require.NotZero(t, c.Stats().Malformed)
	}
}
