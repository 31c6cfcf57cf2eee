package slices

import (
	"maps"
	"slices"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/parity"
)

// maxHeldRepairs is how many repair slices we hold. Any more are dropped; the peer resends
// slices that are lost.
const maxHeldRepairs = 1024

// repairCost is how much memory we charge for a repair slice: the size class of its shard, and a
// repairSet, since it may be the first slice in one.
const repairCost = 1152 + 640

// A page must have room for a chunk's missing slices, and for a padded copy of the last one.
const _ = uint(pages.Size - (parity.Most+1)*Size)

// A restorer keeps repair slices until there are enough to restore the missing slices of their
// chunk.
type restorer struct {
	held int                   // how many repair slices are in all sets
	sets map[uint16]*repairSet // by chunk ID modulo Pipeline

	restored uint64 // how many slices were restored
}

// A repairSet has the repair slices of one chunk.
type repairSet struct {
	repair // the first one received, without its shard
	parity.Set
}

// An outcome is what keep has done with a repair slice.
type outcome uint8

const (
	kept        outcome = iota // we have it, perhaps from before
	contradicts                // it doesn't fit the earlier repair slices of its chunk
	noRoom
)

// keep stores a repair slice of a chunk that is still to be delivered. If it finds the set of an
// earlier chunk in the same place, that chunk was delivered, and keep drops the set.
func (r *restorer) keep(rep repair, account Account) outcome {
	set := r.set(rep.id)
	if set == nil {
		r.drop(rep.id, account)
	}
	switch {
	case set != nil && (set.count != rep.count || set.total != rep.total || set.last != rep.last):
		return contradicts
	case set != nil && set.Has(rep.index):
		return kept
	case r.held == maxHeldRepairs || !account.Borrow(repairCost, false):
		return noRoom
	}
	if set == nil {
		set = &repairSet{repair: rep}
		set.shard = nil // it aliases the packet
		if r.sets == nil {
			r.sets = make(map[uint16]*repairSet)
		}
		r.sets[rep.id%Pipeline] = set
	}
	set.Add(rep.index, rep.shard)
	r.held++
	return kept
}

// set returns the repair slices of a chunk, or nil.
func (r *restorer) set(id uint16) *repairSet {
	if set := r.sets[id%Pipeline]; set != nil && set.id == id {
		return set
	}
	return nil
}

// unpad returns slice i of the chunk, without the padding if it is the last one.
func (s *repairSet) unpad(i int, shard []byte) []byte {
	if i == s.count-1 {
		return shard[:s.last]
	}
	return shard
}

// restore returns all slices of a chunk. have says which slices are in data. The others, and
// the last one, are put into page. There must be enough repair slices; restore overwrites
// them.
func (s *repairSet) restore(page *pages.Page, data []byte, have chunk.Ack) (all [][]byte) {
	all, free := make([][]byte, s.count), page[:]
	for i := range all {
		last := i == s.count-1
		if have.Acked.Has(i) && !last {
			all[i] = data[i*Size : (i+1)*Size]
			continue
		}
		all[i], free = free[:0:Size], free[Size:]
		if have.Acked.Has(i) {
			n := copy(all[i][:Size], data[i*Size:][:s.last])
			all[i] = all[i][:Size]
			clear(all[i][n:])
		}
	}
	s.Restore(all, 0, Size)
	return all
}

// drop removes the set in id's place, whichever chunk the set is for.
func (r *restorer) drop(id uint16, account Account) {
	if set := r.sets[id%Pipeline]; set != nil {
		account.Repay(int64(set.Have) * repairCost)
		r.held -= set.Have
		delete(r.sets, id%Pipeline)
	}
}

// dropAll removes all sets. Its cost depends only on the number of sets, because a peer can
// cause a call with each slice of an awaited chunk that finds no room.
func (r *restorer) dropAll(account Account) {
	for _, id := range slices.Sorted(maps.Keys(r.sets)) {
		r.drop(id, account)
	}
}
