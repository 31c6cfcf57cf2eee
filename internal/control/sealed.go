package control

import (
	"encoding/binary"
	"errors"

	"github.com/quivernet/quiver/internal/sealed"
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

// SealedOpen is sent by a client that opens an instance.
type SealedOpen struct{ Instance uint32 }

// SealedIDs answers SealedAsk with spare ids.
type SealedIDs struct {
	Instance uint32
	IDs      []sealed.ID
}

// SealedShut is sent by an end that no longer has a carrier of that instance.
type SealedShut struct{ Instance uint32 }

// SealedAsk asks for spare ids of an instance.
type SealedAsk struct{ Instance uint32 }

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

// parseOf parses a message that has nothing but its instance.
func parseOf[T ~struct{ Instance uint32 }](r *reader) T { return T{readInstance(r)} }

func readInstance(r *reader) uint32 {
	n := r.uvarint(1<<32 - 1)
	if r.err == nil && n == 0 {
		r.fail(errors.New("instances count from 1"))
	}
	return uint32(n)
}

func parseIDs(r *reader) SealedIDs {
	m := SealedIDs{Instance: readInstance(r)}
	n := r.uvarint(maxSealedIDs)
	if r.err == nil && n == 0 {
		r.fail(errors.New("there are no ids"))
	}
	for range n {
		var id sealed.ID
		copy(id[:], r.take(len(id)))
		m.IDs = append(m.IDs, id)
	}
	return m
}
