package control

import (
	"encoding/binary"

	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/wire"
)

// The messages about sealed carriers travel on channel 0 after Join, if both ends have the feature. Instance 1 begins with Welcome and
// Join; the client opens the later ones, one at a time:
//
//	client                      server
//	SealedOpen n              →                        or the answer is SealedShut n
//	SealedAsk n            ↔    SealedIDs n, ids       spare ids, for changes of an address
//	SealedShut n           ↔                        no carrier n here any more
//
// A message about an instance that is over is ignored: it crossed the end.
const (
	IDSealedOpen = 32
	IDSealedShut = 33
	IDSealedAsk  = 34
	IDSealedIDs  = 35
)

// maxSealedIDs is the most ids in one message.
const maxSealedIDs = 8

// Sealed is a message about sealed carriers.
type Sealed struct {
	Kind     byte // one of the four ids
	Instance uint32
	IDs      []sealed.ID // spare ones; only a SealedIDs has some
}

// AppendSealed appends a message with one of the four ids. Only a SealedIDs has ids.
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

// parseSealed returns the function that parses messages with one of the four ids.
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

func readID(r *wire.Reader) (id sealed.ID) {
	copy(id[:], r.Take(len(id)))
	return id
}
