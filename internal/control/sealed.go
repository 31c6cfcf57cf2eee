package control

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/sealed"
)

// Messages of the sealed carrier travel on channel 0 after Join, when both ends have the feature. Instance 1 begins with
// Welcome and Join; the client opens those that follow, one at a time:
//
//	client                      server
//	SealedOpen n              →                        or the answer is SealedShut n
//	SealedAsk n            ↔    SealedIDs n, ids       spare ids, for changes of an address
//	SealedShut n           ↔                        no carrier n here any more
//
// A message of an instance that has passed is ignored: it crossed the end.
const (
	IDSealedOpen = 32
	IDSealedShut = 33
	IDSealedAsk  = 34
	IDSealedIDs  = 35
)

var sealedNames = map[byte]string{
	IDSealedOpen: "SealedOpen", IDSealedShut: "SealedShut", IDSealedAsk: "SealedAsk", IDSealedIDs: "SealedIDs",
}

// maxSealedIDs is how many ids a message may hold.
const maxSealedIDs = 8

// SealedOpen opens an instance.
type SealedOpen struct{ Instance uint32 }

// SealedIDs answers SealedAsk with spare ids.
type SealedIDs struct {
	Instance uint32
	IDs      []sealed.ID
}

// SealedShut says that its sender has no carrier of that instance any more.
type SealedShut struct{ Instance uint32 }

// SealedAsk asks for spare ids.
type SealedAsk struct{ Instance uint32 }

// AppendSealed appends a message that names an instance, and the ids that some have.
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

// parseSealed returns nil for an id that is none of the sealed carrier.
func parseSealed(id byte, r *reader) any {
	switch id {
	case IDSealedOpen:
		return SealedOpen{parseInstance(r)}
	case IDSealedIDs:
		return SealedIDs{parseInstance(r), parseIDs(r)}
	case IDSealedShut:
		return SealedShut{parseInstance(r)}
	case IDSealedAsk:
		return SealedAsk{parseInstance(r)}
	}
	return nil
}

func parseInstance(r *reader) uint32 {
	n := r.uvarint(1<<32 - 1)
	if r.err == nil && n == 0 {
		r.fail(fmt.Errorf("instances count from 1"))
	}
	return uint32(n)
}

func parseIDs(r *reader) []sealed.ID {
	n := r.uvarint(maxSealedIDs)
	if r.err == nil && n == 0 {
		r.fail(fmt.Errorf("there are no ids"))
	}
	var ids []sealed.ID
	for range n {
		var id sealed.ID
		copy(id[:], r.take(len(id)))
		ids = append(ids, id)
	}
	return ids
}
