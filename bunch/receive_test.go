package bunch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// partOf returns a bunch with an entry of a run.
func partOf(flags byte, sequence uint16, size int) []byte {
	return appendBunch(nil, header{flags: flags, channel: 1, sequence: sequence}, pattern(size, int(sequence)))
}

// pieceOf returns a bunch with a piece of an entry.
func pieceOf(flags byte, sequence, offset, total uint16, payload string) []byte {
	return appendBunch(nil, header{flags: flags | flagPiece, channel: 1, sequence: sequence, offset: offset, total: total}, []byte(payload))
}

// TestViolations checks the code of everything that no correct sender does within a channel.
func TestViolations(t *testing.T) {
	open := wholeOf(flagOpen, 1, 0, "a")
	const begin, end, whole = flagBegin, flagEnd, flagWhole
	tooLarge := [][]byte{partOf(begin, 1, EntryBytes)}
	for n := uint16(2); n < 60; n++ {
		tooLarge = append(tooLarge, partOf(0, n, EntryBytes))
	}
	manyParts := [][]byte{partOf(begin, 1, 1)}
	for n := uint16(2); n < 61; n++ {
		manyParts = append(manyParts, partOf(0, n, 1))
	}
	for _, c := range []struct {
		name    string
		code    Code
		bunches [][]byte // each in a packet of its own, the last one is refused
	}{
		{"run within a run", PartialInitialReliableDestroy, [][]byte{partOf(begin, 1, 9), partOf(begin, 2, 9)}},
		{"whole within a run", PartialInitialReliableDestroy, [][]byte{partOf(begin, 1, 9), wholeOf(0, 1, 2, "x")}},
		{"part without a run", PartialMergeReliableDestroy, [][]byte{partOf(0, 1, 9)}},
		{"end without a run", PartialMergeReliableDestroy, [][]byte{partOf(end, 1, 9)}},
		{"another delivery", PartialMergeReliableDestroy, [][]byte{partOf(begin, 1, 9), partOf(end|byte(ReliableUnordered), 2, 9)}},
		{"65,537 bytes", PartialTooLarge, append(tooLarge[:59:59], partOf(end, 60, 637))},
		{"61 parts", PartialTooLarge, append(manyParts[:60:60], partOf(end, 61, 1))},
		{"sequence R ahead", MaxReliableExceeded, [][]byte{wholeOf(0, 1, 257, "x")}},
		{"whole without a message", BunchDataOverflow, [][]byte{appendBunch(nil, header{flags: whole, channel: 1, sequence: 1}, nil)}},
		{"message longer than its bunch", BunchDataOverflow, [][]byte{appendBunch(nil, header{flags: whole, channel: 1, sequence: 1}, []byte{2, 1})}},
		{"half a length", BunchDataOverflow, [][]byte{appendBunch(nil, header{flags: whole, channel: 1, sequence: 1}, []byte{0x40})}},
		{"33 messages", BunchDataOverflow, [][]byte{appendBunch(nil, header{flags: whole, channel: 1, sequence: 1}, make([]byte, 33))}},
		{"pieces with other flags", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 0, 6, "\x05ab"), pieceOf(begin, 1, 3, 6, "cde")}},
		{"two ends", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 3, 6, "cde"), pieceOf(whole, 1, 1, 5, "cd")}},
		{"a whole one of another length", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 3, 6, "cde"), wholeOf(0, 1, 1, "x")}},
		{"beyond the end", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 4, 6, "def")}},
		{"empty piece", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 3, 6, "")}},
		{"entries behind a close", BunchDataOverflow, [][]byte{wholeOf(0, 1, 2, "b"), wholeOf(flagClose, 1, 1, "a")}},
		{"seven pieces", BunchDataOverflow, [][]byte{pieceOf(whole, 1, 0, 20, "x"), pieceOf(whole, 1, 2, 20, "x"), pieceOf(whole, 1, 4, 20, "x"),
			pieceOf(whole, 1, 6, 20, "x"), pieceOf(whole, 1, 8, 20, "x"), pieceOf(whole, 1, 10, 20, "x"), pieceOf(whole, 1, 12, 20, "x")}},
		{"truncated", BunchDataOverflow, [][]byte{{0x30}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver(t, Config{})
			r.must(open)
			for _, b := range c.bunches[:len(c.bunches)-1] {
				r.must(b)
			}
			requireCode(t, c.code, r.receive(c.bunches[len(c.bunches)-1]))
			require.ErrorIs(t, r.receive(open), r.Err(), "all that follows is refused")
			require.Equal(t, []string{"1 open a"}, r.got()[:1], "what came before is handed out")
		})
	}
}

