package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxHeldRepairs is the maximum number of repair bunches that a connection keeps until
	// their groups can be restored. With their sets they take 51 KiB. When there are more,
	// the oldest group is dropped, and the peer resends its lost entries.
	maxHeldRepairs = 32
	// maxCuts is the maximum number of cuts in a group besides 0 and EntryBytes (see
	// entries). A lost packet makes two. The bytes between two cuts are restored
	// separately, so the work grows with the number of cuts, which the peer controls
	// (BenchmarkRestoreWorst).
	maxCuts = 16
)

// A restorer keeps the repair bunches that a connection receives on any channel until they
// suffice to restore the missing entries of their group.
type restorer struct {
	sets []*repairSet // one per group; the set with the newest repair bunch is last
	held int          // repair bunches in all sets, at most maxHeldRepairs

	restored uint64 // entries restored; for Stats.EntriesRestored
	dropped  uint64 // repair bunches dropped without restoring anything; for Stats.DroppedRepairs
}

// A repairSet holds the repair bunches of one group.
type repairSet struct {
	group
	parity.Set
}

// receive handles a repair bunch of ch and returns the entries that it restores. The caller
// handles them like received entries.
func (r *restorer) receive(ch *channel, rep repair) []slot {
	restored := r.restore(ch, r.keep(rep))
	if r.held > maxHeldRepairs {
		r.discard(r.sets[0])
	}
	return restored
}

// entryReceived is called when the entry of ch with the given sequence is complete. It
// returns the entries that can now be restored.
func (r *restorer) entryReceived(ch *channel, sequence uint16) []slot {
	for _, set := range r.sets {
		if set.channel == ch.number && int(sequence-uint16(set.first)) < set.count {
			return r.restore(ch, set)
		}
	}
	return nil
}

// keep adds a repair bunch to the set of its group and makes that set the last of r.sets.
// It drops a duplicate. It returns the set.
func (r *restorer) keep(rep repair) *repairSet {
	set := &repairSet{group: rep.group}
	sameGroup := func(s *repairSet) bool { return s.group == rep.group }
	if i := slices.IndexFunc(r.sets, sameGroup); i >= 0 {
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

// drop removes a set.
func (r *restorer) drop(set *repairSet) {
	r.held -= set.Have
	r.sets = slices.DeleteFunc(r.sets, func(other *repairSet) bool { return other == set })
}

// discard removes a set that restored nothing and counts its repair bunches as dropped.
func (r *restorer) discard(set *repairSet) {
	r.dropped += uint64(set.Have)
	r.drop(set)
}

// spare reports whether trim has memory to free.
func (r *restorer) spare() bool { return r.sets != nil }

// trim drops all repair bunches.
func (r *restorer) trim() { *r = restorer{restored: r.restored, dropped: r.dropped + uint64(r.held)} }

// restore restores the missing entries of a set's group and returns them. It returns none
// while the set has too few repair bunches. It removes the set once the group is complete
// or can no longer be restored (see entriesOf).
func (r *restorer) restore(ch *channel, set *repairSet) (restored []slot) {
	e := entriesOf(ch, set.group)
	missing := e.missing()
	switch {
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

// entries are the entries of a group and the bytes received of them.
//
// The cuts are the offsets at which a received range of any entry begins or ends. Between
// two neighbouring cuts, the bytes of an entry are therefore either all received or all
// missing.
type entries struct {
	all  []slot
	cuts []uint16 // ascending, from 0 to EntryBytes
}

// entriesOf returns the entries of a group of ch. It returns no entries if one was already
// delivered, if the length of one contradicts the group, or if there are more than maxCuts.
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
	e.cuts = slices.Compact(e.cuts)
	if len(e.cuts) > maxCuts+2 {
		return entries{}
	}
	return e
}

// missing returns the number of repair bunches needed to restore the group: the maximum
// number of entries in which the same range is missing. It is 0 if there are no entries.
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

// restore fills in the missing ranges from the repair bunches of set, which must have as
// many as missing returns. It returns the entries that were incomplete before.
func (e entries) restore(set *repairSet) (restored []slot) {
	for k := range e.all {
		s := &e.all[k]
		s.number = set.first + uint64(k)
		s.flags = set.flags & deliveryMask
		if s.state == empty {
			s.payload = make([]byte, EntryBytes)
		}
	}
	shards := make([][]byte, set.count)
	for i, end := range e.cuts[1:] {
		off := e.cuts[i]
		for k, s := range e.all {
			if s.has(off, end) {
				shards[k] = s.payload[off:end]
			} else {
				shards[k] = s.payload[off:off:end] // empty: to be restored in place
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
