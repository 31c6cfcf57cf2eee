package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	idBytes = 8
	// firstIDs is the number of each end's ids that both ends know when a carrier begins:
	// one to use and three spares. An end asks for more when fewer than two spares are left
	// (control.Instances). One is then left if an address changes before the answer
	// arrives.
	firstIDs = 4

	idLabel = "EXPORTER-quiver-sealed-id-1"
)

// An ID in a packet identifies the end of a carrier that receives the packet. It is random
// or derived from a secret. An attacker off the path therefore cannot guess one, and an
// observer cannot tell that two ids belong to one carrier (RFC 9000, section 5.1).
type ID [idBytes]byte

// exportIDs derives the first ids of one direction of a carrier from the TLS connection, so
// neither end has to send them.
func exportIDs(export Exporter, instance uint32, d direction) ([]ID, error) {
	context := append(binary.BigEndian.AppendUint32(nil, instance), byte(d))
	b, err := export(idLabel, context, firstIDs*idBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: ids of carrier %d: %w", instance, err)
	}
	ids := make([]ID, firstIDs)
	for i := range ids {
		ids[i] = ID(b[i*idBytes:])
	}
	return ids, nil
}

// NewID returns a random id.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	return id
}