func TestBadPackets(t *testing.T) {
	r := newReceiver(t, Config{})
	requireCode(t, ReadHeaderFail, r.Conn.Receive(r.now, []byte{Protocol}))
	r = newReceiver(t, Config{})
	var many [][]byte
	for n := range uint16(256) {
		many = append(many, wholeOf(0, 0, n, ""))
	}
	requireCode(t, BunchDataOverflow, r.receive(many...))
	r = newReceiver(t, Config{ReliableBuffer: 512})
	r.must(many[:255]...)
}

func TestMessagesUpToTheLimit(t *testing.T) {
	r := newReceiver(t, Config{})
	bunches := [][]byte{wholeOf(flagOpen, 1, 0, "a"), partOf(flagBegin, 1, EntryBytes)}
	for n := uint16(2); n < 60; n++ {
		bunches = append(bunches, partOf(0, n, EntryBytes))
	}
	r.must(append(bunches, partOf(flagEnd, 60, 636))...)
	require.Equal(t, "1 "+string(pattern(10, 1))+"… 65536 bytes", r.got()[1])

	t.Log("# 32 empty messages in a bunch")
	r.must(appendBunch(nil, header{flags: flagWhole, channel: 1, sequence: 61}, make([]byte, 32)))
	require.Len(t, r.got(), 32)

	t.Log("# a smaller agreed maximum holds for both forms")
	require.NoError(t, r.Agree(Params{ReliableBuffer: 256, MaxBunch: 100, History: 4096, MaxChannels: 100, AckDelay: 40 * ms}))
	r.must(wholeOf(0, 1, 62, string(make([]byte, 100))))
	requireCode(t, PartialTooLarge, r.receive(wholeOf(0, 1, 63, string(make([]byte, 101)))))
}

func TestLateEntriesWaitAndDuplicatesGo(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(0, 1, 2, "c"))
	r.must(wholeOf(0, 1, 1, "b"))
	require.Empty(t, r.got())
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	require.Equal(t, []string{"1 open a", "1 b", "1 c"}, r.got())
	for n := range uint16(3) {
		r.must(wholeOf(0, 1, n, "again"))
	}
	r.must(wholeOf(0, 1, 4, "e"))
	r.must(wholeOf(0, 1, 4, "again"))
	require.Empty(t, r.got())
	require.Equal(t, uint64(4), r.Stats().DroppedDuplicate)
	require.NoError(t, r.Conn.Receive(r.now, packetOf(0, wholeOf(0, 1, 5, "f"))))
	require.Empty(t, r.got(), "the whole packet came before")
	require.Equal(t, uint64(5), r.Stats().DroppedDuplicate)
	require.Equal(t, r.flow.received, uint64(channelCost+4*costOf(flagWhole, 2, 1)), "duplicates cost nothing")
}

func TestPiecesInAnyOrderAndTwice(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	r.must(pieceOf(flagWhole, 1, 4, 6, "de"))
	r.must(pieceOf(flagWhole, 1, 2, 6, "bc"))
	r.must(pieceOf(flagWhole, 1, 2, 6, "bc"))
	r.must(pieceOf(flagWhole, 1, 1, 6, "abcd"))
	r.got()
	r.must(pieceOf(flagWhole, 1, 0, 6, "\x05a"))
	require.Equal(t, []string{"1 abcde"}, r.got())
	require.Equal(t, r.flow.received, uint64(channelCost+costOf(flagWhole, 2, 1)+costOf(flagWhole, 6, 1)))
	require.Equal(t, r.flow.received, r.flow.consumed)

	t.Log("# a whole copy beside its pieces")
	r.must(pieceOf(flagWhole, 2, 2, 4, "y"))
	r.must(wholeOf(0, 1, 2, "xyz"))
	require.Equal(t, []string{"1 xyz"}, r.got())
}

