package bunch

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/parity"
)

// repairOf returns the payload of a repair bunch.
func repairOf(first, count, total, index, last int) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(first))
	b = append(b, byte(count-1), byte((total-1)<<4|index))
	b = binary.BigEndian.AppendUint16(b, uint16(last))
	return append(b, make([]byte, EntryBytes)...)
}

// TestRepairsRefused: repair bunches that no correct sender would send end the connection.
func TestRepairsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		flags   byte
		payload []byte
		code    Code
	}{
		"index":                {flagEnd, repairOf(1, 3, 4, 4, 5), BunchDataOverflow},
		"too many entries":     {flagEnd, repairOf(1, maxGroupEntries+1, 4, 0, 5), BunchDataOverflow},
		"last entry too large": {flagEnd, repairOf(1, 3, 4, 0, EntryBytes+1), BunchDataOverflow},
		"last entry too small": {0, repairOf(1, 3, 4, 0, 5), BunchDataOverflow},
		"too far ahead":        {flagEnd, repairOf(300, 3, 4, 0, 5), MaxReliableExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			p, number := newFatedPair(t, 0.02)
			err := p.ends[1].receiveRepair(p.ends[1].channels.find(number), header{channel: number, flags: flagRepair | row.flags}, row.payload)
			var v *Error
			require.ErrorAs(t, err, &v)
			require.Equal(t, row.code, v.Code)
		})
	}
}

// TestRepairsOfNothing: repair bunches for delivered entries, or that contradict entries that
// have arrived, are counted. At most maxHeldRepairs are kept, and none after trimming.
func TestRepairsOfNothing(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	give := func(payload []byte) {
		require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, payload))
	}

	give(repairOf(0, 1, 2, 0, 5))
	require.EqualValues(t, 1, c.Stats().DroppedRepairs, "handed out")
	for first := range 40 {
		for index := range 15 {
			give(repairOf(1+first, 16, 16, index, 5))
			give(repairOf(1+first, 16, 16, index, 5)) // twice
		}
		require.LessOrEqual(t, c.restorer.held, maxHeldRepairs)
	}
	require.Zero(t, c.Stats().EntriesRestored)
	held := uint64(c.restorer.held)
	require.EqualValues(t, 40*30+1, c.Stats().DroppedRepairs+held)
	_, due := c.NextTimeout()
	require.True(t, due)
	p.run(2 * trimAfter)
	require.Zero(t, c.restorer.held)
	require.EqualValues(t, 40*30+1, c.Stats().DroppedRepairs)

	// An entry that has arrived is shorter than the group says.
	h := header{flags: flagBegin, channel: number, sequence: 1}
	require.NoError(t, c.receiveBunch(5, h, make([]byte, 1000), 1000))
	give(repairOf(1, 3, 16, 0, 5))
	require.EqualValues(t, 40*30+2, c.Stats().DroppedRepairs)
}

// TestRestoredLies: whatever a peer makes us restore is handled as if it had arrived, in this
// case a run within a run.
func TestRestoredLies(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	require.NoError(t, c.receiveBunch(5, header{flags: flagBegin, channel: number, sequence: 1}, make([]byte, EntryBytes), EntryBytes))
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(2, 2, 2, 0, 5)))
	var v *Error
	require.ErrorAs(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(2, 2, 2, 1, 5)), &v)
	require.Equal(t, PartialInitialReliableDestroy, v.Code)
}

// TestRepairsBeginNoChannel: only entries open channels.
func TestRepairsBeginNoChannel(t *testing.T) {
	p, _ := newFatedPair(t, 0.02)
	c := p.ends[1]
	b := append(appendVarint([]byte{flagRepair}, 7), repairOf(0, 2, 2, 0, 5)...)
	h, payload, rest, err := parseBunch(b)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, c.receiveBunch(5, h, payload, len(b)))
	require.Nil(t, c.channels.find(7))
	require.EqualValues(t, 1, c.Stats().DroppedBeforeOpen)
}

