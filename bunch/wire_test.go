package bunch

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unhex reads hex with spaces.
func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestVarint(t *testing.T) {
	for _, c := range []struct {
		value uint64
		bytes string
	}{
		{0, "00"}, {63, "3f"}, {64, "4040"}, {15293, "7bbd"}, {16383, "7fff"}, {16384, "80004000"},
		{494878333, "9d7f3e7d"}, {1<<30 - 1, "bfffffff"}, {1 << 30, "c000000040000000"}, {151288809941952652, "c2197c5eff14e88c"},
	} { // the long ones are the samples of RFC 9000, A.1
		b := appendVarint(nil, c.value)
		require.Equal(t, unhex(t, c.bytes), b)
		require.Equal(t, len(b), varintLen(c.value))
		v, n := consumeVarint(append(b, 0xff))
		require.Equal(t, c.value, v)
		require.Equal(t, len(b), n)
		for i := range b {
			_, n := consumeVarint(b[:i])
			require.Zero(t, n, "%d of %d bytes", i, len(b))
		}
	}
}

func TestPacketHeaders(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        packetHeader
	}{
		{"bare", "01 00 00000007", packetHeader{number: 7}},
		{"ping that wants an ack", "01 0c ffffffff", packetHeader{flags: flagPing | flagAckNow, number: 1<<32 - 1}},
		{"limit", "01 02 00000001 4100", packetHeader{flags: flagLimit, number: 1, limit: 256}},
		{"one run", "01 01 00000002 00000009 0010 01 0a",
			packetHeader{flags: flagAcks, number: 2, largest: 9, delay: 16, nruns: 1, runs: [maxAckRuns]uint64{10}}},
		{"a gap and a limit", "01 03 00000002 00000009 0000 03 02 03 4040 05",
			packetHeader{flags: flagAcks | flagLimit, number: 2, largest: 9, nruns: 3, runs: [maxAckRuns]uint64{2, 3, 64}, limit: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.bytes)
			var h packetHeader
			rest, err := parsePacketHeader(append(b, 0xaa), &h)
			require.NoError(t, err)
			require.Equal(t, []byte{0xaa}, rest)
			require.Equal(t, c.want, h)
			require.Equal(t, b, appendPacketHeader(nil, &h))
			for i := range b {
				_, err := parsePacketHeader(b[:i], &h)
				require.Error(t, err, "%d of %d bytes", i, len(b))
			}
		})
	}
}

func TestPacketHeadersRefused(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"empty", "", "truncated"},
		{"other protocol", "02 00 00000007", "first byte is 0x02 instead of 0x01"},
		{"reserved flag 4", "01 10 00000007", "reserved flags"},
		{"reserved flag 7", "01 80 00000007", "reserved flags"},
		{"no runs", "01 01 00000002 00000009 0010 00", "the number must be odd"},
		{"even runs", "01 01 00000002 00000009 0010 02 01 01", "the number must be odd"},
		{"65 runs", "01 01 00000002 00000009 0010 41" + strings.Repeat("01", 65), "the number must be odd"},
		{"empty run", "01 01 00000002 00000009 0010 01 00", "the number must be from 1"},
		{"giant run", "01 01 00000002 00000009 0010 01 c000000100000000", "the number must be from 1"},
		{"limit beyond all bytes", "01 02 00000001 d000000000000000", "limit exceeds 2^62-1 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h packetHeader
			_, err := parsePacketHeader(unhex(t, c.bytes), &h)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestBunches(t *testing.T) {
	const whole = flagBegin | flagEnd
	for _, c := range []struct {
		name, bytes string
		want        header
	}{
		{"reliable", "30 01 0005 0003 020102", header{flags: whole, channel: 1, sequence: 5}},
		{"that opens and closes", "3c 01 0000 0003 020102", header{flags: whole | flagOpen | flagClose, channel: 1}},
		{"unordered", "31 4046 0005 0003 020102", header{flags: whole | 1, channel: 70, sequence: 5}},
		{"first of a run", "10 01 0005 0003 aabbcc", header{flags: flagBegin, channel: 1, sequence: 5}},
		{"within a run", "00 01 0006 0003 aabbcc", header{channel: 1, sequence: 6}},
		{"first piece", "70 01 0005 0000 0009 0003 aabbcc", header{flags: whole | flagPiece, channel: 1, sequence: 5, total: 9}},
		{"last piece", "70 01 0005 0449 044c 0003 aabbcc", header{flags: whole | flagPiece, channel: 1, sequence: 5, offset: 1097, total: 1100}},
		{"unreliable", "32 01 0003 aabbcc", header{flags: whole | 2, channel: 1}},
		{"sequenced", "33 01 0003 aabbcc", header{flags: whole | 3, channel: 1}},
		{"first part", "12 01 0009 00 0003 aabbcc", header{flags: flagBegin | 2, channel: 1, sequence: 9}},
		{"last part", "23 01 0009 02 0003 aabbcc", header{flags: flagEnd | 3, channel: 1, sequence: 9, part: 2}},
		{"largest channel", "32 bfffffff 0003 aabbcc", header{flags: whole | 2, channel: maxChannelNumber}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.bytes)
			h, payload, rest, err := parseBunch(append(b, 1))
			require.NoError(t, err)
			require.Equal(t, c.want, h)
			require.Equal(t, b[len(b)-3:], payload)
			require.Equal(t, []byte{1}, rest)
			require.Equal(t, b, appendBunch(nil, h, payload))
			require.Equal(t, len(b)-3, h.size())
			require.LessOrEqual(t, h.size()+len(payload), maxBunchHeader+EntryBytes)
			for i := range b {
				_, _, _, err := parseBunch(b[:i])
				require.Error(t, err, "%d of %d bytes", i, len(b))
			}
		})
	}
}

