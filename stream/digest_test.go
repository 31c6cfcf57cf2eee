package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigests(t *testing.T) {
	sum := sha256.Sum256([]byte("abc"))
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), SHA256.Of([]byte("abc")).String())
	require.Equal(t, "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", BLAKE3.Of(nil).String())
	require.Equal(t, "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85", BLAKE3.Of([]byte("abc")).String())
	require.NotEqual(t, SHA256.Of(nil), BLAKE3.Of(nil))

	for _, a := range []Algorithm{SHA256, BLAKE3} {
		h := a.New()
		_, _ = h.Write([]byte("a"))
		require.Equal(t, a.Of([]byte("a")), h.Digest())
		_, _ = h.Write([]byte("bc"))
		d := h.Digest()
		require.Equal(t, a.Of([]byte("abc")), d)
		require.Equal(t, a, d.Algorithm())
		require.LessOrEqual(t, len(d.String()), maxKeyBytes)
		got, err := ParseDigest(d.String())
		require.NoError(t, err)
		require.True(t, got == d)
	}
	require.PanicsWithValue(t, "stream: algorithm 0 is unknown", func() { Algorithm(0).New() })
	require.PanicsWithValue(t, "stream: algorithm 7 is unknown", func() { Algorithm(7).New() })
	require.ElementsMatch(t, []Algorithm{SHA256, BLAKE3}, fastest())
	require.True(t, NoDigest.Of([]byte("abc")).IsZero())
	require.Equal(t, "NoDigest", NoDigest.String())
}

func TestDigestsInText(t *testing.T) {
	type named struct{ Digest Digest }
	for _, d := range []Digest{{}, SHA256.Of(nil), BLAKE3.Of([]byte("x"))} {
		text, err := json.Marshal(named{d})
		require.NoError(t, err)
		require.Contains(t, string(text), `"`+d.String()+`"`)
		got := named{BLAKE3.Of([]byte("other"))}
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, d, got.Digest)
	}
	good := SHA256.Of(nil).String()
	zero := strings.Repeat("00", digestBytes)
	for _, bad := range []string{"", ":", "sha256", "sha256:", good[7:], good[:70], good + "0", strings.ToUpper(good), "sha256:" + strings.ToUpper(good[7:]),
		"sha256:" + strings.Repeat("g", 64), "algorithm 0:" + zero, ":" + zero, "md5:" + zero, "NoDigest:" + zero, " " + good} {
		_, err := ParseDigest(bad)
		require.Error(t, err, bad)
	}
	_, err := ParseDigest("sha256:" + zero)
	require.NoError(t, err, "a digest of zeros is one")
}

func FuzzParseDigest(f *testing.F) {
	f.Add(BLAKE3.Of(nil).String())
	f.Add("sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDigest(text); err == nil {
			require.Equal(t, text, d.String())
			require.False(t, d.IsZero())
		}
	})
}
