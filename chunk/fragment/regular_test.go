package fragment

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

// bodyVector has the fields of the article's three packets, which are all that their bodies hold.
type bodyVector struct {
	regular
	A, B, C  int32
	Position []string `json:"position_ieee_bits"`
	Velocity []string `json:"velocity_ieee_bits"`
	AtRest   bool     `json:"at_rest"`
}

// body writes the body of the vector's packet, and returns how many bits it takes.
func (v bodyVector) body(t *testing.T) ([]byte, int) {
	w := bits.NewWriter(nil)
	floats := func(all []string) {
		for _, s := range all {
			n, err := strconv.ParseUint(s, 16, 32)
			require.NoError(t, err)
			w.Uint32(uint32(n))
		}
	}
	switch v.Type {
	case 1:
		w.Int(v.A, -10, 10)
		w.Int(v.B, -20, 20)
		w.Int(v.C, -30, 30)
	case 2:
		w.Int(int32(len(v.Items)), 0, 4096*4)
		for _, n := range v.Items {
			w.Int(n, -100, 100)
		}
	case 3:
		floats(v.Position)
		w.Int(map[bool]int32{true: 1}[v.AtRest], 0, 1)
		floats(v.Velocity)
	}
	size := [...]int{1: 5 + 6 + 7, 2: 15 + 8*len(v.Items), 3: 1 + 32*len(v.Position) + 32*len(v.Velocity)}
	return w.Bytes(), size[v.Type]
}

// TestAppendRegularVectors writes the reference's regular packets from their
// fields, bit for bit, and reads them.
func TestAppendRegularVectors(t *testing.T) {
	for _, v := range loadVectors[bodyVector](t, "regular_packets") {
		t.Run(v.Name, func(t *testing.T) {
			body, n := v.body(t)
			r := Regular{Sequence: v.Sequence, Type: v.Type, Body: body, Bits: n}
			packet := AppendRegular([]byte("head"), protocol, r)[4:]
			require.Equal(t, v.Packet, hex.EncodeToString(packet))
			require.Len(t, packet, r.Size())
			require.Equal(t, packet, AppendRegular(nil, 0, r), "the reference's protocol id is the default")

			got, err := ParseRegular(packet, protocol, nil)
			require.NoError(t, err)
			require.Equal(t, []any{v.Sequence, v.Type}, []any{got.Sequence, got.Type})
			require.Less(t, got.Bits-n, 8)
			require.Equal(t, body, got.Body[:len(body)])
			require.Equal(t, packet, AppendRegular(nil, protocol, got))
			require.Equal(t, Block{v.Sequence, packet}, complete(t, newReassembler(t, Config{Regular: true}), epoch, packet))
		})
	}
}

// TestRegularOrFragments: one byte decides whether a packet is sent as it is,
// and the receiver gets the same from both forms.
func TestRegularOrFragments(t *testing.T) {
	receiver := newReassembler(t, Config{Regular: true})
	for i, size := range []int{Size - 11, Size - 10, 5000, MaxBlock - 11} { // 10 bytes and 2 bits are not the body's
		want := Regular{Sequence: uint16(i), Type: 3, Body: content(size, i), Bits: 8 * size}
		packet := AppendRegular(nil, protocol, want)
		sent := [][]byte{packet}
		if len(packet) > Size {
			sent = packets(t, want.Sequence, packet)
		}
		require.Equal(t, i == 0, len(sent) == 1)
		b := complete(t, receiver, epoch, sent...)
		got, err := ParseRegular(b.Data, protocol, nil)
		require.NoError(t, err)
		require.Equal(t, want.Sequence, got.Sequence)
		require.True(t, bytes.Equal(want.Body, got.Body[:size]))
	}
}

func TestRegularRefuses(t *testing.T) {
	good := AppendRegular(nil, protocol, Regular{Sequence: 5, Type: 2, Body: []byte{0xff, 0xff}, Bits: 11})
	for cut := range good {
		short := bytes.Clone(good[:cut])
		_, err := ParseRegular(short, protocol, nil)
		require.Error(t, err)
		if cut >= bits.ChecksumSize {
			bits.Seal(short, protocol)
		}
		_, err = ParseRegular(short, protocol, nil)
		require.ErrorIs(t, err, ErrMalformed)
	}
	_, err := ParseRegular(good, protocol+1, nil)
	require.ErrorIs(t, err, ErrChecksum)
	_, err = ParseRegular(packets(t, 1, []byte("late"))[0], protocol, nil)
	require.ErrorIs(t, err, ErrFragment)
	for name, r := range map[string]Regular{
		"a fragment's type": {Type: 0}, "type": {Type: 4}, "negative": {Type: 1, Bits: -1}, "bits": {Type: 1, Body: []byte{1}, Bits: 9},
		"size": {Type: 1, Body: make([]byte, MaxBlock), Bits: 8 * (MaxBlock - 10)},
	} {
		require.Panics(t, func() { AppendRegular(nil, protocol, r) }, name)
	}
}

func TestRegularAllocatesNothing(t *testing.T) {
	r := Regular{Sequence: 1, Type: 1, Body: content(900, 1), Bits: 7195}
	packet, buf := make([]byte, 0, Size), make([]byte, 0, Size)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		packet = AppendRegular(packet[:0], protocol, r)
		if got, err := ParseRegular(packet, protocol, buf); err != nil || got.Bits < r.Bits {
			panic("not the same")
		}
	}))
}

// FuzzParseRegular reads packets whose checksum is made right, and writes the same again.
func FuzzParseRegular(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendRegular(nil, protocol, Regular{Sequence: 9, Type: 1}))
	f.Add(AppendRegular(nil, protocol, Regular{Sequence: 9, Type: 3, Body: content(40, 1), Bits: 313}))
	f.Add(raw(4660, 0, 1, 2, []byte("late")))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) >= bits.ChecksumSize {
			packet = reseal(bytes.Clone(packet))
		}
		got, err := ParseRegular(packet, protocol, nil)
		if err != nil {
			return
		}
		require.NoError(t, got.check())
		require.True(t, bytes.Equal(packet, AppendRegular(nil, protocol, got)))
	})
}
