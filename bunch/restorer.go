package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/parity"
)

const (
	// maxHeldRepairs is the maximum number of repair bunches that a connection keeps until
	// they're enough to restore something. With their sets, they take 51 KiB. If there are more,
	// we drop those of the group that hasn't received one for the longest time, whose entries
	// the peer then has to retransmit.
	maxHeldRepairs = 32

	// maxCuts is the maximum number of cuts that a group may have besides 0 and EntryBytes (see
	// groupEntries). A lost packet makes two cuts.
	//
	// The bytes between two cuts are restored separately, so without a limit the peer could make
	// us work a lot by making many cuts (BenchmarkRestoreWorst).
	maxCuts = 16
)

// A restorer collects the repair bunches that a connection receives, on all its channels, until
// they suffice to restore the missing entries of their group.
type restorer struct {
	sets []*repairSet // one for each group; the one that last got a repair bunch is last
	held int          // repair bunches in all sets

	restored uint64 // entries restored; for Stats.EntriesRestored
	dropped  uint64 // repair bunches that restored nothing; for Stats.DroppedRepairs
}

// A repairSet holds the repair bunches of one group.
type repairSet struct {
	group
	parity.Set
}

// receive handles a repair bunch for ch. It returns the entries restored with its help, which the
// caller must treat as if they had been received.
func (r *restorer) receive(ch *channel, rep repair) []slot {
	restored := r.restore(ch, r.keep(rep))
	if r.held > maxHeldRepairs {
		r.discard(r.sets[0])
	}
	return restored
}

// entryReceived is called when an entry of ch is complete. It returns the entries that can be
// restored now.
func (r *restorer) entryReceived(ch *channel, sequence uint16) []slot {
	for _, set := range r.sets {
		if set.channel == ch.number && int(sequence-uint16(set.first)) < set.count {
			return r.restore(ch, set)
		}
	}
	return nil
}

// keep adds a repair bunch to the set of its group and returns the set, which becomes the last
// one. A duplicate is dropped.
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

// discard removes a set that restored nothing, and counts its repair bunches as dropped.
func (r *restorer) discard(set *repairSet) {
	r.dropped += uint64(set.Have)
	r.drop(set)
}

// hasSpare reports whether there's memory for trim to free.
func (r *restorer) hasSpare() bool { return r.sets != nil }

// trim drops all repair bunches.
func (r *restorer) trim() { *r = restorer{restored: r.restored, dropped: r.dropped + uint64(r.held)} }

// restore returns the missing entries of a set's group, provided that there are enough
// repair bunches to restore them. It removes the set once its entries are restored, or once they
// no longer can be.
func (r *restorer) restore(ch *channel, set *repairSet) (restored []slot) {
	e := groupEntriesOf(ch, set.group)
	needed := e.shardsNeeded()
	switch {
	case needed == 0:
		// Either the group is complete or it can't be restored any more (see groupEntriesOf).
		r.discard(set)
		return nil
	case needed > set.Have:
		return nil
	}
	r.drop(set)
	restored = e.restore(set)
	r.restored += uint64(len(restored))
	return restored
}

// groupEntries are the entries of a group, with the bytes that have arrived.
//
// Cuts are the offsets at which received data begins or ends in any of the entries. Between two
// adjacent cuts, each entry therefore has all of the bytes or none, and we can restore the
// entries one such range at a time.
type groupEntries struct {
	all  []slot
	cuts []uint16 // ascending, from 0 to EntryBytes
}

// groupEntriesOf returns the entries of a group of ch. It returns none if the group can't be
// restored, because one of them was already delivered or has a length that contradicts the
// group, or because there are too many cuts.
func groupEntriesOf(ch *channel, g group) groupEntries {
	e := groupEntries{make([]slot, g.count), []uint16{0, EntryBytes}}
	for i := range e.all {
		size := EntryBytes
		if i == g.count-1 {
			size = g.lastBytes
		}
		s, known := ch.partial(g.first + uint64(i))
		if !known {
			return groupEntries{}
		}
		if s.state != empty {
			if len(s.payload) != size {
				return groupEntries{}
			}
			if ok := s.pad(); !ok {
				return groupEntries{}
			}
		}
		for _, arrived := range s.ranges[:s.nranges] {
			e.cuts = append(e.cuts, arrived.off, arrived.end)
		}
		e.all[i] = s
	}
	slices.Sort(e.cuts)
	e.cuts = slices.Compact(e.cuts)
	if len(e.cuts) > maxCuts+2 {
		return groupEntries{}
	}
	return e
}

// shardsNeeded returns the number of repair bunches that are needed to restore the group, or 0
// if there are no entries. A range needs one repair bunch for each entry that lacks the range.
// The range that needs the most determines the result.
func (e groupEntries) shardsNeeded() (needed int) {
	for i := range len(e.cuts) - 1 {
		off, end := e.cuts[i], e.cuts[i+1]
		missing := 0
		for k := range e.all {
			if !e.all[k].has(off, end) {
				missing++
			}
		}
		needed = max(needed, missing)
	}
	return needed
}

// restore restores the missing bytes with the repair bunches of set, of which there must be at
// least shardsNeeded. It returns the entries that weren't complete before.
func (e groupEntries) restore(set *repairSet) (restored []slot) {
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
				// An empty shard with enough capacity is restored in place.
				shards[k] = s.payload[off:off:end]
			}
		}
		set.Restore(shards, int(off), int(end))
	}

	first, last := &e.all[0], &e.all[set.count-1]
	first.flags |= set.flags & flagBegin
	last.flags |= set.flags & flagEnd
	last.payload = last.payload[:set.lastBytes] // without the padding
	return slices.DeleteFunc(e.all, func(s slot) bool { return s.state == full })
}
