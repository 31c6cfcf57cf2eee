package vital

import (
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// headerVector is a header that the game packed, and what it unpacks to; or
// bytes that it only unpacked.
type headerVector struct {
	Name     string
	Flags    Flags
	Size     int
	Sequence int
	Bytes    int
	Hex      string
	Unpacked struct {
		Flags    Flags
		Size     int
		Sequence int
		Bytes    int
	}
}

func TestHeaderVectors(t *testing.T) {
	for release, v := range releases {
		var file struct {
			Vectors    []headerVector
			UnpackOnly []headerVector `json:"unpack_only"`
		}
		load(t, "tw_chunk_headers_"+release, &file)
		require.NotEmpty(t, file.Vectors)
		require.NotEmpty(t, file.UnpackOnly)
		for _, x := range file.Vectors {
			t.Run(release+"/"+x.Name, func(t *testing.T) {
				b := AppendHeader(nil, v, Header{x.Flags, x.Size, x.Sequence})
				require.Equal(t, x.Hex, hex.EncodeToString(b))
				h, n, err := ParseHeader(v, append(b, 0xff, 0xff))
				require.NoError(t, err)
				require.Equal(t, Header{x.Unpacked.Flags, x.Unpacked.Size, x.Unpacked.Sequence}, h)
				require.Equal(t, x.Unpacked.Bytes, n)
			})
		}
		for _, x := range file.UnpackOnly {
			t.Run(release+"/"+x.Hex, func(t *testing.T) {
				h, n, err := ParseHeader(v, unhex(t, x.Hex))
				require.NoError(t, err)
				require.Equal(t, Header{x.Flags, x.Size, x.Sequence}, h)
				require.Equal(t, x.Bytes, n)
			})
		}
	}
}

// TestBackroomVectors holds which sequences the game takes for old.
func TestBackroomVectors(t *testing.T) {
	for release, v := range releases {
		var file struct {
			Old []struct {
				Seq, Ack int
				In       bool `json:"in_backroom"`
			} `json:"is_seq_in_backroom"`
		}
		load(t, "tw_chunk_headers_"+release, &file)
		require.NotEmpty(t, file.Old)
		for _, x := range file.Old {
			c := newConn(t, Config{Version: v})
			c.received = uint64(x.Ack)
			c.deliver(Chunk{Header: Header{Vital, 0, x.Seq}})
			require.Equal(t, x.In, c.Stats().Duplicates == 1, "%d after %d", x.Seq, x.Ack)
		}
	}
}

// packetVector is a packet that the game wrote and read.
type packetVector struct {
	Name   string
	Flags  []string `json:"flags_in"`
	Ack    int
	Token  string
	Count  int `json:"num_chunks"`
	Chunks []struct {
		Flags    Flags
		Sequence int
		Size     int
		Data     string `json:"data_hex"`
	}
	Payload    string `json:"payload_hex"`
	Compressed bool
	Packet     string `json:"packet_hex"`
}

func token(t testing.TB, s string) uint32 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 16, 32)
	require.NoError(t, err)
	return uint32(n)
}

// TestPacketVectors writes and reads all packets of the game.
func TestPacketVectors(t *testing.T) {
	for release, v := range releases {
		var file struct{ Vectors []packetVector }
		load(t, "tw_packets_"+release, &file)
		require.NotEmpty(t, file.Vectors)
		for _, x := range file.Vectors {
			t.Run(release+"/"+x.Name, func(t *testing.T) {
				packet := unhex(t, x.Packet)
				want := PacketHeader{Ack: x.Ack, Chunks: x.Count, Token: token(t, x.Token), Tokened: x.Token != "", Compressed: x.Compressed}
				for _, f := range x.Flags {
					want.Resend = want.Resend || f == "RESEND"
				}
				h, payload, err := ParsePacket(v, packet, nil)
				require.NoError(t, err)
				require.Equal(t, want, h)
				require.Equal(t, x.Payload, hex.EncodeToString(payload))
				h.Compressed = false
				require.Equal(t, x.Packet, hex.EncodeToString(AppendPacket(nil, v, h, x.payload(t, v, packet))))
			})
		}
	}
}

// payload writes the chunks of a vector, which those of its packet must be.
func (x packetVector) payload(t *testing.T, v Version, packet []byte) (b []byte) {
	_, got := chunks(t, v, packet)
	require.Len(t, got, len(x.Chunks))
	for i, c := range got {
		require.Equal(t, Header{x.Chunks[i].Flags, x.Chunks[i].Size, x.Chunks[i].Sequence}, c.Header)
		require.Equal(t, x.Chunks[i].Data, hex.EncodeToString(c.Data))
		b = append(AppendHeader(b, v, c.Header), c.Data...)
	}
	return b
}

// TestControlVectors reads control packets and packets without a connection.
func TestControlVectors(t *testing.T) {
	for release, v := range releases {
		var file struct {
			Control []struct {
				Name    string
				Message byte
				Ack     int
				Extra   string `json:"extra_hex"`
				Packet  string `json:"packet_hex"`
				Parsed  struct{ Token string }
			}
			Connless []struct {
				Data     string `json:"data_hex"`
				Token    string
				Response string `json:"response_token"`
				Packet   string `json:"packet_hex"`
			}
		}
		load(t, "tw_packets_"+release, &file)
		require.NotEmpty(t, file.Control)
		for _, x := range file.Control {
			packet := unhex(t, x.Packet)
			h, n, err := ParsePacketHeader(v, packet)
			require.NoError(t, err, x.Name)
			want := PacketHeader{Control: true, Ack: x.Ack, Token: token(t, x.Parsed.Token), Tokened: v != V06}
			require.Equal(t, want, h, x.Name)
			require.Equal(t, append([]byte{x.Message}, unhex(t, x.Extra)...), packet[n:], x.Name)
			require.Equal(t, packet[:n], AppendPacketHeader(nil, v, h))
		}
		require.NotEmpty(t, file.Connless)
		for _, x := range file.Connless {
			_, _, err := ParsePacketHeader(v, unhex(t, x.Packet))
			require.ErrorIs(t, err, ErrConnless)
			own, response, data, err := ParseConnless(v, unhex(t, x.Packet))
			require.NoError(t, err)
			require.Equal(t, [2]uint32{token(t, x.Token), token(t, x.Response)}, [2]uint32{own, response})
			require.Equal(t, x.Data, hex.EncodeToString(data))
			require.Equal(t, x.Packet, hex.EncodeToString(AppendConnless(nil, v, own, response, data)))
		}
	}
}
