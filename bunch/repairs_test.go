package bunch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/parity"
)

// newFatedPair makes a pair whose client has an open bulk channel, and a carrier that tells fates of a path with a loss.
func newFatedPair(t testing.TB, loss float64) (p *pair, ch uint64) {
	p = newPair(t, Config{})
	ch = p.open(0, Bulk)
	p.send(0, ch, Reliable, []byte("first"))
	p.run(time.Second)
	p.take(1)
	p.fates[0] = true
	p.ends[0].SetPath(p.now, Path{Epoch: 1, Fates: true, Loss: loss, Rate: 1e6, Window: 1e6})
	return p, ch
}

// TestRepairsRestoreTheTail: on a path that loses packets, a flight of long messages is whole one way later though two packets of it were
// lost, and what was lost leaves again all the same.
func TestRepairsRestoreTheTail(t *testing.T) {
	for _, d := range []Delivery{Reliable, ReliableUnordered} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint(d, seed), func(t *testing.T) {
				p, ch := newFatedPair(t, 0.02)
				random := rand.New(rand.NewPCG(seed, 1))
				p.max = 1163 + random.IntN(400)
				lost := 0
				p.drop = func(from int, _ []byte) bool { // two packets, which the repair bunches of one message restore
					lose := from == 0 && lost < 2 && random.Float64() < 0.05
					if lose {
						lost++
					}
					return lose
				}
				sizes := []int{32768, 20000 + random.IntN(40000), 32768}
				for i, size := range sizes {
					p.send(0, ch, d, pattern(size, i))
				}
				p.run(p.delay + time.Millisecond)
				s := p.ends[0].Stats()
				require.NotZero(t, s.RepairsSent)
				require.LessOrEqual(t, s.RepairsSent, uint64(20))
				requireMessages(t, p.take(1), sizes)
				p.drop = nil
				p.run(10 * time.Second)
				require.Empty(t, p.take(1), "nothing comes twice")
				p.settled()
			})
		}
	}
}

// requireMessages asserts that all messages of these sizes came, in any order.
func requireMessages(t *testing.T, got []Message, sizes []int) {
	t.Helper()
	require.Len(t, got, len(sizes))
	for i, size := range sizes {
		want := pattern(size, i)
		found := false
		for _, m := range got {
			found = found || bytes.Equal(want, m.Payload)
		}
		require.True(t, found, "message %d of %d bytes", i, size)
	}
}

// TestRepairsWaitForTheEnd: no repair bunch leaves while the owner has more to give, something waits, the path loses nothing, or QUIC carries; nor
// for play.
func TestRepairsWaitForTheEnd(t *testing.T) {
	lossy := Path{Epoch: 1, Fates: true, Loss: 0.02, Rate: 1e6, Window: 1e6}
	for name, row := range map[string]struct {
		path     func(*Path)
		priority Priority
		told     int // fates before
		want     bool
	}{
		"the end":       {func(*Path) {}, Bulk, 0, true},
		"more to come":  {func(p *Path) { p.More = true }, Bulk, 0, false},
		"nothing known": {func(p *Path) { p.Loss = 0 }, Bulk, 0, true},
		"nothing lost":  {func(p *Path) { p.Loss = 0 }, Bulk, 300, false},
		"no fates":      {func(p *Path) { p.Fates = false }, Bulk, 0, false},
		"play":          {func(*Path) {}, Normal, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, Config{})
			ch := p.open(0, row.priority)
			p.send(0, ch, Reliable, []byte("first"))
			p.run(time.Second)
			for range row.told {
				p.ends[0].repairs.loss.Note()
			}
			path := lossy
			row.path(&path)
			p.ends[0].SetPath(p.now, path)
			p.send(0, ch, Reliable, pattern(20000, 1))
			p.flush()
			require.Equal(t, row.want, p.ends[0].Stats().RepairsSent > 0)
			if path.More {
				path.More = false
				p.ends[0].SetPath(p.now, path)
				require.True(t, p.ends[0].Changed())
				p.flush()
				require.NotZero(t, p.ends[0].Stats().RepairsSent)
			}
			p.run(time.Second)
			require.Len(t, p.take(1), 2)
		})
	}
}

