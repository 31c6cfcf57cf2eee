package keyed

import (
	"encoding/binary"
	"slices"
)

const (
	// censusBit marks a census. Items have smaller numbers.
	censusBit = 1 << 31
	// censusShare is the number of bytes an update must have for each item of a census. An
	// item takes 1 to 5 bytes and the head 4 to 13. So a census fits into an update and, if
	// full, takes more than an eighth of it.
	censusShare = 8
)

// Items is the part of a [Source] that does not depend on its type parameters.
type Items interface {
	Numbers(into []uint32) []uint32
	AppendItem(b []byte, number uint32) []byte
}

// Lacking lists, for one client, the items whose current value the client may lack and that
// are not in flight to it. They are in the order in which they will be sent. A number with
// censusBit stands for a census that begins at that number.
type Lacking struct {
	numbers []uint32
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

// AddAll adds all items of a list. If census is true, the client may have items that were
// removed, so AddAll adds a census first.
func (l *Lacking) AddAll(list Items, census bool) {
	var numbers []uint32
	if census {
		numbers = append(numbers, censusBit)
	}
	numbers = list.Numbers(numbers)
	if l.Empty() {
		// The usual case needs no map. It must be cheap, because a client may ask for all lists
		// once a second.
		l.numbers = numbers
		l.has = nil
		return
	}
	l.Add(numbers)
}

// Empty reports whether l lists nothing.
func (l *Lacking) Empty() bool { return len(l.numbers) == 0 }

// Take removes the first items: at least one, and more while b has at most most bytes. It
// appends them to b and their numbers to taken. The caller adds the numbers again if the
// message is lost.
//
// Take stops at maxCensuses censuses, the maximum a reader accepts. More can be due if
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
		whole := len(b)
		b = l.append(b, list, l.numbers[n], most)
		if len(b) > most && n > 0 {
			b = b[:whole]
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

// append appends an item or a census. If a census does not reach the end of the list, append
// adds another one that begins after it.
func (l *Lacking) append(b []byte, list Items, number uint32, most int) []byte {
	if number&censusBit == 0 {
		return list.AppendItem(b, number)
	}
	first := number &^ censusBit
	numbers := list.Numbers(nil)
	at, _ := slices.BinarySearch(numbers, first)
	numbers = numbers[at:]
	last := uint32(censusBit - 1)
	if n := max(1, most/censusShare); len(numbers) > n {
		numbers = numbers[:n]
		last = numbers[n-1]
		l.Add([]uint32{censusBit | (last + 1)})
	}
	return appendCensus(b, first, last, numbers)
}

// appendCensus appends a census: of the items numbered first to last, only those in numbers
// exist.
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
