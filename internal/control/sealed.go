package control

import (
	"encoding/binary"

	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/wire"
)

// Messages about sealed carriers are sent on channel 0 after Join if both ends have the
// feature. n is the instance, the number of a carrier within its connection. Welcome and Join
// open instance 1. The client opens the later ones, one at a time:
//
//	SealedOpen n       client → server   open carrier n; a server that refuses answers SealedShut n
//	SealedAsk n        either            ask for spare ids, for changes of an address
//	SealedIDs n, ids   either            the answer to SealedAsk n
//	SealedShut n       either            the sender has no carrier n any more
//
// A message about an instance that has ended is ignored, because its sender did not know of
// the end.
const (
	IDSealedOpen = 32
	IDSealedShut = 33
	IDSealedAsk  = 34
	IDSealedIDs  = 35
)

// maxSealedIDs is the maximum number of IDs in a SealedIDs.
const maxSealedIDs = 8

// Sealed is a message about sealed carriers.
type Sealed struct {
	Kind     byte        // one of the four message IDs
	Instance uint32      // counts from 1
	IDs      []sealed.ID // spare connection IDs: 1 to maxSealedIDs in a SealedIDs, none in other messages
}

// AppendSealed appends the message with the given ID, one of the four above. Only a SealedIDs
// has ids.
func AppendSealed(b []byte, id byte, instance uint32, ids ...sealed.ID) []byte {
	b = binary.AppendUvarint(append(b, id), uint64(instance))
	if id == IDSealedIDs {
		b = append(b, byte(len(ids)))
	}
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// parseSealed returns the function that parses the message with the given ID, one of the four
// above.
func parseSealed(id byte) func(r *wire.Reader) any {
	return func(r *wire.Reader) any {
		m := Sealed{Kind: id, Instance: uint32(r.Positive(1<<32-1, "instances count from 1"))}
		if id != IDSealedIDs {
			return m
		}
		for range r.Positive(maxSealedIDs, "there are no ids") {
			m.IDs = append(m.IDs, readID(r))
		}
		return m
	}
}

// readID reads a connection ID.
func readID(r *wire.Reader) (id sealed.ID) {
	copy(id[:], r.Take(len(id)))
	return id
}
