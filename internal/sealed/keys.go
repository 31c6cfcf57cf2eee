package sealed

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Exporter derives a secret from an established TLS connection:
// tls.ConnectionState.ExportKeyingMaterial.
type Exporter func(label string, context []byte, length int) ([]byte, error)

// A direction is one of the two directions of a carrier. Each has keys of its own.
type direction byte

const (
	toServer direction = iota
	toClient
)

const (
	exporterLabel = "EXPORTER-quiver-sealed-1"

	secretBytes = sha256.Size
	nonceBytes  = 12

	// A key is used for 2^generationBits packets. With packets of FullPacket bytes, that's
	// 2^29 blocks of data, and with packets of JumboPacket bytes, it's 2^31.1 blocks. Both are
	// below the 2^32.5 blocks at which AES-GCM loses its margin. ChaCha20 has no such limit
	// (RFC 9001, section 6.6).
	generationBits = 22
)

// A generation holds the key of 2^generationBits consecutive packet numbers.
type generation struct {
	suite  *suite
	index  uint64           // its packet numbers without the low generationBits bits
	secret []byte           // the next generation's secret is derived from it
	aead   cipher.AEAD      // with this generation's key
	iv     [nonceBytes]byte // XORed with the packet number to make the nonce
}

// firstKeys derives the first generation and the mask of one direction of a carrier. An
// instance must not be used twice on a connection.
func firstKeys(s *suite, export Exporter, instance uint32, d direction) (*generation, *mask, error) {
	context := append(binary.BigEndian.AppendUint32(nil, instance), byte(d))
	secret, err := export(exporterLabel, context, secretBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("sealed: exporting keys of carrier %d: %w", instance, err)
	}
	mask, err := newMask(s, secret)
	if err != nil {
		return nil, nil, err
	}
	first, err := newGeneration(s, 0, secret)
	return first, mask, err
}

// newGeneration derives a generation's key and iv from its secret.
func newGeneration(s *suite, index uint64, secret []byte) (*generation, error) {
	g := &generation{suite: s, index: index, secret: secret}
	key, err := hkdf.Expand(sha256.New, secret, "quiver sealed key", s.keyBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: deriving key: %w", err)
	}
	iv, err := hkdf.Expand(sha256.New, secret, "quiver sealed iv", nonceBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: deriving IV: %w", err)
	}
	copy(g.iv[:], iv)
	g.aead, err = s.aead(key)
	if err != nil {
		return nil, fmt.Errorf("sealed: making AEAD: %w", err)
	}
	return g, nil
}

// next derives the next generation. Whoever learns it can't compute g from it.
func (g *generation) next() (*generation, error) {
	secret, err := hkdf.Expand(sha256.New, g.secret, "quiver sealed next", secretBytes)
	if err != nil {
		return nil, fmt.Errorf("sealed: deriving next secret: %w", err)
	}
	return newGeneration(g.suite, g.index+1, secret)
}

// nonce sets n to the nonce of a packet: the iv XORed with the number (RFC 9001, section 5.3).
func (g *generation) nonce(n *[nonceBytes]byte, number uint64) {
	*n = g.iv
	low := n[nonceBytes-8:]
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)^number)
}