func TestTrackedBunches(t *testing.T) {
	for _, c := range []struct {
		bytes   string // of the header
		channel uint64
		length  int
	}{
		{"82 01 00", 1, 0}, {"82 3f 3f", 63, 63}, {"82 4040 4040", 64, 64}, {"82 7fff 3f", 1<<14 - 1, 63},
		{"82 80004000 444c", 1 << 14, EntryBytes}, {"82 bfffffff 01", maxChannelNumber, 1},
	} {
		b := append(unhex(t, c.bytes), pattern(c.length, 7)...)
		h, payload, rest, err := parseBunch(append(b, 1))
		require.NoError(t, err)
		require.Equal(t, header{flags: trackedFlags, channel: c.channel}, h)
		require.Equal(t, pattern(c.length, 7), payload)
		require.Equal(t, []byte{1}, rest)
		require.Equal(t, b, appendBunch(nil, h, payload))
		require.Equal(t, len(b), trackedHeader(c.channel, c.length)+c.length)
		require.LessOrEqual(t, len(b), maxBunchHeader+EntryBytes)
		for i := range b {
			_, _, _, err := parseBunch(b[:i])
			require.ErrorIs(t, err, errTruncated, "%d of %d bytes", i, len(b))
		}
	}
}

func TestBunchesRefused(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"tracked and reliable", "80 01 01 00", "has flags"},
		{"tracked and sequenced", "83 01 01 00", "has flags"},
		{"tracked that begins", "92 01 01 00", "has flags"},
		{"tracked that is whole", "b2 01 01 00", "has flags"},
		{"tracked that opens", "86 01 01 00", "has flags"},
		{"tracked that closes", "8a 01 01 00", "has flags"},
		{"tracked piece", "c2 01 01 00", "has flags"},
		{"tracked on channel 2^30", "82 c000000040000000 01 00", "channel number"},
		{"tracked and too long", "82 01 444d" + strings.Repeat("00", 1101), "exceeds 1100 bytes"},
		{"tracked and longer than any packet", "82 01 ffffffffffffffff 00", "truncated"},
		{"channel 2^30", "32 c000000040000000 0001 00", "channel number"},
		{"unreliable open", "36 01 0001 00", "opens or closes its channel, or is a piece"},
		{"unreliable close", "3a 01 0001 00", "opens or closes its channel, or is a piece"},
		{"unreliable piece", "72 01 0000 0001 0001 00", "opens or closes its channel, or is a piece"},
		{"close in a run", "18 01 0005 0001 00", "before the end of a message"},
		{"part 1 that begins", "12 01 0009 01 0001 00", "only part 0 has it"},
		{"part 0 that ends", "22 01 0009 00 0001 00", "only part 0 has it"},
		{"piece beyond its entry", "70 01 0005 0009 0009 0001 00", "empty or extends beyond"},
		{"empty piece", "70 01 0005 0001 0009 0000", "empty or extends beyond"},
		{"piece of a long entry", "70 01 0005 0000 044d 0001 00", "exceeds 1100 bytes"},
		{"too long", "32 01 044d" + strings.Repeat("00", 1101), "exceeds 1100 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := parseBunch(unhex(t, c.bytes))
			require.ErrorContains(t, err, c.want)
		})
	}
}
