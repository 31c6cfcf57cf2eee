package users

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
)

// A user was added who could own nothing: every request of his was refused for his name.
func TestEveryUserCanOwnVersions(t *testing.T) {
	for _, name := range []string{"x²", "Ⅷ", "½"} {
		if CheckUser(name) == nil {
			require.NoError(t, versions.CheckName(name), name)
		}
	}
}

// One user's open codes kept all others from having any.
func TestCodesOfOneUserAreInNobodysWay(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := NewCodes(func(_, _ string) (string, error) { return "token", nil }, always)
	for range 2 * maxCodes {
		_, _ = c.New("mallory", now)
	}
	_, err := c.New("ann", now)
	require.NoError(t, err)
}

// A login whose answer was lost left a token that nobody had, and was refused when it was tried again.
func TestALoginIsTriedAgain(t *testing.T) {
	now, made := time.Unix(1e9, 0), 0
	c := NewCodes(func(_, _ string) (string, error) { made++; return "token", nil }, always)
	code, err := c.New("ann", now)
	require.NoError(t, err)
	for range 2 {
		user, token, err := c.Redeem(code, "here", "pc", "her secret", now)
		require.NoError(t, err)
		require.Equal(t, []string{"ann", "token"}, []string{user, token})
	}
	require.Equal(t, 1, made)
	for _, secret := range []string{"", "another one"} {
		_, _, err = c.Redeem(code, "here", "pc", secret, now)
		require.ErrorIs(t, err, ErrCode, "nobody else has the token by the code")
	}
	_, _, err = c.Redeem(code, "here", "pc", "her secret", now.Add(codeLife))
	require.ErrorIs(t, err, ErrCode)

	code, err = c.New("ann", now)
	require.NoError(t, err)
	_, _, err = c.Redeem(code, "here", "pc", "", now)
	require.NoError(t, err)
	_, _, err = c.Redeem(code, "here", "pc", "", now)
	require.ErrorIs(t, err, ErrCode, "no secret is nobody's")
}

func always() (func(string) bool, error) { return func(string) bool { return true }, nil }

// Each wrong code had the server read the whole token file, also of who had tried too many: a guest could ask for that fifty times a second.
func TestWrongCodesReadNoTokens(t *testing.T) {
	now, asked := time.Unix(1e9, 0), 0
	c := NewCodes(func(_, _ string) (string, error) { return "token", nil }, func() (func(string) bool, error) {
		asked++
		return func(string) bool { return asked < 3 }, nil
	})
	code, err := c.New("ann/0123456789abcdef", now)
	require.NoError(t, err)
	for range 10 * maxGuesses {
		_, _, err := c.Redeem("AAAA-BBBB-CCCC", "attacker", "pc", "secret", now)
		require.Error(t, err)
	}
	require.Zero(t, asked)
	for range 2 {
		_, _, err = c.Redeem(code, "ann's", "pc", "secret", now)
		require.NoError(t, err)
	}
	_, _, err = c.Redeem(code, "ann's", "pc", "secret", now)
	require.ErrorIs(t, err, ErrCode, "her token was revoked")
	require.Equal(t, 3, asked)
	require.Empty(t, c.codes)
}

// The secret of who redeemed a code was kept for ten minutes as it came, 64 KiB of it: a user who asked for codes and redeemed them made
// the server hold gigabytes.
func TestRedeemedCodesKeepNoLongSecrets(t *testing.T) {
	const codes = 200
	now := time.Unix(1e9, 0)
	c := NewCodes(func(_, _ string) (string, error) { return "token", nil }, always)
	before := testkit.Heap()
	for range codes {
		code, err := c.New("mallory", now)
		require.NoError(t, err)
		_, _, err = c.Redeem(code, "here", "pc", strings.Repeat("x", 60<<10), now)
		require.NoError(t, err)
	}
	require.Less(t, testkit.Heap()-before, codes<<10)
	runtime.KeepAlive(c)
}

// A user who asked for codes and redeemed them made the token file, which each login reads, grow without end.
func TestTokensOfAUserAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range maxTokens {
		fmt.Fprintf(&text, "mallory:%016d\n", i)
	}
	path := fileOf(t, text.String())
	_, err := Add(path, "mallory")
	require.ErrorIs(t, err, ErrTokens)
	_, err = Add(path, "ann")
	require.NoError(t, err)
	_, err = Revoke(path, "mallory", "0000000000000007")
	require.NoError(t, err)
	_, err = Add(path, "mallory")
	require.NoError(t, err)
}