// TestRepairsInPieces: an entry of which a piece is missing is restored from the pieces that
// have arrived. If there are more cuts than an honest sender makes, the repair bunch is
// dropped.
func TestRepairsInPieces(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	message := pattern(3*EntryBytes, 3)
	shards := [][]byte{message[:EntryBytes], message[EntryBytes : 2*EntryBytes], message[2*EntryBytes:], make([]byte, EntryBytes)}
	parity.Make(shards, 3)

	// Since each range is missing from one entry only, one repair bunch restores all three.
	cuts := []int{0, 400, 800, EntryBytes}
	for i, flags := range []byte{flagBegin, 0, flagEnd} {
		for k := range 3 {
			if k != i {
				h := header{flags: flags | flagPiece, channel: number, sequence: uint16(1 + i), offset: uint16(cuts[k]), total: EntryBytes}
				require.NoError(t, c.receiveBunch(5, h, shards[i][cuts[k]:cuts[k+1]], 1400))
			}
		}
	}
	payload := append(repairOf(1, 3, 1, 0, EntryBytes)[:repairFieldBytes], shards[3]...)
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, payload))
	require.EqualValues(t, 3, c.Stats().EntriesRestored)
	got := p.take(1)
	require.Len(t, got, 1)
	require.Equal(t, message, got[0].Payload)

	for i := range 10 { // of the next message, two ends in each entry
		h := header{flags: flagPiece, channel: number, sequence: uint16(5 + i), offset: uint16(100 * i), total: EntryBytes}
		require.NoError(t, c.receiveBunch(5, h, make([]byte, 37), 1400))
	}
	dropped := c.Stats().DroppedRepairs
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(4, 11, 16, 0, EntryBytes)))
	require.Equal(t, dropped+1, c.Stats().DroppedRepairs)
}

// BenchmarkRestoreWorst measures the most work that a peer can make us do to restore a message:
// half of every entry has arrived, in as many ranges as possible.
func BenchmarkRestoreWorst(b *testing.B) {
	for b.Loop() {
		set := &repairSet{group: group{flags: flagRepair | flagBegin, count: maxGroupEntries, total: parity.Most, lastBytes: EntryBytes}}
		for i := range parity.Most {
			set.Add(i, make([]byte, EntryBytes))
		}
		e := groupEntries{all: make([]slot, maxGroupEntries)}
		for i := range maxCuts + 2 {
			e.cuts = append(e.cuts, uint16(i*EntryBytes/(maxCuts+1)))
		}
		for i := range e.all[parity.Most:] {
			e.all[i] = slot{payload: make([]byte, EntryBytes), state: full}
		}
		if len(e.restore(set)) != parity.Most {
			b.Fatal("not restored")
		}
	}
}

// TestLastEntryIsNotRestored: an entry that has arrived counts neither as restored nor as a
// duplicate.
func TestLastEntryIsNotRestored(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	require.NoError(t, c.receiveBunch(5, header{flags: flagEnd, channel: number, sequence: 2}, make([]byte, 5), EntryBytes))
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 2, 1, 0, 5)))
	require.EqualValues(t, 1, c.Stats().EntriesRestored)
	require.Zero(t, c.Stats().DroppedDuplicate)
	require.Len(t, p.take(1), 1)
}

