package sealed

import (
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// suites are all that a TLS connection may bring.
var suites = map[uint16]*suite{
	tls.TLS_AES_128_GCM_SHA256:       aes128,
	tls.TLS_AES_256_GCM_SHA384:       aes256,
	tls.TLS_CHACHA20_POLY1305_SHA256: chacha,
}

func eachSuite(t *testing.T, fn func(t *testing.T, id uint16, s *suite)) {
	for id, s := range suites {
		t.Run(tls.CipherSuiteName(id), func(t *testing.T) { fn(t, id, s) })
	}
}

func TestSuiteOf(t *testing.T) {
	eachSuite(t, func(t *testing.T, id uint16, s *suite) {
		got, err := suiteOf(id)
		require.NoError(t, err)
		require.Same(t, s, got)
	})
	_, err := suiteOf(tls.TLS_RSA_WITH_AES_128_CBC_SHA)
	require.ErrorContains(t, err, "TLS_RSA_WITH_AES_128_CBC_SHA")
	_, err = NewSession(SessionConfig{Exporter: export("tls"), CipherSuite: tls.TLS_RSA_WITH_AES_128_CBC_SHA})
	require.Error(t, err)
}

// TestSuitesSeal: what one end seals the other opens, in every generation, and
// no byte of it may change.
func TestSuitesSeal(t *testing.T) {
	eachSuite(t, func(t *testing.T, _ uint16, s *suite) {
		tb := newTubeOf(t, s)
		var packet []byte
		for n := uint64(0); n < 3; n++ {
			number := n << (generationBits - 1)
			packet = tb.packet(number, fmt.Sprint("packet ", n))
			require.Equal(t, fmt.Sprint("packet ", n), tb.take(packet))
		}
		require.Equal(t, "replay", tb.take(packet))
		packet = tb.packet(1<<generationBits+1, "genuine")
		packet[len(packet)-1] ^= 1
		require.Equal(t, "forged", tb.take(packet))
	})
}

// TestMaskVectors are the samples of RFC 9001, appendices A.2 and A.5.
func TestMaskVectors(t *testing.T) {
	for _, c := range []struct {
		s                 *suite
		key, sample, mask string
	}{
		{aes128, "9f50449e04a0e810283a1e9933adedd2", "d1b1c98dd7689fb8ec11d242b123dc9b", "437b9aec36"},
		{chacha, "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4", "5e5cd55c41f69080575d7999c25a5bfb", "aefefe7d03"},
	} {
		key, err := hex.DecodeString(c.key)
		require.NoError(t, err)
		sample, err := hex.DecodeString(c.sample)
		require.NoError(t, err)
		m, err := c.s.masker(key)
		require.NoError(t, err)
		var bits [maskBytes]byte
		m(&bits, sample)
		require.Equal(t, c.mask, hex.EncodeToString(bits[:len(c.mask)/2]))
	}
}

func TestSuitesAllocateNothing(t *testing.T) {
	eachSuite(t, func(t *testing.T, _ uint16, s *suite) {
		tb := newTubeOf(t, s)
		buf, number := make([]byte, 0, FullPacket), uint64(0)
		require.Zero(t, testkit.Allocs(1000, func() {
			head := appendHeader(buf, ID{1}, number)
			packet, err := tb.seal(head[:FullPacket-tagBytes], number)
			require.NoError(t, err)
			require.Equal(t, dropNone, tb.accept(tb.open(packet)))
			number++
		}))
	})
}
