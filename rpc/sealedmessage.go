package rpc

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
	idSealedOpen = 32
	idSealedShut = 33
	idSealedAsk  = 34
	idSealedIDs  = 35
)

var sealedNames = map[byte]string{
	idSealedOpen: "SealedOpen", idSealedShut: "SealedShut", idSealedAsk: "SealedAsk", idSealedIDs: "SealedIDs",
}

// maxSealedIDs is how many ids a message may hold.
const maxSealedIDs = 8

// sealedOpen opens an instance.
type sealedOpen struct{ Instance uint32 }

// sealedIDs answers sealedAsk.
type sealedIDs struct {
	Instance uint32
	IDs      []sealed.ID
}

type sealedShut struct{ Instance uint32 }

type sealedAsk struct{ Instance uint32 }

// appendSealed appends a message that names an instance, and the ids that some have.
func appendSealed(b []byte, id byte, instance uint32, ids ...sealed.ID) []byte {
	b = binary.AppendUvarint(append(b, id), uint64(instance))
	if id == idSealedIDs {
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
	case idSealedOpen:
		return sealedOpen{parseInstance(r)}
	case idSealedIDs:
		return sealedIDs{parseInstance(r), parseIDs(r)}
	case idSealedShut:
		return sealedShut{parseInstance(r)}
	case idSealedAsk:
		return sealedAsk{parseInstance(r)}
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
