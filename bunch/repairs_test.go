package bunch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newFatedPair returns a pair whose client has an open channel of bulk, and a carrier that
// reports the fates of packets on a path with loss.
func newFatedPair(t testing.TB, loss float64) (p *pair, ch uint64) {
	p = newPair(t, Config{})
	ch = p.open(0, Bulk)
	p.send(0, ch, Reliable, []byte("first"))
	p.run(time.Second)
	p.take(1)
	p.fates[0] = true
	p.ends[0].SetPath(p.now, Path{Epoch: 1, Fates: true, Loss: loss, LossOf: 256, Rate: 1e6, Window: 1e6})
	return p, ch
}

// TestRepairsRestoreTheTail: although two packets of a flight of long messages are lost, the
// flight is complete one way later. The lost content is sent again nevertheless.
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

// requireMessages asserts that all messages of these sizes have arrived, in any order.
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

// TestRepairsWaitForTheEnd: no repair bunch is sent while the owner has more messages,
// something is queued, the path loses nothing, or QUIC is the carrier. There are never any for
// play.
func TestRepairsWaitForTheEnd(t *testing.T) {
	lossy := Path{Epoch: 1, Fates: true, Loss: 0.02, Rate: 1e6, Window: 1e6}
	for name, row := range map[string]struct {
		path     func(*Path)
		priority Priority
		told     int // packets that the loss was measured over
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
			path := lossy
			path.LossOf = row.told
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

// TestRepairsKeepToTheBunchesOfAPacket: a large packet may have room for more bunches than its
// peer accepts.
func TestRepairsKeepToTheBunchesOfAPacket(t *testing.T) {
	p, number := newFatedPair(t, 0.1)
	c := p.ends[0]
	p.send(0, number, Reliable, pattern(20_000, 0))
	_, _, ok := c.AppendPacket(p.now, nil, 20_600) // has no room for a repair bunch
	require.True(t, ok)
	for bunches, most := range map[int]int{maxBunches: 0, maxBunches - 1: 1} {
		b := builder{limit: 9000, bunches: bunches}
		c.repairs.place(&b, &c.path, &c.levels[bulkLevel])
		require.Equal(t, bunches+most, b.bunches)
	}
}

// TestRepairsLeaveBehindPlay: play of any priority goes before repair bunches.
func TestRepairsLeaveBehindPlay(t *testing.T) {
	p, number := newFatedPair(t, 0.1)
	c, play := p.ends[0], p.open(0, Low)
	p.send(0, number, Reliable, pattern(20_000, 0))
	_, _, ok := c.AppendPacket(p.now, nil, 20_600) // has no room for a repair bunch
	require.True(t, ok)
	p.send(0, play, Reliable, []byte("play"))
	b, _, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.Equal(t, fmt.Sprintf("%d/0", play), bunchesOf(t, b)[0])
	require.EqualValues(t, 1, repairsIn(t, b))
}

// TestGroupsBeginInTheBuffer: a group contains no entries that were acknowledged and freed.
func TestGroupsBeginInTheBuffer(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(1)
	l.mustAck(0, 0)
	require.NoError(t, l.Send(l.channel, Reliable, pattern(20_000, 0)))
	_, _, ok := l.AppendPacket(l.at, nil, minDatagram)
	require.True(t, ok)
	l.mustAck(1, 1)
	ch := l.channels.find(l.channel)
	require.EqualValues(t, 2, ch.first)
	g, unacked, ok := groupOf(ch, ch.next-1)
	require.True(t, ok)
	require.Equal(t, []int{2, 18, 18}, []int{int(g.first), g.count, unacked})
	require.Zero(t, g.flags&flagBegin)
}

// TestRepairsGiveUpTheirMemory: the memory of repair bunches is freed, even if there's nothing
// else to free.
func TestRepairsGiveUpTheirMemory(t *testing.T) {
	r := repairs{currentGroup: currentGroup{memory: make([]byte, EntryBytes)}}
	require.True(t, r.hasSpare())
	r.trim()
	require.False(t, r.hasSpare())
	r.runs.push(sentRun{&channel{first: 2}, 1})
	require.True(t, r.hasSpare())
	r.trim()
	require.False(t, r.hasSpare())
}

// TestGroups: a group has at most 32 entries of a run, which are still in the reliable buffer
// and none of which opens the channel.
func TestGroups(t *testing.T) {
	p := newPair(t, Config{})
	number := p.open(0, Bulk)
	c := p.ends[0]
	ch := c.channels.find(number)
	p.send(0, number, Reliable, pattern(5000, 0))
	_, _, ok := groupOf(ch, ch.next-1)
	require.False(t, ok, "it opens the channel")
	p.send(0, number, ReliableUnordered, pattern(MaxBunchBytes, 0))
	g, unacked, ok := groupOf(ch, ch.next-1)
	require.True(t, ok)
	require.Equal(t, group{channel: number, flags: flagRepair | flagEnd | byte(ReliableUnordered), first: ch.next - maxGroupEntries, count: maxGroupEntries, lastBytes: MaxBunchBytes % EntryBytes}, g)
	require.Equal(t, maxGroupEntries, unacked)
	before, unacked, ok := groupOf(ch, g.first-1)
	require.True(t, ok)
	count := maxParts - maxGroupEntries
	require.Equal(t, group{channel: number, flags: flagRepair | flagBegin | byte(ReliableUnordered), first: g.first - uint64(count), count: count, lastBytes: EntryBytes}, before)
	require.Equal(t, count, unacked)
	p.send(0, number, Reliable, pattern(3500, 0))
	g, unacked, ok = groupOf(ch, ch.next-1)
	require.True(t, ok)
	require.Equal(t, group{channel: number, flags: flagRepair | flagWhole, first: ch.next - 4, count: 4, lastBytes: 200}, g)
	require.Equal(t, 4, unacked)
	p.send(0, number, Reliable, pattern(2500, 0))
	_, _, ok = groupOf(ch, ch.next-1)
	require.False(t, ok, "short")
}

// TestUnsentRunsAreNotedOnce: a run gets repair bunches once, however often the packet with its
// end couldn't be sent.
func TestUnsentRunsAreNotedOnce(t *testing.T) {
	p, number := newFatedPair(t, 0.02)
	c := p.ends[0]
	p.send(0, number, Reliable, pattern(20_000, 1))
	for c.Queued() > 0 {
		for range 100 {
			_, n, ok := c.AppendPacket(p.now, nil, minDatagram)
			require.True(t, ok)
			c.Unsent(n)
			require.True(t, c.hasPending(len(c.levels)))
		}
		_, _, ok := c.AppendPacket(p.now, nil, minDatagram)
		require.True(t, ok)
	}
	require.LessOrEqual(t, c.repairs.runs.len(), 1)
}

// TestRepairsOfTheAcked: repair bunches that couldn't be sent before their group was
// acknowledged are never sent, because after 65,536 more entries their sequence would refer to
// other entries.
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

// TestUnsentRepairs: the content of a packet that couldn't be sent, even a jumbo packet, is
// sent again, except for its repair bunches.
func TestUnsentRepairs(t *testing.T) {
	for _, size := range []int{1404, 20_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p, number := newFatedPair(t, 0.1)
			c := p.ends[0]
			sizes := []int{40_000, 20_000, 50_000}
			for i, size := range sizes {
				p.send(0, number, Reliable, pattern(size, i))
			}
			want := uint64(0)
			for refuse := true; ; refuse = !refuse {
				b, n, ok := c.AppendPacket(p.now, nil, size)
				if !ok {
					break
				}
				want += repairsIn(t, b)
				if refuse {
					c.Unsent(n)
				} else {
					p.put(0, b)
				}
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
		if bh.isRepair() {
			count++
		}
	}
	return count
}

// TestRepairsOnTheGreatestChannel: the largest channel number takes four bytes, and the
// smallest datagram still has room for a repair bunch and the largest header.
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
