package keyed

import (
	"encoding/binary"
	"slices"
)

const (
	// censusBit marks a census in a list of numbers. The numbers of items are less.
	censusBit = 1 << 31
	// censusShare is how many bytes of an update we allow for each item of a census. Since an
	// item takes 1 to 5 bytes and the head 4 to 13, a census always fits into an update, and a
	// full one takes more than an eighth of it.
	censusShare = 8
)

// Items is what a [Lacking] needs of a [Source], whatever the types of its keys and values.
type Items interface {
	Numbers(into []uint32) []uint32
	AppendItem(b []byte, number uint32) []byte
}

// A Lacking is the backlog of a list's updates to one client: the items whose newest value the
// client may lack, except those that are in flight to it, in the order in which they will be
// sent.
//
// It can also contain a census, which is a list of all items that exist in a range of numbers. A
// client removes any others. The zero Lacking is empty.
type Lacking struct {
	numbers []uint32            // with censusBit set for a census that begins at that number
	has     map[uint32]struct{} // the same numbers; nil until Add needs it
}

// Add adds the numbers of items and censuses that are not in l yet.
func (l *Lacking) Add(numbers []uint32) {
	if l.has == nil {
		l.has = make(map[uint32]struct{}, len(l.numbers)+len(numbers))
		for _, n := range l.numbers {
			l.has[n] = struct{}{}
		}
	}
	for _, n := range numbers {
		if _, ok := l.has[n]; !ok {
			l.has[n] = struct{}{}
			l.numbers = append(l.numbers, n)
		}
	}
}

// AddAll adds all items of a list. If census is true, it puts a census before them, because the
// client may still have items that were removed.
func (l *Lacking) AddAll(list Items, census bool) {
	var numbers []uint32
	if census {
		numbers = append(numbers, censusBit)
	}
	numbers = list.Numbers(numbers)
	if l.Empty() {
		// Usually there is no backlog and we need no map. This must be cheap, because a client
		// may ask for all lists once a second.
		l.numbers = numbers
		l.has = nil
		return
	}
	l.Add(numbers)
}

// Empty reports whether l lists nothing.
func (l *Lacking) Empty() bool { return len(l.numbers) == 0 }

// Take removes items from the front of the backlog and appends them to b, and their numbers to
// taken. It takes at least one item, and more as long as b does not exceed most bytes. If the
// message is lost, the caller adds the numbers again.
//
// Take stops after maxCensuses censuses, because a reader accepts no more. More can be due if
// several messages were lost and the list has become short since.
func (l *Lacking) Take(b []byte, taken []uint32, list Items, most int) ([]byte, []uint32) {
	n, censuses := 0, 0
	for ; n < len(l.numbers); n++ {
		if l.numbers[n]&censusBit != 0 {
			censuses++
			if censuses > maxCensuses {
				break
			}
		}
		before := len(b)
		b = l.append(b, list, l.numbers[n], most)
		if len(b) > most && n > 0 {
			b = b[:before]
			break
		}
	}
	taken = append(taken, l.numbers[:n]...)
	for _, number := range l.numbers[:n] {
		delete(l.has, number)
	}
	l.numbers = slices.Delete(l.numbers, 0, n)
	return b, taken
}

// append appends an item or a census. A census of a long list covers only the next few items. In
// that case append adds another one to the backlog, which begins where this one ends.
func (l *Lacking) append(b []byte, list Items, number uint32, most int) []byte {
	if number&censusBit == 0 {
		return list.AppendItem(b, number)
	}
	first := number &^ censusBit
	numbers := list.Numbers(nil)
	at, _ := slices.BinarySearch(numbers, first)
	numbers = numbers[at:]
	last := uint32(censusBit - 1) // the end of the list
	if n := max(1, most/censusShare); len(numbers) > n {
		numbers = numbers[:n]
		last = numbers[n-1]
		l.Add([]uint32{censusBit | (last + 1)})
	}
	return appendCensus(b, first, last, numbers)
}

// appendCensus appends a census, which says that of all items from first to last, only those in
// numbers exist.
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
