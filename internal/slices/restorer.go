package slices

import "github.com/quivernet/quiver/chunk"

// maxHeldRepairs bounds the repair slices that wait for others of their chunks, in all. What comes beyond is not needed: lost
// slices come again.
const maxHeldRepairs = 1024

const (
	// repairCost is the memory of a repair slice that waits, with the set that it may be the first of.
	repairCost = 1152 + 640
	// restoreBytes is what restoring takes: a chunk's missing slices, and the codes used lately.
	restoreBytes = 192 << 10
)

// restorer keeps repair slices until they can make what a chunk misses.
type restorer struct {
	held   int                   // repair slices, in all
	sets   map[uint16]*repairSet // by id modulo Pipeline
	coders coders
	memory []byte // of one chunk's missing slices

	restored uint64 // slices made
	spare    uint64 // repair slices that were not needed
}

// repairSet is what came to repair one chunk.
type repairSet struct {
	repair // the first
	shards [maxParity][]byte
	have   int
}

// outcome is what a restorer does with a repair slice.
type outcome uint8

const (
	kept outcome = iota
	known
	contradicts // what came before of the chunk
	noRoom
)

// keep takes a repair slice. What waits for a chunk before it in the same place, which is through, makes room first.
func (m *restorer) keep(r repair, account Account) outcome {
	set := m.set(r.id)
	if set == nil {
		m.drop(r.id, account)
	}
	switch {
	case set != nil && (set.count != r.count || set.parity != r.parity || set.last != r.last):
		return contradicts
	case set != nil && set.shards[r.index] != nil:
		return known
	case m.held == maxHeldRepairs || !account.Borrow(repairCost, false):
		return noRoom
	}
	if set == nil {
		set = &repairSet{repair: r}
		set.shard = nil // it lies in the packet
		if m.sets == nil {
			m.sets = make(map[uint16]*repairSet)
		}
		m.sets[r.id%Pipeline] = set
	}
	set.shards[r.index] = append([]byte(nil), r.shard...)
	set.have++
	m.held++
	return kept
}

// set returns what came to repair a chunk, or nil.
func (m *restorer) set(id uint16) *repairSet {
	if set := m.sets[id%Pipeline]; set != nil && set.id == id {
		return set
	}
	return nil
}

// restore returns all slices of a chunk, of which data has those in have.
func (m *restorer) restore(set *repairSet, data []byte, have chunk.Ack) (shards [][]byte, ok bool) {
	code, err := m.coders.get(set.count, set.parity)
	if err != nil {
		return nil, false
	}
	shards = m.gather(set, data, have)
	return shards, code.ReconstructData(shards) == nil
}

// cut takes from the last slice what it is filled up with.
func (s *repairSet) cut(i int, shard []byte) []byte {
	if i == s.count-1 {
		return shard[:s.last]
	}
	return shard
}

// gather returns all shards of a chunk; the missing ones are empty, with room.
func (m *restorer) gather(set *repairSet, data []byte, have chunk.Ack) [][]byte {
	shards, free := make([][]byte, set.count+set.parity), m.memory
	for i := range set.count {
		last := i == set.count-1
		if have.Acked.Has(i) && !last {
			shards[i] = data[i*Size : (i+1)*Size]
			continue
		}
		shards[i], free = free[:0:Size], free[Size:]
		if have.Acked.Has(i) {
			n := copy(shards[i][:Size], data[i*Size:][:set.last])
			shards[i] = shards[i][:Size]
			clear(shards[i][n:])
		}
	}
	copy(shards[set.count:], set.shards[:set.parity])
	return shards
}

// equip makes the memory to mend with, if there is room for it. Without it lost slices come again.
func (m *restorer) equip(account Account) bool {
	if m.memory == nil {
		if !account.Borrow(restoreBytes, false) {
			return false
		}
		m.memory = make([]byte, (maxParity+1)*Size)
	}
	return true
}

// trim gives up spare memory. What waits to repair a chunk stays.
func (m *restorer) trim(account Account) {
	if m.memory != nil {
		account.Repay(restoreBytes)
	}
	m.coders, m.memory = nil, nil
}

// drop forgets what came to repair the chunk in the place of that id.
func (m *restorer) drop(id uint16, account Account) {
	if set := m.sets[id%Pipeline]; set != nil {
		account.Repay(int64(set.have) * repairCost)
		m.held -= set.have
		delete(m.sets, id%Pipeline)
	}
}

// dropAll forgets all that came to repair chunks.
func (m *restorer) dropAll(account Account) {
	for id := range uint16(Pipeline) {
		if m.held > 0 {
			m.drop(id, account)
		}
	}
}
