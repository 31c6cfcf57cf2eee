package control

import (
	"encoding/binary"

	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/wire"
)

// If both sides have the feature, channel 0 carries messages about sealed carriers after Join. A
// connection's carriers, also called instances, are numbered. In each message, n is the number of
// the carrier. Welcome and Join open instance 1, and the client opens later ones, one at a time:
//
//	SealedOpen n       client → server   open carrier n; a server may refuse with SealedShut n
//	SealedAsk n        either            ask for spare ids, for changes of an address
//	SealedIDs n, ids   either            the answer to SealedAsk n
//	SealedShut n       either            the sender no longer has carrier n
//
// A message about an instance that has ended is ignored, because its sender may not have known
// that.
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
	Kind     byte        // one of the IDs above
	Instance uint32      // counts from 1
	IDs      []sealed.ID // spare connection IDs, 1 to maxSealedIDs; only in a SealedIDs
}

// AppendSealed appends the message with the given ID, which must be one of the four IDs above.
// Only a SealedIDs has ids.
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

// parseSealed returns the parser for the message with the given ID.
func parseSealed(id byte) func(r *wire.Reader) any {
	return func(r *wire.Reader) any {
		m := Sealed{Kind: id, Instance: uint32(r.Positive(1<<32-1, "instance is 0"))}
		if id != IDSealedIDs {
			return m
		}
		for range r.Positive(maxSealedIDs, "no IDs") {
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
