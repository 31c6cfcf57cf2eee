package slices

import (
	"maps"
	"slices"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/parity"
)

// maxHeldRepairs is the maximum number of repair slices that we hold. That is one for each chunk in
// flight. We drop any beyond that, which costs no data, because the peer also resends lost slices.
const maxHeldRepairs = Pipeline

const (
	shardCost = 1152 // the size class of a shard
	setCost   = 640  // a repairSet
	// repairCost is the memory that we charge for a repair slice. It includes a set, because the
	// slice may be the first one of its set.
	repairCost = shardCost + setCost
)

// A page must have room for a chunk's missing slices, and for a padded copy of the last one.
const _ = uint(pages.Size - (parity.Most+1)*Size)

// A restorer keeps repair slices until there are enough to restore the missing slices of their
// chunk.
type restorer struct {
	count int                   // number of repair slices in all sets
	sets  map[uint16]*repairSet // by chunk ID modulo Pipeline

	restored uint64 // number of slices restored
}

// A repairSet has the repair slices of one chunk.
type repairSet struct {
	repair // the first one received, without its shard
	parity.Set
}

// An outcome says what keep did with a repair slice.
type outcome uint8

const (
	kept        outcome = iota // we have it, perhaps from before
	contradicts                // it doesn't match the earlier repair slices of its chunk
	noRoom                     // we hold too many, or the account has no memory
)

// keep stores a repair slice of a chunk that has not been delivered yet. If the sets still hold an
// earlier chunk at the same index, keep drops that one, because at most Pipeline chunks are
// in flight, so the earlier one has been delivered.
func (r *restorer) keep(rep repair, account Account) outcome {
	set := r.find(rep.id)
	switch {
	case set == nil:
		r.drop(rep.id, account)
	case set.count != rep.count || set.total != rep.total || set.last != rep.last:
		return contradicts
	case set.Has(rep.index):
		return kept
	}
	if r.count == maxHeldRepairs || !account.Borrow(repairCost, false) {
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
	r.count++
	return kept
}

// find returns the repair slices of a chunk, or nil.
func (r *restorer) find(id uint16) *repairSet {
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

// restore returns all slices of a chunk, padded to Size. have says which slices are in data;
// restore puts the missing ones and the last one into page, so the result is valid only as long as
// the caller owns page. There must be enough repair slices, which restore overwrites.
func (s *repairSet) restore(page *pages.Page, data []byte, have chunk.Ack) (all [][]byte) {
	all, free := make([][]byte, s.count), page[:]
	for i := range all {
		isLast := i == s.count-1
		if have.Acked.Has(i) && !isLast {
			all[i] = data[i*Size : (i+1)*Size]
			continue
		}
		all[i], free = free[:0:Size], free[Size:] // Restore fills in the slices of length 0
		if have.Acked.Has(i) {
			n := copy(all[i][:Size], data[i*Size:][:s.last])
			all[i] = all[i][:Size]
			clear(all[i][n:])
		}
	}
	s.Restore(all, 0, Size)
	return all
}

// drop removes the set at id's index, even if the set is for another chunk.
func (r *restorer) drop(id uint16, account Account) {
	if set := r.sets[id%Pipeline]; set != nil {
		account.Repay(int64(set.Have) * repairCost)
		r.count -= set.Have
		delete(r.sets, id%Pipeline)
	}
	if len(r.sets) == 0 {
		r.sets = nil // a map that was large stays large, and isn't charged
	}
}

// dropAll removes all sets. Its cost depends only on the number of sets, because a peer can
// cause a call with each slice of an awaited chunk for which there's no room.
func (r *restorer) dropAll(account Account) {
	for _, id := range slices.Sorted(maps.Keys(r.sets)) { // in order, so that tests are repeatable
		r.drop(id, account)
	}
}
