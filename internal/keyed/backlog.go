package keyed

import (
	"encoding/binary"
	"slices"
)

const (
	// censusBit marks a census in a list of numbers. The numbers of items are smaller.
	censusBit = 1 << 31
	// censusItemSpace is the number of bytes of an update for each item of a census. An item takes
	// 1 to 5 bytes and the head 4 to 13, so a census always fits into an update, and one with as
	// many items as possible takes more than an eighth of it.
	censusItemSpace = 8
)

// Items is the part of a [Source] that a [Backlog] uses, for any types of keys and values.
type Items interface {
	Numbers(into []uint32) []uint32
	AppendItem(b []byte, number uint32) []byte
}

// A Backlog holds the items of a list whose newest values one client may lack, except those that
// are in flight to it, in the order in which they will be sent.
//
// It can also contain a census, which lists all items that exist in a range of numbers, so that
// the client removes any others. The zero Backlog is empty.
type Backlog struct {
	numbers []uint32            // with censusBit set for a census that begins at that number
	has     map[uint32]struct{} // the same numbers; nil until Add needs it
}

// Add adds the numbers of items and censuses that aren't in the backlog yet.
func (bl *Backlog) Add(numbers []uint32) {
	if bl.has == nil {
		bl.has = make(map[uint32]struct{}, len(bl.numbers)+len(numbers))
		for _, n := range bl.numbers {
			bl.has[n] = struct{}{}
		}
	}
	for _, n := range numbers {
		if _, ok := bl.has[n]; !ok {
			bl.has[n] = struct{}{}
			bl.numbers = append(bl.numbers, n)
		}
	}
}

// AddAll adds all items of a list. If census is true, it puts a census before them, because the
// client may still have items that were removed.
func (bl *Backlog) AddAll(list Items, census bool) {
	var numbers []uint32
	if census {
		numbers = append(numbers, censusBit)
	}
	numbers = list.Numbers(numbers)
	if bl.Empty() {
		// Usually the backlog is empty, so it needs no map. This must be cheap, because a client
		// may ask for all lists once a second.
		bl.numbers = numbers
		bl.has = nil
		return
	}
	bl.Add(numbers)
}

// Empty reports whether the backlog is empty.
func (bl *Backlog) Empty() bool { return len(bl.numbers) == 0 }

// Take removes items from the front of the backlog and appends them to b, and their numbers to
// taken. It takes at least one item, and more as long as b doesn't exceed limit bytes. If the
// message is lost, the caller must add the numbers again.
//
// Take stops after maxCensuses censuses, because a client accepts no more. More may be due if
// several messages were lost and the list has become short since.
func (bl *Backlog) Take(b []byte, taken []uint32, list Items, limit int) ([]byte, []uint32) {
	n, censuses := 0, 0
	for ; n < len(bl.numbers); n++ {
		if bl.numbers[n]&censusBit != 0 {
			censuses++
			if censuses > maxCensuses {
				break
			}
		}
		before := len(b)
		b = bl.appendNumber(b, list, bl.numbers[n], limit)
		if len(b) > limit && n > 0 {
			b = b[:before]
			break
		}
	}
	taken = append(taken, bl.numbers[:n]...)
	for _, number := range bl.numbers[:n] {
		delete(bl.has, number)
	}
	bl.numbers = slices.Delete(bl.numbers, 0, n)
	return b, taken
}

// appendNumber appends an item or a census. If the list is too long for one census, it also adds
// another one to the backlog, which begins where this one ends.
func (bl *Backlog) appendNumber(b []byte, list Items, number uint32, limit int) []byte {
	if number&censusBit == 0 {
		return list.AppendItem(b, number)
	}
	first := number &^ censusBit
	numbers := list.Numbers(nil)
	at, _ := slices.BinarySearch(numbers, first)
	numbers = numbers[at:]
	last := uint32(censusBit - 1) // the end of the list
	if n := max(1, limit/censusItemSpace); len(numbers) > n {
		numbers = numbers[:n]
		last = numbers[n-1]
		bl.Add([]uint32{censusBit | (last + 1)})
	}
	return appendCensus(b, first, last, numbers)
}

// appendCensus appends a census, according to which only the items in numbers exist of all items
// from first to last.
func appendCensus(b []byte, first, last uint32, numbers []uint32) []byte {
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
