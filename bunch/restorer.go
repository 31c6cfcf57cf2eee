package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxHeldRepairs is how many repair bunches may wait for others of their groups: 51 KiB with their sets. One more pushes out the oldest group,
	// whose lost entries the peer sends again.
	maxHeldRepairs = 32
	// maxCuts is how many different ends the missing ranges of a group may have, two for each lost packet. What lies between two cuts is restored
	// on its own, so the work grows with their number, which a peer chooses: see BenchmarkRestoreWorst.
	maxCuts = 16
)

// restorer keeps repair bunches, of all channels, until they can restore the missing entries of their group.
type restorer struct {
	sets []*repairSet // by when a repair bunch last came for them, the oldest first
	held int          // repair bunches in all sets

	restored uint64 // entries
	dropped  uint64 // repair bunches that restored nothing: see Stats.DroppedRepairs
}

// repairSet holds the repair bunches that came of one group.
type repairSet struct {
	group
	parity.Set
}

// receive takes a repair bunch of ch, and returns the entries that it restores. The caller receives them as if they had come.
func (r *restorer) receive(ch *channel, rep repair) []slot {
	restored := r.restore(ch, r.keep(rep))
	if r.held > maxHeldRepairs {
		r.discard(r.sets[0])
	}
	return restored
}

// entryCame returns the entries that can be restored now that the entry of ch with a sequence is whole.
func (r *restorer) entryCame(ch *channel, sequence uint16) []slot {
	for _, set := range r.sets {
		if set.channel == ch.number && int(sequence-uint16(set.first)) < set.count {
			return r.restore(ch, set)
		}
	}
	return nil
}

// keep keeps a repair bunch and returns its set, which is the newest now.
func (r *restorer) keep(rep repair) *repairSet {
	set := &repairSet{group: rep.group}
	if i := slices.IndexFunc(r.sets, func(s *repairSet) bool { return s.group == rep.group }); i >= 0 {
		set = r.sets[i]
		r.sets = slices.Delete(r.sets, i, i+1)
	}
	r.sets = append(r.sets, set)
	if set.Has(rep.index) {
		r.dropped++
		return set
	}
	set.Add(rep.index, rep.shard)
	r.held++
	return set
}

// drop forgets a set.
func (r *restorer) drop(set *repairSet) {
	r.held -= set.Have
	r.sets = slices.DeleteFunc(r.sets, func(other *repairSet) bool { return other == set })
}

// discard drops a set that restores nothing.
func (r *restorer) discard(set *repairSet) {
	r.dropped += uint64(set.Have)
	r.drop(set)
}

// spare reports whether trim has memory to give up.
func (r *restorer) spare() bool { return r.sets != nil }

// trim drops the repair bunches that wait.
func (r *restorer) trim() { *r = restorer{restored: r.restored, dropped: r.dropped + uint64(r.held)} }

// restore restores what is missing of a set's group, and returns the entries that this completes. It returns none while the set has too few repair
// bunches, and drops the set when they are of no use.
func (r *restorer) restore(ch *channel, set *repairSet) (restored []slot) {
	e := entriesOf(ch, set.group)
	switch missing := e.missing(); {
	case missing == 0:
		r.discard(set)
		return nil
	case missing > set.Have:
		return nil
	}
	r.drop(set)
	restored = e.restore(set)
	r.restored += uint64(len(restored))
	return restored
}

// entries are the entries of a group, as far as they are here. Of each entry, the bytes between two neighbouring cuts are all here or all missing.
type entries struct {
	all  []slot
	cuts []uint16 // ascending, from 0 to EntryBytes
}

// entriesOf returns the entries of a group of ch. It returns none when one of them was handed out, when the length of one that came contradicts the
// group, or when they came in too many ranges.
func entriesOf(ch *channel, g group) entries {
	e := entries{make([]slot, g.count), []uint16{0, EntryBytes}}
	for i := range e.all {
		size := EntryBytes
		if i == g.count-1 {
			size = g.last
		}
		s, known := ch.partial(g.first + uint64(i))
		if !known || s.state != empty && (len(s.payload) != size || !s.fillUp()) {
			return entries{}
		}
		for _, got := range s.have[:s.n] {
			e.cuts = append(e.cuts, got.off, got.end)
		}
		e.all[i] = s
	}
	slices.Sort(e.cuts)
	if e.cuts = slices.Compact(e.cuts); len(e.cuts) > maxCuts+2 {
		return entries{}
	}
	return e
}

// missing returns how many repair bunches restore the group: the most entries that lack the same range. It is 0 for no entries.
func (e entries) missing() (most int) {
	for i := range len(e.cuts) - 1 {
		count := 0
		for k := range e.all {
			if !e.all[k].has(e.cuts[i], e.cuts[i+1]) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// restore fills in the missing ranges from the repair bunches of a set, which are enough, and returns the entries that were not whole before.
func (e entries) restore(set *repairSet) (restored []slot) {
	for k := range e.all {
		s := &e.all[k]
		if s.number, s.flags = set.first+uint64(k), set.flags&deliveryMask; s.state == empty {
			s.payload = make([]byte, EntryBytes)
		}
	}
	shards := make([][]byte, set.count)
	for i, end := range e.cuts[1:] {
		off := e.cuts[i]
		for k, s := range e.all {
			if shards[k] = s.payload[off:off:end]; s.has(off, end) {
				shards[k] = s.payload[off:end]
			}
		}
		set.Restore(shards, int(off), int(end))
	}
	first, last := &e.all[0], &e.all[set.count-1]
	first.flags |= set.flags & flagBegin
	last.flags |= set.flags & flagEnd
	last.payload = last.payload[:set.last]
	return slices.DeleteFunc(e.all, func(s slot) bool { return s.state == full })
}
