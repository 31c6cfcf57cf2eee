package slices

import (
	"maps"
	"slices"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/parity"
)

// maxHeldRepairs is the maximum number of repair slices that we hold. We drop any more, since
// the peer also resends lost slices.
const maxHeldRepairs = 1024

// repairCost is the memory that we charge for a repair slice: the size class of its shard, and
// a repairSet, since the slice may be the first one of its set.
const repairCost = 1152 + 640

// A page must have room for a chunk's missing slices, and for a padded copy of the last one.
const _ = uint(pages.Size - (parity.Most+1)*Size)

// A restorer keeps repair slices until there are enough to restore the missing slices of their
// chunk.
type restorer struct {
	held int                   // number of repair slices in all sets
	sets map[uint16]*repairSet // by chunk ID modulo Pipeline

	restored uint64 // number of slices restored
}

// A repairSet has the repair slices of one chunk.
type repairSet struct {
	repair // the first one received, without its shard
	parity.Set
}

// An outcome says what keep has done with a repair slice.
type outcome uint8

const (
	kept        outcome = iota // we have it, perhaps from before
	contradicts                // it doesn't fit the earlier repair slices of its chunk
	noRoom
)

// keep stores a repair slice of a chunk that is still to be delivered. If the place still has
// the set of an earlier chunk, that chunk has been delivered, so keep drops its set.
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

// restore returns all slices of a chunk. have says which slices are in data. restore puts the
// missing slices and the last slice into page. There must be enough repair slices, and restore
// overwrites them.
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

// drop removes the set in id's place, even if the set is for another chunk.
func (r *restorer) drop(id uint16, account Account) {
	if set := r.sets[id%Pipeline]; set != nil {
		account.Repay(int64(set.Have) * repairCost)
		r.held -= set.Have
		delete(r.sets, id%Pipeline)
	}
}

// dropAll removes all sets. Its cost depends only on the number of sets, because a peer can
// cause a call with each slice of an awaited chunk for which there's no room.
func (r *restorer) dropAll(account Account) {
	for _, id := range slices.Sorted(maps.Keys(r.sets)) {
		r.drop(id, account)
	}
}
