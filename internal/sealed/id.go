package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	idBytes = 8
	// firstIDs are the ids that both ends know when a carrier begins: one to use and three spares.
	firstIDs = 4

	idLabel = "EXPORTER-quiver-sealed-id-1"
)

// ID names the receiving end of a carrier in a packet. It is random, or derived from a secret, so that nobody off the path
// can guess one and an observer cannot connect two.
type ID [idBytes]byte

// exportIDs derives the first ids under which one direction of a carrier arrives: so none has to be told.
func exportIDs(export Exporter, instance uint32, d Direction) ([]ID, error) {
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

// NewID draws an id.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	return id
}
