package stream

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// maxHeldRepairs bounds the repair slices that wait for others of their chunks, in all. What comes beyond is not needed: lost
// slices come again.
const maxHeldRepairs = 1024

const (
	// repairCost is the memory of a repair slice that waits, with the set that it may be the first of.
	repairCost = 1152 + 640
	// mendBytes is what mending takes: a chunk's missing slices, the codes used lately, and the sets' table.
	mendBytes = 192 << 10
)

// mender makes missing slices from repair slices. It is a machine without clock and lock.
type mender struct {
	held   int                        // repair slices, in all
	sets   *[slicePipeline]*repairSet // by id modulo length; nil before the first
	coders coders
	memory []byte // of one chunk's missing slices

	mended uint64 // slices made
	spare  uint64 // repair slices that were not needed
}

// repairSet is what came to repair one chunk.
type repairSet struct {
	repairSlice // the first
	shards      [maxParity][]byte
	have        int
}

// add takes a repair slice, and reports whether it made a message whole.
func (m *mender) add(now time.Time, r repairSlice, b *sliceInbox) (whole bool) {
	if !b.misses(r.id) {
		m.spare++
		return false
	}
	if m.sets == nil {
		m.sets = new([slicePipeline]*repairSet)
	}
	place := &m.sets[r.id%slicePipeline]
	if *place == nil || (*place).id != r.id {
		m.drop(r.id, b.account)
		*place = &repairSet{repairSlice: r}
		(*place).shard = nil // it lies in the packet
	}
	set := *place
	switch {
	case set.count != r.count || set.parity != r.parity || set.last != r.last:
		b.malformed++
		return false
	case set.shards[r.index] != nil:
		return false
	case m.held == maxHeldRepairs || !b.account.borrow(repairCost):
		b.refused++
		return false
	}
	set.shards[r.index] = append([]byte(nil), r.shard...)
	set.have++
	m.held++
	return m.mend(now, r.id, b)
}

// mend makes the slices that a chunk misses, when enough others are there. It is called after each slice, too, for that may
// be the one that was missing, and when all are there the repair slices are of no use.
func (m *mender) mend(now time.Time, id uint16, b *sliceInbox) (whole bool) {
	if m.sets == nil {
		return false
	}
	set := m.sets[id%slicePipeline]
	if set == nil || set.id != id {
		return false
	}
	data, have := b.partial(id)
	got := have.Acked.Count()
	switch {
	case !b.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		m.spare += uint64(set.have)
		m.drop(id, b.account)
		return false
	case got+set.have < set.count:
		return false
	}
	defer m.drop(id, b.account)
	if !m.equip(b.account) {
		b.refused += uint64(set.have)
		return false
	}
	code, err := m.coders.get(set.count, set.parity)
	if err != nil {
		return false
	}
	shards := m.gather(set, data, have)
	if code.ReconstructData(shards) != nil {
		return false
	}
	for i := range set.count {
		if !have.Acked.Has(i) {
			m.mended++
			s := chunk.Slice{ChunkID: id, Index: i, Count: set.count, Data: set.cut(i, shards[i])}
			whole = b.add(now, s) || whole
		}
	}
	return whole
}

// cut takes from the last slice what it is filled up with.
func (s *repairSet) cut(i int, shard []byte) []byte {
	if i == s.count-1 {
		return shard[:s.last]
	}
	return shard
}

// gather returns all shards of a chunk; the missing ones are empty, with room.
func (m *mender) gather(set *repairSet, data []byte, have chunk.Ack) [][]byte {
	shards, free := make([][]byte, set.count+set.parity), m.memory
	for i := range set.count {
		last := i == set.count-1
		if have.Acked.Has(i) && !last {
			shards[i] = data[i*sliceBytes : (i+1)*sliceBytes]
			continue
		}
		shards[i], free = free[:0:sliceBytes], free[sliceBytes:]
		if have.Acked.Has(i) {
			n := copy(shards[i][:sliceBytes], data[i*sliceBytes:][:set.last])
			shards[i] = shards[i][:sliceBytes]
			clear(shards[i][n:])
		}
	}
	copy(shards[set.count:], set.shards[:set.parity])
	return shards
}

// equip makes the memory to mend with, if there is room for it. Without it lost slices come again.
func (m *mender) equip(account *account) bool {
	if m.memory == nil {
		if !account.borrow(mendBytes) {
			return false
		}
		m.memory = make([]byte, (maxParity+1)*sliceBytes)
	}
	return true
}

// trim gives up spare memory. What waits to repair a chunk stays.
func (m *mender) trim(account *account) {
	if m.memory != nil {
		account.repay(mendBytes)
	}
	m.coders, m.memory = nil, nil
}

// drop forgets what came to repair the chunk in the place of that id.
func (m *mender) drop(id uint16, account *account) {
	place := &m.sets[id%slicePipeline]
	if *place != nil {
		account.repay(int64((*place).have) * repairCost)
		m.held -= (*place).have
		*place = nil
	}
}