// TestGroups: a group is 32 entries of a run at most, those that are still in the reliable buffer, and none holds the one that opens the channel.
func TestGroups(t *testing.T) {
	p := newPair(t, Config{})
	number := p.open(0, Bulk)
	c := p.ends[0]
	ch := c.channels.find(number)
	p.send(0, number, Reliable, pattern(5000, 0))
	_, _, ok := groupOf(ch, ch.next-1)
	require.False(t, ok, "it opens the channel")
	p.send(0, number, ReliableUnordered, pattern(MaxBunchBytes, 0))
	g, flying, ok := groupOf(ch, ch.next-1)
	require.True(t, ok)
	require.Equal(t, group{channel: number, flags: flagRepair | flagEnd | byte(ReliableUnordered), first: ch.next - maxRepaired, count: maxRepaired, last: MaxBunchBytes % EntryBytes}, g)
	require.Equal(t, maxRepaired, flying)
	before, flying, ok := groupOf(ch, g.first-1)
	require.True(t, ok)
	count := maxParts - maxRepaired
	require.Equal(t, group{channel: number, flags: flagRepair | flagBegin | byte(ReliableUnordered), first: g.first - uint64(count), count: count, last: EntryBytes}, before)
	require.Equal(t, count, flying)
	p.send(0, number, Reliable, pattern(3500, 0))
	g, flying, ok = groupOf(ch, ch.next-1)
	require.True(t, ok)
	require.Equal(t, group{channel: number, flags: flagRepair | flagWhole, first: ch.next - 4, count: 4, last: 200}, g)
	require.Equal(t, 4, flying)
	p.send(0, number, Reliable, pattern(2500, 0))
	_, _, ok = groupOf(ch, ch.next-1)
	require.False(t, ok, "short")
}

// repairOf returns the payload of a repair bunch.
func repairOf(first, count, total, index, last int) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(first))
	b = append(b, byte(count-1), byte((total-1)<<4|index))
	b = binary.BigEndian.AppendUint16(b, uint16(last))
	return append(b, make([]byte, EntryBytes)...)
}

// TestRepairsRefused: repair bunches that no correct sender makes end the connection.
func TestRepairsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		flags   byte
		payload []byte
		code    Code
	}{
		"index":                {flagEnd, repairOf(1, 3, 4, 4, 5), BunchDataOverflow},
		"too many entries":     {flagEnd, repairOf(1, maxRepaired+1, 4, 0, 5), BunchDataOverflow},
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

// TestRepairsOfNothing: repair bunches of what was handed out, or of what contradicts what came are counted, hold no more memory than
// maxHeldRepairs, and nothing after trimming.
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

	// An entry that came is shorter than the group says.
	h := header{flags: flagBegin, channel: number, sequence: 1}
	require.NoError(t, c.receiveReliable(ch, h, make([]byte, 1000), 1000))
	give(repairOf(1, 3, 16, 0, 5))
	require.EqualValues(t, 40*30+2, c.Stats().DroppedRepairs)
}

// TestRestoredLies: what a peer makes this side restore is taken as if it came: here a run within a run.
func TestRestoredLies(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	require.NoError(t, c.receiveReliable(ch, header{flags: flagBegin, channel: number, sequence: 1}, make([]byte, EntryBytes), EntryBytes))
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(2, 2, 2, 0, 5)))
	var v *Error
	require.ErrorAs(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(2, 2, 2, 1, 5)), &v)
	require.Equal(t, PartialInitialReliableDestroy, v.Code)
}

// TestRepairsBeginNoChannel: only entries do.
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

