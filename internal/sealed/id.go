package sealed

import "crypto/rand"

const idBytes = 8

// ID names the receiving end of a carrier in a packet. It is random, so that nobody off the path can guess one and an
// observer cannot connect two.
type ID [idBytes]byte

// NewID draws an id.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	return id
}
