package rpc

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/raw"
)

// Messages of the raw carrier travel on channel 0 after Join, when both ends have the feature. The client opens
// instances, 1 and up, one at a time:
//
//	client                      server
//	RawOpen n, ids         →
//	                       ←    RawOpen n, ids      or RawShut n
//	RawAsk n               ↔    RawIDs n, ids       spare ids, for changes of the local address
//	RawShut n              ↔                        no carrier n here any more
//	                       ←    RawWant n           the server has use for one after n
//	RawPing                ↔                        nothing; QUIC acks it
//
// A message of an instance that has passed is ignored: it crossed the end.
const (
	idRawOpen = 32
	idRawShut = 33
	idRawWant = 34
	idRawAsk  = 35
	idRawIDs  = 36
	idRawPing = 37
)

var rawNames = map[byte]string{
	idRawOpen: "RawOpen", idRawShut: "RawShut", idRawWant: "RawWant", idRawAsk: "RawAsk", idRawIDs: "RawIDs", idRawPing: "RawPing",
}

// maxRawIDs is how many ids a message may hold.
const maxRawIDs = 8

// rawOpen opens an instance, or answers that.
type rawOpen struct {
	Instance uint32
	IDs      []raw.ID
}

// rawIDs answers rawAsk.
type rawIDs struct {
	Instance uint32
	IDs      []raw.ID
}

type rawShut struct{ Instance uint32 }

type rawWant struct{ Instance uint32 }

type rawAsk struct{ Instance uint32 }

type rawPing struct{}

// appendRaw appends a message that names an instance, and the ids that some have.
func appendRaw(b []byte, id byte, instance uint32, ids ...raw.ID) []byte {
	b = binary.AppendUvarint(append(b, id), uint64(instance))
	if id == idRawOpen || id == idRawIDs {
		b = append(b, byte(len(ids)))
	}
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// parseRaw returns nil for an id that is none of the raw carrier.
func parseRaw(id byte, r *reader) any {
	switch id {
	case idRawOpen:
		return rawOpen{parseInstance(r), parseIDs(r)}
	case idRawIDs:
		return rawIDs{parseInstance(r), parseIDs(r)}
	case idRawShut:
		return rawShut{parseInstance(r)}
	case idRawWant:
		return rawWant{parseInstance(r)}
	case idRawAsk:
		return rawAsk{parseInstance(r)}
	case idRawPing:
		return rawPing{}
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

func parseIDs(r *reader) []raw.ID {
	n := r.uvarint(maxRawIDs)
	if r.err == nil && n == 0 {
		r.fail(fmt.Errorf("there are no ids"))
	}
	var ids []raw.ID
	for range n {
		var id raw.ID
		copy(id[:], r.take(len(id)))
		ids = append(ids, id)
	}
	return ids
}
