package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxHeldRepairs is how many repair bunches may wait for others of their groups: 51 KiB. More push out the oldest group, whose lost entries
	// leave again.
	maxHeldRepairs = 32
	// maxCuts is how many different ends the missing ranges of a group may have: each range between two is restored on its own. A lost packet makes
	// two.
	maxCuts = 16
)

// restorer keeps repair bunches until they can restore the missing entries of their group.
type restorer struct {
	groups []*group // by when a repair bunch last came for them, the oldest first
	held   int      // repair bunches in all groups

	restored uint64 // entries
	dropped  uint64 // repair bunches that came when all of their entries had, or for which there was no room
}

// group holds the repair bunches that came of one group.
type group struct {
	channel *channel
	repair                      // the first that came, without its shard
	shards  [parity.Most][]byte // by index; nil = has not come
	have    int                 // how many have come
}

// is reports whether r belongs to the group.
func (g *group) is(ch *channel, r repair) bool {
	return g.channel == ch && g.first == r.first && g.count == r.count && g.total == r.total && g.last == r.last && g.flags == r.flags
}

// keep keeps a repair bunch and returns its group, which is the newest now.
func (m *restorer) keep(ch *channel, r repair) *group {
	g := &group{channel: ch, repair: r}
	g.shard = nil // which is memory of the packet
	if i := slices.IndexFunc(m.groups, func(g *group) bool { return g.is(ch, r) }); i >= 0 {
		g = m.groups[i]
		m.groups = slices.Delete(m.groups, i, i+1)
	}
	m.groups = append(m.groups, g)
	if g.shards[r.index] != nil {
		m.dropped++
		return g
	}
	if m.held == maxHeldRepairs {
		m.dropped += uint64(m.groups[0].have)
		m.forget(m.groups[0])
	}
	g.shards[r.index] = slices.Clone(r.shard)
	g.have++
	m.held++
	return g
}

// forget forgets a group.
func (m *restorer) forget(g *group) {
	m.held -= g.have
	m.groups = slices.DeleteFunc(m.groups, func(other *group) bool { return other == g })
}

// spare reports whether trim has memory to give up.
func (m *restorer) spare() bool { return m.groups != nil }

// trim gives up what waits.
func (m *restorer) trim() { *m = restorer{restored: m.restored, dropped: m.dropped + uint64(m.held)} }

// receive takes a repair bunch of ch, and returns the entries that it restores, which the caller receives as if they came.
func (m *restorer) receive(ch *channel, r repair) []restored {
	e, ok := entriesOf(ch, r)
	missing := 0
	if ok {
		missing = e.missing()
	}
	if missing == 0 || missing > r.total {
		m.dropped++
		return nil
	}
	g := m.keep(ch, r)
	if g.have < missing {
		return nil
	}
	m.forget(g)
	return m.restore(g, e)
}

// entries are those of a group, as far as they are here. Ranges of bytes between two cuts are here or missing as a whole.
type entries struct {
	all  []partial
	cuts []uint16 // ascending, from 0 to EntryBytes
}

// partial is what is here of an entry.
type partial struct {
	payload []byte   // EntryBytes, or nil when nothing is here
	have    []extent // the ranges that are
}

func (p partial) has(off, end uint16) bool {
	return slices.ContainsFunc(p.have, func(h extent) bool { return h.off <= off && end <= h.end })
}

// fillUp fills the last entry of a run up with zeros, and counts these as here.
func (p *partial) fillUp() {
	size := uint16(len(p.payload))
	p.payload = append(make([]byte, 0, EntryBytes), p.payload...)[:EntryBytes]
	p.have = slices.Clone(p.have)
	if last := len(p.have) - 1; p.have[last].end == size {
		p.have[last].end = EntryBytes
	} else {
		p.have = append(p.have, extent{size, EntryBytes})
	}
}

// entriesOf returns the entries of a group of ch. It is not ok when they are not part of a run that could be here, or in too many ranges.
func entriesOf(ch *channel, r repair) (e entries, ok bool) {
	e.all, e.cuts = make([]partial, r.count), []uint16{0, EntryBytes}
	for i := range e.all {
		size := EntryBytes
		if i == r.count-1 {
			size = r.last
		}
		p, known := ch.partial(r.first + uint64(i))
		if !known || p.payload != nil && len(p.payload) != size {
			return e, false
		}
		if p.payload != nil && size < EntryBytes {
			p.fillUp()
		}
		for _, h := range p.have {
			e.cuts = append(e.cuts, h.off, h.end)
		}
		e.all[i] = p
	}
	slices.Sort(e.cuts)
	e.cuts = slices.Compact(e.cuts)
	return e, len(e.cuts) <= maxCuts+2
}

// missing returns of how many entries the same range is missing at most: as many repair bunches restore all.
func (e entries) missing() (most int) {
	for i := range e.cuts[1:] {
		count := 0
		for _, p := range e.all {
			if !p.has(e.cuts[i], e.cuts[i+1]) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// restored is an entry that was restored.
type restored struct {
	header
	payload []byte
}

// restore makes the missing ranges of a group, which has enough, and returns the entries that they complete.
func (m *restorer) restore(g *group, e entries) (all []restored) {
	incomplete := e.copyIncomplete()
	shards := make([][]byte, g.count+g.total)
	for i := range e.cuts[1:] {
		e.listShards(shards, g, e.cuts[i], e.cuts[i+1])
		parity.Restore(shards, g.count)
	}
	for _, k := range incomplete {
		all = append(all, g.entry(k, e.all[k].payload))
	}
	m.restored += uint64(len(all))
	return all
}

// listShards lists one range of the entries of a group and of its repair bunches. What is missing is empty; of an entry it has room.
func (e entries) listShards(shards [][]byte, g *group, off, end uint16) {
	for k, p := range e.all {
		if shards[k] = p.payload[off:off:end]; p.has(off, end) {
			shards[k] = p.payload[off:end]
		}
	}
	for k, shard := range g.shards[:g.total] {
		if shards[g.count+k] = nil; shard != nil {
			shards[g.count+k] = shard[off:end]
		}
	}
}

// copyIncomplete gives the entries that are not whole memory of their own, and returns which they are.
func (e entries) copyIncomplete() (incomplete []int) {
	for k := range e.all {
		if p := &e.all[k]; !p.has(0, EntryBytes) {
			p.payload = append(make([]byte, 0, EntryBytes), p.payload...)[:EntryBytes]
			incomplete = append(incomplete, k)
		}
	}
	return incomplete
}

// entry returns entry k of the group, which was restored.
func (g *group) entry(k int, payload []byte) restored {
	h := header{flags: g.flags & deliveryMask, channel: g.channel.number, sequence: uint16(g.first + uint64(k))}
	if k == 0 {
		h.flags |= g.flags & flagBegin
	}
	if k == g.count-1 {
		h.flags |= g.flags & flagEnd
		payload = payload[:g.last]
	}
	return restored{h, payload}
}