func TestSequencesWrap(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, []byte("open"))
	p.run(100 * ms)
	p.take(1)
	t.Log("# both ends stand shortly before 65,536")
	const near = 65536 - 40
	a, b := p.ends[0].channels.open[ch], p.ends[1].channels.open[ch]
	a.first, a.next, a.firstUnsent, b.expected = near, near, near, near
	a.out = ring{}
	p.drop = func(int, []byte) bool { return p.rand.IntN(3) == 0 }
	for i := range 100 {
		p.send(0, ch, Reliable, pattern(1500, i))
	}
	var got []Message
	for len(got) < 100 {
		require.True(t, p.step(p.now.Add(time10)))
		got = append(got, p.take(1)...)
	}
	for i, m := range got {
		require.Equal(t, pattern(1500, i), m.Payload)
	}
	p.drop = nil
	p.run(time10)
	p.settled()
	require.Equal(t, uint64(near+200), b.expected)
}

func TestUnorderedOvertakes(t *testing.T) {
	r := newReceiver(t, Config{})
	loose := byte(ReliableUnordered)
	r.must(wholeOf(loose, 1, 1, "early"))
	require.Empty(t, r.got(), "the open travels first")
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	require.Equal(t, []string{"1 open a", "1 early"}, r.got())

	t.Log("# entry 2 is missing")
	r.must(wholeOf(loose, 1, 3, "three"))
	r.must(wholeOf(0, 1, 4, "four"))
	r.must(partOf(loose|flagEnd, 7, 10), partOf(loose|flagBegin, 5, EntryBytes))
	require.Equal(t, []string{"1 three"}, r.got())
	r.must(partOf(loose, 6, EntryBytes))
	require.Len(t, r.got(), 1, "a run overtakes once it is whole")
	r.must(wholeOf(loose, 1, 3, "three"), partOf(loose, 6, EntryBytes))
	require.Empty(t, r.got(), "not twice")
	r.must(wholeOf(0, 1, 2, "two"))
	require.Equal(t, []string{"1 two", "1 four"}, r.got())
	r.must(wholeOf(loose|flagClose, 1, 9, "last"))
	require.Empty(t, r.got(), "a close waits for its turn")
	r.must(wholeOf(0, 1, 8, "eight"))
	require.Equal(t, []string{"1 eight", "1 last close"}, r.got())
	require.Equal(t, r.flow.received, r.flow.consumed+channelCost, "our close is not acked yet")
}

// TestOpenIsHandedOutFirst: nothing is delivered while a long opening message is on its way.
func TestOpenIsHandedOutFirst(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(partOf(flagBegin|flagOpen, 0, EntryBytes))
	r.must(wholeOf(byte(ReliableUnordered), 1, 2, "x"))
	r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, []byte("y")))
	require.Empty(t, r.got())
	require.Equal(t, uint64(1), r.Stats().DroppedBeforeOpen)
	r.must(partOf(flagEnd, 1, 10))
	got := r.got()
	require.Len(t, got, 2)
	require.Contains(t, got[0], "open")
}

func TestKeepCopiesWhatPinsMuch(t *testing.T) {
	r := newReceiver(t, Config{})
	datagram := make([]byte, 1000)
	var small, large, late slot
	r.payloads.keep(&small, datagram[:249], 1000)
	r.payloads.keep(&large, datagram[:250], 1000)
	datagram[0] = 1
	require.Zero(t, small.payload[0])
	require.Zero(t, small.pinned)
	require.Equal(t, byte(1), large.payload[0])
	require.Equal(t, uint16(750), large.pinned)
	r.payloads.pinned = maxPinned - 749
	r.payloads.keep(&late, datagram[:250], 1000)
	datagram[0] = 2
	require.Equal(t, byte(1), late.payload[0], "much is pinned already")
}
