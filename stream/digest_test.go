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
	require.PanicsWithValue(t, "stream: unknown algorithm 0", func() { Algorithm(0).New() })
	require.PanicsWithValue(t, "stream: unknown algorithm 7", func() { Algorithm(7).New() })
	require.ElementsMatch(t, []Algorithm{SHA256, BLAKE3}, fastestFirst())
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

// Keys that were meant as digests were once taken for plain names: content
// under them was compared with nothing, and nobody noticed.
func TestKeysThatAreNearlyDigests(t *testing.T) {
	good := SHA256.Of(nil).String()
	for _, key := range []string{good, BLAKE3.Of(nil).String(), "k", "", "slot:1", "sha:1", "shadow:12", "blake:tyger", "madam:1", "md:", good[7:], "save of " + good} {
		require.NoError(t, checkKey(key), key)
	}
	nearly := []string{strings.ToUpper(good), "sha256:" + strings.ToUpper(good[7:]), good[:70], good + "0", "sha256:", " " + good, "SHA-256:" + good[7:],
		"sha256:" + strings.Repeat("g", 64), "md5:d41d8cd98f00b204e9800998ecf8427e", "sha1:da39a3ee", "sha3-256:00", "blake2b:00", "Blake3:" + good[7:], "sha512:cf83"}
	inNetwork(t, setup{}, func(n *network) {
		got, gotItems := collect(n.client.streams), n.collectItems(n.client.streams)
		for _, key := range nearly {
			_, err := save.Start(n.server.peer, strings.NewReader("x"), 1, Key(key))
			require.ErrorContains(n, err, `stream: Key("`+key+`") is nearly the text of a digest`)
			_, err = items.Start(n.server.peer, testItems(1), Key(key))
			require.ErrorContains(n, err, `stream: Key("`+key+`") is nearly the text of a digest`)
		}

		t.Log("# a sender that knows more algorithms, or checks less, is refused by words, and its connection goes on")
		for _, key := range nearly {
			var transfer *Transfer
			n.do(n.server.world, func() {
				transfer = n.mustStart(n.server.peer, content(1000))
				transfer.header.key = key
			})
			err := transfer.Wait(n.ctx)
			require.ErrorIs(n, err, ErrRejected)
			require.ErrorContains(n, err, "nearly the text of a digest")
		}
		require.NoError(n, n.mustStart(n.server.peer, content(1000), Key("save of "+good)).Wait(n.ctx))
		require.NoError(n, (<-got).err)
		require.Empty(n, gotItems)
	})
}
