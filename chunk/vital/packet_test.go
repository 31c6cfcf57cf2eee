package vital

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		v      Version
		packet string
		why    error
	}{
		{"nothing", V06, "", errPacket},
		{"two bytes", V06, "0000", errPacket},
		{"0.6 token cut off", V06, "080000112233", errPacket},
		{"0.7 token cut off", V07, "000000112233", errPacket},
		{"0.6 reserved", V06, "040000", errReserved},
		{"0.7 reserved", V07, "40000011223344", errReserved},
		{"0.7 reserved", V07, "80000011223344", errReserved},
		{"control without message", V06, "100000", errControl},
		{"control with chunks", V06, "10000100", errControl},
		{"0.7 control without message", V07, "04000011223344", errControl},
		{"without a connection", V06, "ffffffffffff61", ErrConnless},
		{"without a connection", V07, "21112233445566778861", ErrConnless},
		{"too long", V06, strings.Repeat("00", 1401), errLong},
		{"no chunk", V06, "000001", errHeader},
		{"half a header", V06, "00000100", errHeader},
		{"vital without sequence", V06, "0000014000", errHeader},
		{"no data", V06, "0000010005", errData},
		{"too little data", V06, "0000010005a2a08a5c", errData},
		{"second chunk missing", V06, "0000020005a2a08a5c15", errHeader},
		{"more than its chunks", V06, "0000010005a2a08a5c1500", errTrailing},
		{"bytes without chunks", V06, "00000000", errTrailing},
		{"copies differ", V06, "0000014000ff", errCopies},
		{"sequence in a chunk that is not vital", V06, "00000100f0", errCopies},
		{"sequence in a chunk that is not vital", V07, "000001112233440080", errCopies},
	} {
		h, n, err := ParsePacketHeader(c.v, unhex(t, c.packet))
		if err == nil {
			err = checkChunks(c.v, unhex(t, c.packet)[n:], h.Chunks)
		}
		require.ErrorIs(t, err, c.why, "%s in %v", c.name, c.v)
	}
	_, _, err := ParseHeader(V07, []byte{0x40, 0})
	require.ErrorIs(t, err, ErrMalformed)
	for _, c := range []struct {
		v Version
		b []byte
	}{{V06, unhex(t, "ffffffffff")}, {V07, unhex(t, "2111223344556677")}, {V07, unhex(t, "22112233445566778861")}, {V06, make([]byte, 1401)}} {
		_, _, _, err := ParseConnless(c.v, c.b)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

// TestHeadersAreOneToOne writes all sequences and sizes.
func TestHeadersAreOneToOne(t *testing.T) {
	for _, v := range []Version{V06, V07} {
		for flags := Flags(0); flags < 4; flags++ {
			for i := range 4096 {
				h := Header{flags, i & v.maxSize(), i & sequenceMask}
				if flags&Vital == 0 {
					h.Sequence = -1
				}
				b := AppendHeader(nil, v, h)
				got, n, err := ParseHeader(v, b)
				if err != nil || got != h || n != len(b) || n != 2+int(flags&Vital) {
					t.Fatalf("%v: %+v became %x, then %+v (%v)", v, h, b, got, err)
				}
			}
		}
	}
}

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		id     int
		system bool
		hex    string
	}{
		{0, false, "00"}, {0, true, "01"}, {1, false, "02"}, {1, true, "03"}, {31, true, "3f"}, // one byte, in both versions
		{32, false, "8001"}, {32, true, "8101"}, {4095, true, "bf7f"}, {4096, false, "808001"}, {MaxMessage, true, "bfffffff0f"},
	} {
		b := AppendMessage(nil, c.id, c.system)
		require.Equal(t, c.hex, hex.EncodeToString(b))
		id, system, n, err := ParseMessage(append(b, 0xff))
		require.NoError(t, err)
		require.Equal(t, []any{c.id, c.system, len(b)}, []any{id, system, n})
	}
	for name, s := range map[string]string{
		"nothing": "", "negative": "40", "cut off": "80", "no end": "8080808080", "another form of 0": "8000", "over 2^31": "808080807f", "2^31": "8080808010",
	} {
		_, _, _, err := ParseMessage(unhex(t, s))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	require.Panics(t, func() { AppendMessage(nil, -1, false) })
	require.Panics(t, func() { AppendMessage(nil, MaxMessage+1, false) })
}

// TestWireExamples decodes the examples in WIRE.md.
func TestWireExamples(t *testing.T) {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllSubmatch(text, -1)
	require.Len(t, blocks, 2)
	for i, v := range []Version{V06, V07} {
		var digits strings.Builder
		for line := range strings.Lines(string(blocks[i][1])) {
			line, _, _ = strings.Cut(line, "#")
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
		h, got := chunks(t, v, unhex(t, digits.String()))
		want := PacketHeader{Resend: true, Ack: 700, Chunks: 2}
		if v == V07 {
			want.Token, want.Tokened = 0x11223344, true
		}
		require.Equal(t, want, h)
		require.Equal(t, []Chunk{{Header{Vital, 4, 1023}, []byte("\x05abc")}, {Header{0, 65, -1}, []byte("\x08" + strings.Repeat("z", 64))}}, got)
		id, system, _, err := ParseMessage(got[0].Data)
		require.NoError(t, err)
		require.Equal(t, []any{2, true}, []any{id, system})
		id, system, _, err = ParseMessage(got[1].Data)
		require.NoError(t, err)
		require.Equal(t, []any{4, false}, []any{id, system})
	}
}
