package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
)

// A suite holds the algorithms that seal a carrier's packets. We use the suite that TLS has
// negotiated, since both ends chose it for speed. On a machine without AES instructions,
// AES-GCM takes 12 µs to seal a packet, whereas ChaCha20 takes a fraction of that.
type suite struct {
	keyBytes int
	aead     func(key []byte) (cipher.AEAD, error)
	masker   func(key []byte) (masker, error)
}

// A masker computes the bits that mask a packet number, from a sample of the sealed bytes (RFC
// 9001, section 5.4).
type masker func(bits *[maskBytes]byte, sample []byte)

// The suites of TLS 1.3 (RFC 8446, appendix B.4) that QUIC may use (RFC 9001, section 5.3) and
// that Go supports.
var (
	aes128 = &suite{keyBytes: 16, aead: newGCM, masker: newAESMasker}
	aes256 = &suite{keyBytes: 32, aead: newGCM, masker: newAESMasker}
	chacha = &suite{keyBytes: chacha20poly1305.KeySize, aead: chacha20poly1305.New, masker: newChaChaMasker}
)

// suiteOf returns the suite with the given TLS 1.3 id. 0 means AES-128, for a SessionConfig
// that doesn't set CipherSuite.
func suiteOf(id uint16) (*suite, error) {
	switch id {
	case 0, tls.TLS_AES_128_GCM_SHA256:
		return aes128, nil
	case tls.TLS_AES_256_GCM_SHA384:
		return aes256, nil
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return chacha, nil
	}
	return nil, fmt.Errorf("sealed: unsupported cipher suite %s", tls.CipherSuiteName(id))
}

// newGCM returns AES-GCM with a key of 16 or 32 bytes.
func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// newAESMasker returns the masker of RFC 9001, section 5.4.3: AES of the sample.
func newAESMasker(key []byte) (masker, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return func(bits *[maskBytes]byte, sample []byte) { block.Encrypt(bits[:], sample) }, nil
}

// newChaChaMasker returns the masker of RFC 9001, section 5.4.4: ChaCha20 of zeros, with the
// sample as counter and nonce.
func newChaChaMasker(key []byte) (masker, error) {
	if len(key) != chacha20.KeySize {
		return nil, fmt.Errorf("sealed: ChaCha20 key has %d bytes; it must have %d", len(key), chacha20.KeySize)
	}
	return func(bits *[maskBytes]byte, sample []byte) {
		c, err := chacha20.NewUnauthenticatedCipher(key, sample[4:])
		if err != nil {
			panic(err) // unreachable: both lengths are fixed
		}
		c.SetCounter(binary.LittleEndian.Uint32(sample))
		*bits = [maskBytes]byte{}
		c.XORKeyStream(bits[:], bits[:])
	}, nil
}
