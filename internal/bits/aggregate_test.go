package bits_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// aggregate is a packet of packets, which the reference of the series' fifth part wrote.
type aggregate struct {
	Name     string
	Sequence *uint32 `json:"aggregate_sequence_header"`
	Packets  []inner
	Written  int    `json:"packets_written"`
	Packet   string `json:"packet_hex"`
}

// inner is a packet inside: three numbers, a list, or a moving body.
type inner struct {
	Type     int32
	Sequence uint32
	A, B, C  int32
	Items    []int32
	Position []string `json:"position_ieee_bits"`
	Velocity []string `json:"velocity_ieee_bits"`
}

const aggregateTypes = 3 // 0 ends the packet, so that a type takes 2 bits

func (p inner) write(t *testing.T, w *bits.Writer) {
	w.Int(p.Type+1, 0, aggregateTypes)
	w.Bits(p.Sequence, 16)
	switch p.Type {
	case 0:
		w.Int(p.A, -10, 10)
		w.Int(p.B, -20, 20)
		w.Int(p.C, -30, 30)
	case 1:
		w.Int(int32(len(p.Items)), 0, 16)
		for _, n := range p.Items {
			w.Int(n, -100, 100)
		}
	case 2:
		floats(t, w, p.Position)
		if p.resting(t) {
			w.Bits(1, 1)
		} else {
			w.Bits(0, 1)
			floats(t, w, p.Velocity)
		}
	}
	w.Check("end of packet")
}

func (p inner) resting(t *testing.T) bool {
	for _, v := range p.Velocity {
		if parseHex32(t, v) != 0 {
			return false
		}
	}
	return true
}

func floats(t *testing.T, w *bits.Writer, all []string) {
	for _, v := range all {
		w.Uint32(parseHex32(t, v))
	}
}

// TestAggregateVectors writes the reference's aggregates from their fields:
// fields that end within a byte, many packets one after the other, each aligned
// and with a check of its own, under one checksum.
func TestAggregateVectors(t *testing.T) {
	var file struct {
		Meta struct {
			ProtocolID uint32 `json:"protocol_id"`
		}
		Vectors []aggregate
	}
	load(t, "aggregate_packets.json", &file)
	require.NotEmpty(t, file.Vectors)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			w := bits.NewWriter(nil)
			w.Uint32(0)
			if v.Sequence != nil {
				w.Bits(*v.Sequence, 16)
				w.Check("aggregate packet header")
			}
			for _, p := range v.Packets[:v.Written] {
				p.write(t, &w)
			}
			w.Bits(0, 8)
			b := w.Bytes()
			bits.Seal(b, file.Meta.ProtocolID)
			require.Equal(t, v.Packet, hex.EncodeToString(b))
			require.NoError(t, bits.Verify(unhex(t, v.Packet), file.Meta.ProtocolID))
		})
	}
}
