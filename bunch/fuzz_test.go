package bunch

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// appendPacketHeader writes what parsePacketHeader reads.
func appendPacketHeader(b []byte, h *packetHeader) []byte {
	b = append(b, Protocol, h.flags)
	b = binary.BigEndian.AppendUint32(b, h.number)
	if h.flags&flagAcks != 0 {
		b = binary.BigEndian.AppendUint32(b, h.largest)
		b = binary.BigEndian.AppendUint16(b, h.delay)
		b = append(b, byte(h.nruns))
		for _, run := range h.runs[:h.nruns] {
			b = appendVarint(b, run)
		}
	}
	if h.flags&flagLimit != 0 {
		b = appendVarint(b, h.limit)
	}
	return b
}

// FuzzParsePacket reads a packet, writes what it read, and reads the same again.
func FuzzParsePacket(f *testing.F) {
	f.Add([]byte{Protocol, 0, 0, 0, 0, 0})
	f.Add([]byte{Protocol, flagAcks | flagLimit, 0, 0, 0, 9, 0, 0, 0, 5, 0, 1, 3, 2, 1, 1, 0x41, 0})
	f.Add(appendBunch([]byte{Protocol, 0, 0, 0, 0, 1}, header{flags: flagWhole | flagPiece, channel: 70, sequence: 3, offset: 7, total: 10}, []byte("abc")))
	f.Add(appendBunch([]byte{Protocol, 0, 0, 0, 0, 1}, header{flags: flagEnd | byte(Unreliable), channel: 1, sequence: 3, part: 2}, []byte("abc")))
	f.Add(appendBunch([]byte{Protocol, 0, 0, 0, 0, 1}, header{flags: trackedFlags, channel: 70}, make([]byte, 70)))
	f.Add(appendBunch([]byte{Protocol, 0, 0, 0, 0, 1}, header{flags: trackedFlags | flagWhole, channel: 1}, nil))
	f.Add(appendRepair([]byte{Protocol, 0, 0, 0, 0, 1}, repair{group: group{channel: 70, flags: flagRepair | flagWhole, count: 3, total: 2, lastBytes: 5}, shard: make([]byte, EntryBytes)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h packetHeader
		rest, err := parsePacketHeader(data, &h)
		if err != nil {
			return
		}
		again := appendPacketHeader(nil, &h)
		for len(rest) > 0 {
			bunch, payload, more, err := parseBunch(rest)
			if err != nil {
				return
			}
			require.Less(t, len(more), len(rest))
			if bunch.isRepair() {
				again = append(appendVarint(append(again, bunch.flags), bunch.channel), payload...)
			} else {
				require.LessOrEqual(t, len(payload), EntryBytes)
				again = appendBunch(again, bunch, payload)
			}
			rest = more
		}
		requireSamePacket(t, data, again)
	})
}

// requireSamePacket compares what two packets say; varints of other lengths say the same.
func requireSamePacket(t *testing.T, a, b []byte) {
	var ha, hb packetHeader
	ra, err := parsePacketHeader(a, &ha)
	require.NoError(t, err)
	rb, err := parsePacketHeader(b, &hb)
	require.NoError(t, err)
	require.Equal(t, ha, hb)
	for len(ra) > 0 {
		var ba, bb header
		var pa, pb []byte
		ba, pa, ra, err = parseBunch(ra)
		require.NoError(t, err)
		bb, pb, rb, err = parseBunch(rb)
		require.NoError(t, err)
		require.Equal(t, ba, bb)
		require.Equal(t, pa, pb)
	}
	require.Empty(t, rb)
}

// FuzzReceive throws packets that nobody would write at a connection that is in use.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0})
	f.Add(appendBunch([]byte{0, 40, Protocol, 0, 0, 0, 0, 9}, header{flags: flagWhole | flagOpen, channel: 4}, []byte("\x03abc")))
	f.Add(appendBunch([]byte{0, 40, Protocol, 0, 0, 0, 0, 9}, header{flags: flagBegin | byte(Unreliable), channel: 2}, make([]byte, EntryBytes)))
	f.Add([]byte{0, 14, Protocol, flagAcks, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 1, 3})
	f.Add([]byte{0, 14, Protocol, flagAcks, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 1, 4}) // names a number that was left out
	f.Add(appendBunch([]byte{0, 40, Protocol, 0, 0, 0, 0, 9}, header{flags: trackedFlags, channel: 2}, []byte("abc")))
	f.Add(appendBunch([]byte{0, 40, Protocol, 0, 0, 0, 0, 9}, header{flags: trackedFlags, channel: 1}, nil))
	lone := appendRepair([]byte{Protocol, 0, 0, 0, 0, 9}, repair{group: group{channel: 2, flags: flagRepair | flagEnd, first: 2, count: 3, total: 1, lastBytes: 600}, shard: make([]byte, EntryBytes)})
	f.Add(append(binary.BigEndian.AppendUint16(nil, uint16(len(lone))), lone...))
	stale := binary.BigEndian.AppendUint16(nil, 6+10+EntryBytes)
	stale = append(stale, packetOf(10, unreliablePart(2, Unreliable, 7, 0, false, EntryBytes))...)
	stale = binary.BigEndian.AppendUint16(stale, 6+11)
	f.Add(append(stale, packetOf(10+partSpan+1, unreliablePart(2, Unreliable, 7, 1, true, 1))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPair(t, Config{MaxChannels: 100, Random: dice(1)})
		client := p.ends[0]
		client.skips.next = 5
		up, down := p.open(0, Bulk), p.open(1, High)
		p.send(0, up, Reliable, pattern(20_000, 1))
		p.send(1, down, Reliable, pattern(5000, 2))
		p.send(1, down, Unreliable, pattern(5000, 2))
		p.run(200 * time.Millisecond)
		p.send(0, up, Reliable, pattern(20_000, 1))
		p.track(0, up, 1)
		p.flush()
		for len(data) > 2 {
			n := min(int(binary.BigEndian.Uint16(data))%1500, len(data)-2)
			err := client.Receive(p.now, append([]byte(nil), data[2:2+n]...))
			data = data[2+n:]
			if client.Err() != nil {
				var own *Error
				require.ErrorAs(t, err, &own)
				return
			}
			p.now = p.now.Add(3 * time.Millisecond)
			require.NoError(t, client.Advance(p.now))
			checkConn(t, client)
			for _, _, ok := client.AppendPacket(p.now, nil, 1200); ok; _, _, ok = client.AppendPacket(p.now, nil, 1200) {
			}
			require.LessOrEqual(t, len(client.channels.open), 202)
			require.LessOrEqual(t, client.assemblies.cost, maxParked)
			require.LessOrEqual(t, client.tracked.fates.len(), 1)
		}
	})
}
