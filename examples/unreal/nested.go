package main

import "github.com/quivernet/quiver/stream"

// A BoundedStruct is FMyStruct with its inner array at its maximum size.
//
// The tag is InnerArrayMaxSize, which determines the upper bound of the encoded size. NewArray
// panics without such a tag, and an element that exceeds it ends its transfer with
// stream.ErrTooLarge.
//
// Short inner arrays waste room, because an RPC has as many elements as fit at their
// maximum size.
type BoundedStruct struct {
	ID    uint32
	Inner []float32 `quiver:"max=100"`
}

// A Struct is FMyStruct with an inner array that is sent separately. Inner is how many of the next
// floats belong to it.
type Struct struct{ ID, Inner uint32 }

// sendNested sends elements with their inner arrays in both ways. A topic combines an RPC with its
// TickActor, on separate channels, so there is no order between topics.
func sendNested(peer *stream.Peer, all []BoundedStruct) (transfers []*stream.Transfer, err error) {
	bounded, err := Bounded.Start(peer, all)
	if err != nil {
		return nil, err
	}
	outer, inner := separate(all)
	structs, err := Structs.Start(peer, outer)
	if err != nil {
		return nil, err
	}
	floats, err := Floats.Start(peer, inner)
	return []*stream.Transfer{bounded, structs, floats}, err
}

// separate returns two arrays whose elements contain no arrays and therefore need no bound.
func separate(all []BoundedStruct) (structs []Struct, floats []float32) {
	for _, s := range all {
		structs = append(structs, Struct{ID: s.ID, Inner: uint32(len(s.Inner))})
		floats = append(floats, s.Inner...)
	}
	return structs, floats
}

// join reverses separate after both arrays have arrived. It checks each count before using it,
// because the counts come from the other end.
func join(structs []Struct, floats []float32) (all []BoundedStruct) {
	for _, s := range structs {
		n := int(min(int64(s.Inner), int64(len(floats))))
		all = append(all, BoundedStruct{ID: s.ID, Inner: floats[:n:n]})
		floats = floats[n:]
	}
	return all
}

// makeNested returns structs with inner arrays of all lengths from 0 to 100.
func makeNested(n int) []BoundedStruct {
	all := make([]BoundedStruct, n)
	for i := range all {
		all[i] = BoundedStruct{ID: uint32(i), Inner: make([]float32, i%101)}
		for j := range all[i].Inner {
			all[i].Inner[j] = float32(i * j)
		}
	}
	return all
}