// TestRepairsInPieces: an entry of which a part is missing is restored from the parts that came; with more ends than an honest sender makes the
// repair bunch is dropped.
func TestRepairsInPieces(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	message := pattern(3*EntryBytes, 3)
	shards := [][]byte{message[:EntryBytes], message[EntryBytes : 2*EntryBytes], message[2*EntryBytes:], make([]byte, EntryBytes)}
	parity.Make(shards, 3)

	// Each range is missing of one entry only: one repair bunch restores all three.
	cuts := []int{0, 400, 800, EntryBytes}
	for i, flags := range []byte{flagBegin, 0, flagEnd} {
		for k := range 3 {
			if k != i {
				h := header{flags: flags | flagPiece, channel: number, sequence: uint16(1 + i), offset: uint16(cuts[k]), total: EntryBytes}
				require.NoError(t, c.receiveReliable(ch, h, shards[i][cuts[k]:cuts[k+1]], 1400))
			}
		}
	}
	payload := append(repairOf(1, 3, 1, 0, EntryBytes)[:repairFields], shards[3]...)
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, payload))
	require.EqualValues(t, 3, c.Stats().EntriesRestored)
	got := p.take(1)
	require.Len(t, got, 1)
	require.Equal(t, message, got[0].Payload)

	for i := range 10 { // of the next message, two ends in each entry
		h := header{flags: flagPiece, channel: number, sequence: uint16(5 + i), offset: uint16(100 * i), total: EntryBytes}
		require.NoError(t, c.receiveReliable(ch, h, make([]byte, 37), 1400))
	}
	dropped := c.Stats().DroppedRepairs
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(4, 11, 16, 0, EntryBytes)))
	require.Equal(t, dropped+1, c.Stats().DroppedRepairs)
}

// BenchmarkRestoreWorst is the most work that a message can make a receiver do to restore it: every entry but half in as many ranges as it takes.
func BenchmarkRestoreWorst(b *testing.B) {
	for b.Loop() {
		set := &repairSet{group: group{flags: flagRepair | flagBegin, count: maxRepaired, total: parity.Most, last: EntryBytes}, have: parity.Most}
		for i := range set.shards {
			set.shards[i] = make([]byte, EntryBytes)
		}
		e := entries{all: make([]slot, maxRepaired)}
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

// TestLastEntryIsNotRestored: an entry that came counts neither as restored nor as a duplicate.
func TestLastEntryIsNotRestored(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	ch := c.channels.find(number)
	require.NoError(t, c.receiveReliable(ch, header{flags: flagEnd, channel: number, sequence: 2}, make([]byte, 5), EntryBytes))
	require.NoError(t, c.receiveRepair(ch, header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 2, 1, 0, 5)))
	require.EqualValues(t, 1, c.Stats().EntriesRestored)
	require.Zero(t, c.Stats().DroppedDuplicate)
	require.Len(t, p.take(1), 1)
}

// TestUnsentRunsAreNotedOnce: a run whose end did not leave, as often as that may be, is followed up once.
func TestUnsentRunsAreNotedOnce(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[0]
	p.send(0, number, Reliable, pattern(20_000, 1))
	for c.Queued() > 0 {
		for range 100 {
			_, n, ok := c.AppendPacket(p.now, nil, minDatagram)
			require.True(t, ok)
			c.Unsent(n)
			require.Positive(t, c.Queued())
		}
		_, _, ok := c.AppendPacket(p.now, nil, minDatagram)
		require.True(t, ok)
	}
	require.LessOrEqual(t, c.repairs.runs.len(), 1)
}

// TestRepairsOfTheAcked: repair bunches that could not leave before their group was acknowledged never leave: after 65,536 entries their sequence
// would be that of others.
func TestRepairsOfTheAcked(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[0]
	p.send(0, number, Reliable, pattern(20_000, 1))
	for c.Stats().RepairsSent == 0 {
		b, _, ok := c.AppendPacket(p.now, nil, 1404)
		require.True(t, ok)
		p.put(0, b)
	}
	require.True(t, c.repairs.more())
	path := c.path.Path
	path.More = true
	c.SetPath(p.now, path)
	p.run(time.Second)
	require.True(t, c.Drained())
	before := c.Stats().RepairsSent
	path.More = false
	c.SetPath(p.now, path)
	p.run(time.Second)
	require.Equal(t, before, c.Stats().RepairsSent)
}

// TestUnsentRepairsLeaveAgain: repair bunches of a packet that did not leave, also of a jumbo one, are counted only when they have.
func TestUnsentRepairsLeaveAgain(t *testing.T) {
	for _, size := range []int{1404, 20_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p, number := newFatedPair(t, 0.1)
			c := p.ends[0]
			sizes := []int{40_000, 20_000, 50_000}
			for i, size := range sizes {
				p.send(0, number, Reliable, pattern(size, i))
			}
			want := uint64(0)
			for {
				before := c.Stats()
				_, n, ok := c.AppendPacket(p.now, nil, size)
				if !ok {
					break
				}
				unsent := c.Stats().RepairsSent
				c.Unsent(n)
				require.Equal(t, before, c.Stats())
				b, _, ok := c.AppendPacket(p.now, nil, size)
				require.True(t, ok)
				require.Equal(t, unsent, c.Stats().RepairsSent)
				want += repairsIn(t, b)
				p.put(0, b)
			}
			require.Equal(t, want, c.Stats().RepairsSent)
			require.Greater(t, want, uint64(12), "of five groups")
			p.run(p.delay + time.Millisecond)
			requireMessages(t, p.take(1), sizes)
		})
	}
}

