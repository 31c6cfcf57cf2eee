package rpc

import (
	"encoding/binary"
	"slices"

	"github.com/quivernet/quiver/internal/state"
)

// lacking are the items of a list that a client may not have as they are now, and that are not on their way; in the order in which
// they shall go. A number with rosterBit stands for a roster from that number on.
type lacking struct {
	numbers []uint32
	has     map[uint32]struct{}
}

func (m *lacking) add(numbers []uint32) {
	if m.has == nil {
		m.has = make(map[uint32]struct{}, len(numbers))
	}
	for _, n := range numbers {
		if _, ok := m.has[n]; !ok {
			m.has[n] = struct{}{}
			m.numbers = append(m.numbers, n)
		}
	}
}

// take removes the first n.
func (m *lacking) take(n int) {
	for _, number := range m.numbers[:n] {
		delete(m.has, number)
	}
	m.numbers = slices.Delete(m.numbers, 0, n)
}

// listFields returns the fields that are lists.
func (c *Class) listFields() (fields state.Mask) {
	if c.lists == 0 {
		return 0
	}
	for _, d := range c.states {
		if d.isList() {
			fields |= d.mask()
		}
	}
	return fields
}

// markLists notes that the client may lack all items. roster: it may also have some that are gone.
func (o *opening) markLists(roster bool) {
	if o.actor.class.lists == 0 || o.actor.replicas == nil {
		return
	}
	o.lists = make([]lacking, o.actor.class.lists)
	for _, r := range o.actor.replicas {
		if list, ok := r.(keeper); ok {
			m := &o.lists[list.declaration().list]
			if roster {
				m.add([]uint32{rosterBit})
			}
			m.add(list.numbers(nil))
		}
	}
}

// appendList appends an update of the first list that lacks something, and notes in sent what it holds.
func (o *opening) appendList(b []byte, sent *sentState) []byte {
	for _, r := range o.actor.replicas {
		list, ok := r.(keeper)
		if !ok || o.lacks&list.declaration().mask() == 0 {
			continue
		}
		d, m := list.declaration(), &o.lists[list.declaration().list]
		sent.fields = d.mask()
		b = state.AppendMask(b, sent.fields, o.actor.class.fields)
		n := 0
		for ; n < len(m.numbers); n++ {
			whole := len(b)
			if b = m.append(b, list, m.numbers[n]); len(b) > o.conn.maxUpdate() && n > 0 {
				b = b[:whole]
				break
			}
		}
		sent.items = append(sent.items, m.numbers[:n]...)
		if m.take(n); len(m.numbers) == 0 {
			o.lacks &^= sent.fields
		}
		return b
	}
	return b
}

const (
	// rosterBit marks what is no item: those have smaller numbers.
	rosterBit = 1 << 31
	// rosterItems are in one roster at most: each takes 1 to 5 bytes, so that it fits a message.
	rosterItems = 200
)

// append appends an item, or a roster, behind which the next one is lacking.
func (m *lacking) append(b []byte, list keeper, number uint32) []byte {
	if number&rosterBit == 0 {
		return list.appendItem(b, number)
	}
	first := number &^ rosterBit
	numbers := list.numbers(nil)
	at, _ := slices.BinarySearch(numbers, first)
	numbers = numbers[at:]
	last := uint32(rosterBit - 1)
	if len(numbers) > rosterItems {
		numbers = numbers[:rosterItems]
		last = numbers[rosterItems-1]
		m.add([]uint32{rosterBit | (last + 1)})
	}
	return appendRoster(b, first, last, numbers)
}

// appendRoster appends that of the items from first to last only these are there.
func appendRoster(b []byte, first, last uint32, numbers []uint32) []byte {
	b = append(b, 0)
	for _, v := range []uint32{first, last, uint32(len(numbers))} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n-first))
		first = n
	}
	return b
}
