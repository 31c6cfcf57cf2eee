package fragment

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// vector is a packet that the article's example code wrote.
type vector struct {
	Name       string
	ProtocolID uint32 `json:"protocol_id"`
	Sequence   uint16
	Index      int    `json:"fragment_id"`
	Count      int    `json:"num_fragments"`
	Header     string `json:"header_hex"`
	Fragment   string `json:"fragment_hex"`
	Packet     string `json:"packet_hex"`
}

func loadVectors[T any](t testing.TB, name string) []T {
	text, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	var file struct{ Vectors []T }
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestVectors(t *testing.T) {
	tooMany := 0
	for _, file := range []string{"fragment_packets", "fragment_packets_pid12345678"} {
		for _, v := range loadVectors[vector](t, file) {
			t.Run(v.Name, func(t *testing.T) {
				packet, data := unhex(t, v.Packet), unhex(t, v.Fragment)
				want := Fragment{Sequence: v.Sequence, Index: v.Index, Count: v.Count, Data: data}
				if v.Count > MaxCount {
					tooMany++
					_, err := Parse(packet, v.ProtocolID)
					require.ErrorIs(t, err, ErrMalformed)
					require.Panics(t, func() { Append(nil, v.ProtocolID, want) })
					return
				}
				require.Equal(t, v.Packet, hex.EncodeToString(Append(nil, v.ProtocolID, want)))
				require.Equal(t, v.Header, hex.EncodeToString(packet[:HeaderBytes]))
				got, err := Parse(packet, v.ProtocolID)
				require.NoError(t, err)
				require.Equal(t, want, got)
				_, err = Parse(packet, v.ProtocolID+1)
				require.ErrorIs(t, err, ErrChecksum)
			})
		}
	}
	require.Equal(t, 3, tooMany, "vectors with 256 fragments, which the reference writes as 0")
}

// regular is a packet that was small enough to be sent as it is.
type regular struct {
	Name     string
	Type     int
	Sequence uint16
	Items    []int32
	Packet   string `json:"packet_hex"`
}

func TestRegularPackets(t *testing.T) {
	for _, v := range loadVectors[regular](t, "regular_packets") {
		t.Run(v.Name, func(t *testing.T) {
			packet := unhex(t, v.Packet)
			f, err := Parse(packet, protocol)
			require.ErrorIs(t, err, ErrRegular)
			require.Equal(t, v.Sequence, f.Sequence)
			refuse(t, newReassembler(t, Config{}), epoch, packet, ErrRegular)

			r := newReassembler(t, Config{Regular: true})
			require.Equal(t, Block{v.Sequence, packet}, complete(t, r, epoch, packet))
			refuse(t, r, epoch, packet, ErrDuplicate)
			require.Equal(t, Block{v.Sequence + 1, packet}, complete(t, r, epoch, packets(t, v.Sequence+1, packet)...), "as the only fragment of a block")

			for cut := range packet {
				short := bytes.Clone(packet[:cut])
				if cut >= bits.ChecksumSize {
					bits.Seal(short, protocol)
				}
				refuse(t, newReassembler(t, Config{Regular: true}), epoch, short, ErrMalformed)
			}
		})
	}
}

// appendTypeB writes the article's packet B: a number of items and the items,
// the body of the vectors B_*.
func appendTypeB(sequence uint16, items []int32) []byte {
	w := bits.NewWriter(nil)
	w.Bits(0, 32)
	w.Bits(uint32(sequence), 16)
	w.Bits(2, 2)
	w.Int(int32(len(items)), 0, 4096*4)
	for _, n := range items {
		w.Int(n, -100, 100)
	}
	w.Check(endCheck)
	b := w.Bytes()
	bits.Seal(b, protocol)
	return b
}

// TestLargeRegularPacket splits what the article splits: a finished packet with
// its own checksum and sequence.
func TestLargeRegularPacket(t *testing.T) {
	found := 0
	for _, v := range loadVectors[regular](t, "regular_packets") {
		if v.Type == 2 {
			found++
			require.Equal(t, v.Packet, hex.EncodeToString(appendTypeB(v.Sequence, v.Items)), "the test writes it as the reference does")
		}
	}
	require.Positive(t, found)

	items := make([]int32, 4096*4)
	for i := range items {
		items[i] = int32(i%201) - 100
	}
	packet := appendTypeB(777, items)
	r := newReassembler(t, Config{Regular: true})
	b := complete(t, r, epoch, packets(t, 777, packet)...)
	require.Equal(t, packet, b.Data)
	require.NoError(t, bits.Verify(b.Data, protocol))
	require.NoError(t, checkRegular(b.Data))
}

// TestLossAmplification holds the article's four figures.
func TestLossAmplification(t *testing.T) {
	for count, percent := range map[int]float64{1: 1, 2: 2, 10: 9.5, 100: 63.4, 256: 92.4} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			require.InDelta(t, percent, 100*Loss(0.01, count), 0.1)
		})
	}
	require.Zero(t, Loss(0, MaxCount))
	require.Equal(t, 1.0, Loss(1, 1))
	require.False(t, math.IsNaN(Loss(1, MaxCount)))
}
