package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	idBytes = 8
	// firstIDs is the number of each end's ids that both ends know from the start: one to use and
	// three spares. An end asks for more when fewer than two spares are left (see
	// control.Instances), so it has one even if an address changes before the answer arrives.
	firstIDs = 4

	idLabel = "EXPORTER-quiver-sealed-id-1"
)

// An ID is a connection ID. Each packet has one, which identifies the end of a carrier to which
// the packet is sent. IDs are random or derived from a secret, so an attacker off the path can't
// guess one, and an observer can't tell that two of them belong to the same carrier (RFC 9000,
// section 5.1).
type ID [idBytes]byte

// exportIDs derives the first ids for one direction of a carrier. Both ends derive them from the
// TLS connection, so they needn't be sent.
func exportIDs(export Exporter, instance uint32, d direction) ([]ID, error) {
	context := append(binary.BigEndian.AppendUint32(nil, instance), byte(d))
	b, err := export(idLabel, context, firstIDs*idBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: deriving connection IDs of carrier %d: %w", instance, err)
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