// TestLateEntryStartsRestoring: if an entry, or a piece of one, arrives after the repair
// bunches, the missing ones are restored then.
func TestLateEntryStartsRestoring(t *testing.T) {
	message := pattern(4*EntryBytes, 3)
	shards := make([][]byte, 0, 6)
	for i := range 4 {
		shards = append(shards, message[i*EntryBytes:][:EntryBytes])
	}
	shards = append(shards, make([]byte, EntryBytes), make([]byte, EntryBytes))
	parity.Make(shards, 4)
	for _, d := range []Delivery{Reliable, ReliableUnordered} {
		for late := range 4 {
			for _, pieces := range []int{1, 2} {
				t.Run(fmt.Sprint(d, late, pieces), func(t *testing.T) {
					p, number := newFatedPair(t, 0.02)
					c := p.ends[1]
					ch := c.channels.find(number)
					give := func(i int) {
						h := header{flags: byte(d), channel: number, sequence: uint16(1 + i)}
						switch i {
						case 0:
							h.flags |= flagBegin
						case 3:
							h.flags |= flagEnd
						}
						for k := range pieces {
							h, payload := h, shards[i]
							if pieces > 1 {
								h.flags |= flagPiece
								h.offset, h.total = uint16(k*EntryBytes/2), EntryBytes
								payload = payload[h.offset:][:EntryBytes/2]
							}
							require.NoError(t, c.receiveBunch(5, h, payload, EntryBytes))
						}
					}
					give((late + 2) % 4)
					for i := range 2 {
						payload := append(repairOf(1, 4, 2, i, EntryBytes)[:repairFieldBytes], shards[4+i]...)
						require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole | byte(d)}, payload))
					}
					require.Empty(t, p.take(1))
					give(late)
					got := p.take(1)
					require.Len(t, got, 1)
					require.Equal(t, message, got[0].Payload)
					require.EqualValues(t, 2, c.Stats().EntriesRestored)
					require.Zero(t, c.restorer.held)
				})
			}
		}
	}
}

// TestContradictedRepairsGo: repair bunches are dropped as soon as something arrives that
// contradicts their group.
func TestContradictedRepairsGo(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	require.NoError(t, c.receiveRepair(c.channels.find(number), header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 3, 2, 0, 5)))
	require.Equal(t, 1, c.restorer.held)
	require.NoError(t, c.receiveBunch(5, header{flags: flagWhole, channel: number, sequence: 1}, []byte{1, 1}, 10))
	require.Zero(t, c.restorer.held)
	require.EqualValues(t, 1, c.Stats().DroppedRepairs)
}

// TestRestoredBehindAClose: entries after a close end the connection, whether or not they were
// restored.
func TestRestoredBehindAClose(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	whole := append(appendVarint(nil, maxWhole), make([]byte, maxWhole)...)
	require.Len(t, whole, EntryBytes)
	require.NoError(t, c.receiveBunch(5, header{flags: flagEnd, channel: number, sequence: 2}, make([]byte, EntryBytes), 1400))
	require.NoError(t, c.receiveBunch(5, header{flags: flagWhole | flagClose, channel: number, sequence: 3}, whole, 1400))
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 4, 2, 0, 5)))
	var v *Error
	require.ErrorAs(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 4, 2, 1, 5)), &v)
	require.Equal(t, BunchDataOverflow, v.Code)
	require.Contains(t, v.Error(), "after its close")
}

// FuzzRepairs gives a receiver entries, pieces and repair bunches of three messages in any
// order, some of them more than once, and false repair bunches. Without the latter, all
// messages arrive as they were sent.
func FuzzRepairs(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 0, 0, 2, 1, 0, 0, 3, 0, 1, 2, 100})
	f.Add([]byte{2, 5, 0, 0, 5, 0, 1, 6, 1, 1, 6, 140, 2, 6, 0})
	f.Add([]byte{3, 1, 2, 3, 33, 2, 0, 1, 0, 0, 2, 0, 3, 97, 31})
	f.Fuzz(func(t *testing.T, script []byte) {
		p, number := newFatedPair(t, 0.02)
		c := p.ends[1]
		sizes := []int{4 * EntryBytes, 5000, MaxBunchBytes}
		entries, repairs := repairedMessages(number, sizes)
		lied := false
		give := func(b []byte) bool {
			h, payload, _, err := parseBunch(b)
			require.NoError(t, err)
			err = c.receiveBunch(9, h, payload, len(b))
			require.True(t, lied || err == nil, err)
			checkRestorer(t, &c.restorer)
			return err == nil
		}
		for ; len(script) >= 3; script = script[3:] {
			a, b := int(script[1]), int(script[2])
			h := header{channel: number, flags: entries[a%len(entries)].flags, sequence: uint16(1 + a%len(entries))}
			payload := entries[a%len(entries)].payload
			bunch := repairs[a%len(repairs)]
			switch size := len(payload); script[0] % 4 {
			case 0:
				bunch = appendBunch(nil, h, payload)
			case 1: // one of three pieces, whose ends differ
				cuts := []int{0, size / 3, size - size/(3+a%3), size}
				h.flags |= flagPiece
				h.offset, h.total = uint16(cuts[b%3]), uint16(size)
				bunch = appendBunch(nil, h, payload[cuts[b%3]:cuts[b%3+1]])
			case 3:
				lied = true
				bunch = append([]byte(nil), bunch...)
				bunch[2+a%9] ^= byte(b)
			}
			if !give(bunch) {
				return
			}
		}
		for i, e := range entries {
			if !give(appendBunch(nil, header{channel: number, flags: e.flags, sequence: uint16(1 + i)}, e.payload)) {
				return
			}
		}
		if got := p.take(1); !lied {
			requireMessages(t, got, sizes)
			require.Zero(t, c.restorer.held)
			checkConn(t, c)
		}
	})
}