// repairsIn counts the repair bunches of a packet.
func repairsIn(t *testing.T, packet []byte) (count uint64) {
	var h packetHeader
	rest, err := parsePacketHeader(packet, &h)
	require.NoError(t, err)
	for len(rest) > 0 {
		var bh header
		bh, _, rest, err = parseBunch(rest)
		require.NoError(t, err)
		if bh.repairs() {
			count++
		}
	}
	return count
}

// TestUnsentRepairsOutliveTrimming: a carrier may say late that a packet did not leave.
func TestUnsentRepairsOutliveTrimming(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[0]
	p.send(0, number, Reliable, pattern(5000, 1))
	for c.repairs.current.index == 0 || c.repairs.more() {
		b, _, ok := c.AppendPacket(p.now, nil, 1404)
		require.True(t, ok)
		p.put(0, b)
	}
	before := c.Stats().RepairsSent
	c.trim()
	c.Unsent(c.sent.Next - 1)
	require.Equal(t, before-1, c.Stats().RepairsSent)
	require.True(t, c.repairs.more())
	p.run(time.Second)
	require.Equal(t, before, c.Stats().RepairsSent)
	require.Len(t, p.take(1), 1)
}

// TestRepairsOnTheGreatestChannel: its number takes four bytes, and the least datagram holds a repair bunch beside the largest header.
func TestRepairsOnTheGreatestChannel(t *testing.T) {
	p := newPair(t, Config{})
	p.max = minDatagram
	p.ends[0].channels.ourNext, p.ends[1].channels.peerNext = maxChannelNumber, maxChannelNumber
	ch := p.open(0, Bulk)
	p.send(0, ch, Reliable, nil)
	p.run(time.Second)
	p.take(1)
	p.ends[0].SetPath(p.now, Path{Epoch: 1, Fates: true, Loss: 0.02, Rate: 1e6, Window: 1e6})
	p.send(0, ch, Reliable, pattern(20_000, 0))
	sent := p.sent[0]
	p.drop = func(int, []byte) bool { return p.sent[0] == sent+2 }
	p.run(p.delay + time.Millisecond)
	requireMessages(t, p.take(1), []int{20_000})
	require.NotZero(t, p.ends[1].Stats().EntriesRestored)
	require.Len(t, appendRepair(nil, repair{group: group{channel: ch}, shard: make([]byte, EntryBytes)}), maxBunchHeader+EntryBytes)
}

// TestLateEntryStartsRestoring: an entry, or a piece of one, that comes after the repair bunches restores what is missing still.
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
						payload := append(repairOf(1, 4, 2, i, EntryBytes)[:repairFields], shards[4+i]...)
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

// TestContradictedRepairsGo: repair bunches that wait go as soon as something came that cannot be of their group.
func TestContradictedRepairsGo(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[1]
	require.NoError(t, c.receiveRepair(c.channels.find(number), header{channel: number, flags: flagRepair | flagWhole}, repairOf(1, 3, 2, 0, 5)))
	require.Equal(t, 1, c.restorer.held)
	require.NoError(t, c.receiveBunch(5, header{flags: flagWhole, channel: number, sequence: 1}, []byte{1, 1}, 10))
	require.Zero(t, c.restorer.held)
	require.EqualValues(t, 1, c.Stats().DroppedRepairs)
}

// TestRestoredBehindAClose: entries behind a close end the connection as any others do, whether or not they were restored.
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
	require.Contains(t, v.Error(), "behind its close")
}
