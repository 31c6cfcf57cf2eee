package slices

import (
	"maps"
	"slices"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/parity"
)

// maxHeldRepairs is how many repair slices may wait for others of their chunks. More are dropped, and the peer sends lost slices again.
const maxHeldRepairs = 1024

// repairCost is the memory of a repair slice that waits: its shard's size class, and a repairSet, of which it may be the first.
const repairCost = 1152 + 640

// A page has room for the missing slices of a chunk, and for the last one.
const _ = uint(pages.Size - (parity.Most+1)*Size)

// restorer keeps repair slices until they can restore the missing slices of their chunk.
type restorer struct {
	held int                   // repair slices in all sets
	sets map[uint16]*repairSet // by id of their chunk modulo Pipeline

	restored uint64 // slices made
}

// repairSet holds the repair slices that came for one chunk.
type repairSet struct {
	repair // the first that came, without its shard
	parity.Set
}

// outcome tells what a restorer has done with a repair slice.
type outcome uint8

const (
	kept        outcome = iota // it is kept, now or from before
	contradicts                // earlier repair slices of its chunk
	noRoom
)

// keep takes a repair slice of a chunk that was not handed out. The set of an earlier chunk in its place goes: that chunk was handed out.
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
		set.shard = nil // which is memory of the packet
		if r.sets == nil {
			r.sets = make(map[uint16]*repairSet)
		}
		r.sets[rep.id%Pipeline] = set
	}
	set.Add(rep.index, rep.shard)
	r.held++
	return kept
}

// set returns the repair slices that came for a chunk, or nil.
func (r *restorer) set(id uint16) *repairSet {
	if set := r.sets[id%Pipeline]; set != nil && set.id == id {
		return set
	}
	return nil
}

// unpad returns slice i of the chunk without the zeros that fill up the last one.
func (s *repairSet) unpad(i int, shard []byte) []byte {
	if i == s.count-1 {
		return shard[:s.last]
	}
	return shard
}

// restore returns all slices of a chunk, of which have says which data holds; the others, and the last one, lie in page. There are enough repair
// slices, which it overwrites.
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

// drop forgets the set in the place of that id, whichever chunk it is for.
func (r *restorer) drop(id uint16, account Account) {
	if set := r.sets[id%Pipeline]; set != nil {
		account.Repay(int64(set.Have) * repairCost)
		r.held -= set.Have
		delete(r.sets, id%Pipeline)
	}
}

// dropAll forgets all sets. It looks at those that there are: a peer whose awaited chunk finds no room has it called for each slice of that.
func (r *restorer) dropAll(account Account) {
	for _, id := range slices.Sorted(maps.Keys(r.sets)) {
		r.drop(id, account)
	}
}