// repairedMessages returns the entries of messages of the given sizes, beginning with sequence
// 1, and the repair bunches of all of their groups.
func repairedMessages(channel uint64, sizes []int) (all []slot, repairs [][]byte) {
	for i, size := range sizes {
		message := pattern(size, i)
		begin := len(all)
		for part := range slices.Chunk(message, EntryBytes) {
			all = append(all, slot{payload: part, flags: byte(i) & deliveryMask & 1})
		}
		all[begin].flags |= flagBegin
		all[len(all)-1].flags |= flagEnd
		for run := range slices.Chunk(all[begin:], maxGroupEntries) {
			g := group{channel: channel, first: uint64(1 + begin), count: len(run), total: 5, lastBytes: len(run[len(run)-1].payload)}
			g.flags = flagRepair | run[0].flags | run[len(run)-1].flags
			begin += len(run)
			shards := make([][]byte, 0, maxGroupEntries+g.total)
			for _, e := range run {
				shards = append(shards, e.payload)
			}
			shards = slices.AppendSeq(shards, slices.Chunk(make([]byte, g.total*EntryBytes), EntryBytes))
			parity.Make(shards, g.count)
			for i := range g.total {
				repairs = append(repairs, appendRepair(nil, repair{g, i, shards[g.count+i]}))
			}
		}
	}
	return all, repairs
}

// checkRestorer asserts that the repair bunches are counted correctly and within the limit, and
// that no two sets are for the same group.
func checkRestorer(t testing.TB, m *restorer) {
	held, groups := 0, map[group]bool{}
	for _, set := range m.sets {
		have := 0
		for i := range parity.Most {
			if set.Has(i) {
				have++
			}
		}
		same(t, int64(have), int64(set.Have), "repair bunches of a group")
		held += have
		groups[set.group] = true
	}
	same(t, int64(held), int64(m.held), "repair bunches that wait")
	same(t, int64(len(groups)), int64(len(m.sets)), "groups that differ")
	atMost(t, int64(held), maxHeldRepairs, "repair bunches that wait")
}

// TestRepairsOfAnotherChannel: an entry of another channel with the same sequence doesn't
// affect the repair bunches.
func TestRepairsOfAnotherChannel(t *testing.T) {
	var r restorer
	g := group{channel: 1, flags: flagRepair | flagWhole, first: 1, count: 4, total: 2, lastBytes: EntryBytes}
	require.Empty(t, r.receive(&channel{number: 1}, repair{group: g, shard: make([]byte, EntryBytes)}))
	require.Empty(t, r.entryReceived(&channel{number: 3, expected: 10}, 2))
	require.Equal(t, 1, r.held)
	require.Empty(t, r.entryReceived(&channel{number: 1, expected: 10}, 2))
	require.Zero(t, r.held, "of its own channel all had come")
}
