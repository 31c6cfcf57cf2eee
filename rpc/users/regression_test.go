package users

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/files"
)

// A user was added who could own nothing: every request of his was refused for his name.
func TestEveryUserCanOwnVersions(t *testing.T) {
	for _, name := range []string{"x²", "Ⅷ", "½"} {
		_, err := Add(filepath.Join(t.TempDir(), "tokens"), name)
		require.ErrorIs(t, err, ErrName, name)
	}
}

// A login whose answer was lost left a token that nobody had, and was refused
// when it was tried again.
func TestALoginIsTriedAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, _ := inviting(t)
	code, err := u.Invite("ann", now)
	require.NoError(t, err)
	for range 2 {
		identity, err := u.byCode(code, beta, now)
		require.NoError(t, err)
		require.Equal(t, "ann", UserOf(identity))
	}
	tokens, err := List(u.path)
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	_, err = Revoke(u.path, "ann", beta)
	require.NoError(t, err)
	_, err = u.byCode(code, beta, now)
	require.ErrorIs(t, err, ErrToken, "the code brings no revoked token back")
	_, err = u.byCode(code, beta, now.Add(codeLife))
	require.ErrorIs(t, err, ErrCode)
}

// A machine whose answer was lost logged in again, and was refused because its
// user had asked for one more code meanwhile.
func TestALoginIsTriedAgainAfterTheNextInvite(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, ann, first := invited(t, now)
	_, err := u.byCode(first, beta, now)
	require.NoError(t, err)
	second, err := u.Invite(ann, now)
	require.NoError(t, err)
	_, err = u.byCode(first, beta, now)
	require.NoError(t, err)
	_, err = u.byCode(first, beta+"2", now)
	require.ErrorIs(t, err, ErrCode, "it was used")
	_, err = u.byCode(second, beta+"2", now)
	require.NoError(t, err)
	_, err = u.Invite(ann, now.Add(codeLife))
	require.NoError(t, err)
	require.Len(t, u.codes, 1, "what is too old is forgotten")
}

// Each wrong code had the server read the whole token file.
func TestWrongCodesReadNoTokens(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, _, code := invited(t, now)
	require.NoError(t, os.Rename(u.path, u.path+"2"))
	_, err := u.byCode("AAAA-BBBB-CCCC", beta, now)
	require.ErrorIs(t, err, ErrCode)
	_, err = u.byCode(code, beta, now)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Who had a code when her token was revoked came in again by it.
func TestCodesGoWithTheToken(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, _, code := invited(t, now)
	_, err := Revoke(u.path, "ann", "")
	require.NoError(t, err)
	_, err = u.byCode(code, beta, now)
	require.ErrorIs(t, err, ErrCode)
}

// A user who asked for codes and redeemed them made the token file, which each
// login reads, grow without end.
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

// A token file that somebody was just writing, and that ended within a line,
// kept everybody out for that moment.
func TestAFileThatIsJustWrittenIsReadAgain(t *testing.T) {
	u, _ := inviting(t)
	whole, err := os.ReadFile(u.path)
	require.NoError(t, err)
	writer, err := files.Lock(u.path, time.Second)
	require.NoError(t, err)
	_, err = writer.WriteAt([]byte("\nbob"), int64(len(whole)))
	require.NoError(t, err)
	identified, listed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := u.Identify([]byte(alpha), time.Now())
		identified <- err
	}()
	go func() {
		_, err := List(u.path)
		listed <- err
	}()
	time.Sleep(100 * time.Millisecond) // for both to read the half
	_, err = writer.WriteAt([]byte(":"+beta+"\n"), int64(len(whole)+len("\nbob")))
	require.NoError(t, errors.Join(err, writer.Close()))
	require.NoError(t, <-identified)
	require.NoError(t, <-listed)
}

// A revoke of the wrong folder left an empty token file there.
func TestRevokeMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.txt")
	_, err := Revoke(path, "ann", "")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, path)
}

// A note of two lines, as of a machine's name that came from outside, made a line
// of its own: a token of whoever chose it, or a file that kept everybody out.
func TestNotesStayInTheirLine(t *testing.T) {
	path := fileOf(t, "ann:"+alpha+"\n")
	for _, note := range []string{"pc\nbob:" + beta, "pc\r", "pc\x00", "pc\nwhat is this", "\xff"} {
		_, err := Add(path, "ann", note)
		require.ErrorContains(t, err, "note", "%q", note)
	}
	tokens, err := List(path)
	require.NoError(t, err)
	require.Len(t, tokens, 1)
}

// A token that was added while an editor put another file in the place of the
// token file was in neither.
func TestAFileThatIsReplacedMeanwhile(t *testing.T) {
	path := fileOf(t, "ann:"+alpha+"\n")
	before, err := files.Lock(path, time.Second)
	require.NoError(t, err)
	added := make(chan error, 1)
	go func() {
		_, err := Add(path, "bob")
		added <- err
	}()
	time.Sleep(100 * time.Millisecond) // for Add to wait for the lock
	require.NoError(t, os.WriteFile(path+"2", []byte("cy:"+beta+"\n"), 0o600))
	require.NoError(t, os.Rename(path+"2", path))
	require.NoError(t, before.Close())
	require.NoError(t, <-added)
	tokens, err := List(path)
	require.NoError(t, err)
	require.Len(t, tokens, 2)
}

// A machine that had made too short a token of its own, or one that is too long,
// was told that the server cannot check tokens, and tried again and again.
func TestTokensOfMachinesAreBounded(t *testing.T) {
	u, _, code := invited(t, time.Now())
	authenticate := u.Authenticator(nil)
	for _, bad := range []string{"short", "two words of a token", beta + " ", beta + "\r", strings.Repeat("x", maxMachineToken+1)} {
		_, err := authenticate(t.Context(), []byte(ByCode(code, bad, "pc")))
		require.ErrorIs(t, err, ErrCode)
		require.NotErrorIs(t, err, ErrUnchecked)
	}
	_, err := authenticate(t.Context(), []byte(ByCode(code, "short", "pc")))
	require.EqualError(t, err, "login code not checked: token has 5 bytes; a machine's must have 16 to 128")
	_, err = authenticate(t.Context(), []byte(ByCode(code, beta, "-pc")))
	require.ErrorContains(t, err, `login code not checked: bad name "-pc"`)
	_, err = authenticate(t.Context(), []byte(ByCode(code, beta, "pc")))
	require.NoError(t, err, "the code is still good")
	require.NoError(t, os.Remove(u.path))
	_, err = authenticate(t.Context(), []byte(beta))
	require.Equal(t, ErrUnchecked, err)
}

// TestOneOfManyRedeemsACode however many present it at once.
func TestOneOfManyRedeemsACode(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, _, code := invited(t, now)
	var all sync.WaitGroup
	var in atomic.Int32
	for i := range 20 {
		all.Go(func() {
			if _, err := u.byCode(code, fmt.Sprint(beta, i), now); err == nil {
				in.Add(1)
			} else {
				assert.ErrorIs(t, err, ErrCode)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, in.Load())
}

// Four characters of four bytes each were all of a token.
func TestShownIsNoToken(t *testing.T) {
	for secret, want := range map[string]string{"😀😁😂😃": "😀", "aäöü-0123456789": "aä", alpha: "alph"} {
		require.Equal(t, want, Token{secret: secret}.Shown())
	}
}

// A machine's own token could have its first characters clear the terminal of
// whoever listed the tokens, or turn the line around.
func TestTokensArePrintable(t *testing.T) {
	u, _, code := invited(t, time.Now())
	for _, bad := range []string{"\x1b[2J" + beta, beta + "\x00", "\u202e" + beta, beta + "\x7f", "\ufeff" + beta, beta + "\u2028x"} {
		_, err := u.byCode(code, bad, time.Now())
		require.ErrorIs(t, err, ErrCode, "%q", bad)
		_, err = Open(fileOf(t, "ann:"+bad))
		require.ErrorContains(t, err, "line 1", "%q", bad)
	}
	_, err := u.byCode(code, "ключ-😀-"+beta, time.Now())
	require.NoError(t, err)
}

// crashing is a disk that keeps each state in which a crash may leave it.
type crashing struct {
	synced, now []byte
	left        []string
}

func (d *crashing) WriteAt(b []byte, at int64) (int, error) {
	whole := append(d.now[:at:at], b...)
	d.now = append(whole, d.now[min(len(whole), len(d.now)):]...)
	for n := range len(d.now) + 1 { // what was written reaches the disk from its beginning
		torn := slices.Concat(d.now[:n], d.synced[min(n, len(d.synced)):])
		d.left = append(d.left, string(torn))
		if bytes.HasSuffix(torn, []byte("\n")) {
			d.left = append(d.left, string(torn)+strings.Repeat("\x00", len(d.now)-n))
		}
	}
	return len(b), nil
}

func (d *crashing) Sync() error {
	d.synced = slices.Clone(d.now)
	return nil
}

// A crash while a token was added left a piece of its line, and that kept everybody out.
func TestACrashKeepsNobodyOut(t *testing.T) {
	for _, before := range []string{"ann:" + alpha + "\n", "ann:" + alpha} {
		text := strings.TrimSuffix(before, "\n") + "\nbob:" + beta + " # laptop\n"
		d := &crashing{synced: []byte(before), now: []byte(before)}
		require.NoError(t, write(d, before, text))
		require.Equal(t, text, string(d.now))
		for _, left := range d.left {
			path := fileOf(t, left)
			u, err := Open(path)
			require.NoError(t, err, "%q", left)
			_, err = u.Identify([]byte(alpha), time.Now())
			require.NoError(t, err, "%q", left)
		}
		for _, left := range d.left[:len(d.left)/2] { // what is added later stands in a line of its own, and the file is whole again
			path := fileOf(t, left)
			_, err := Add(path, "eve")
			require.NoError(t, err)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(after), "\x00")
			tokens, err := List(path)
			require.NoError(t, err)
			require.Equal(t, "eve", tokens[len(tokens)-1].User)
		}
	}
}

// TestLoginsCostNoTokens: before, each login computed a MAC of every token in
// the file, which took longer than the handshake with some thousand tokens.
func TestLoginsCostNoTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.txt")
	token, err := Add(path, "ann")
	require.NoError(t, err)
	u, err := Open(path)
	require.NoError(t, err)
	opened := u.cache.Load()
	for range 100 {
		_, err := u.Identify([]byte(token), time.Now())
		require.NoError(t, err)
		_, err = u.Identify([]byte("a token that is not there"), time.Now())
		require.ErrorIs(t, err, ErrToken)
	}
	require.Same(t, opened, u.cache.Load())

	other, err := Add(path, "bob")
	require.NoError(t, err)
	_, err = u.Identify([]byte(other), time.Now())
	require.NoError(t, err, "the file is read for each login")
	_, err = Revoke(path, "ann", "")
	require.NoError(t, err)
	_, err = u.Identify([]byte(token), time.Now())
	require.ErrorIs(t, err, ErrToken)
	require.NoError(t, os.Remove(path))
	_, err = u.Identify([]byte(other), time.Now())
	require.ErrorIs(t, err, os.ErrNotExist, "what it held lets nobody in")
}

// A user with a colon in the name, which a line takes for the begin of a token,
// was told of an unknown token.
func TestAddOfABadName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, name := range []string{"ann:x", " ann", "", "a #b", "a\nb"} {
		_, err := Add(path, name)
		require.ErrorIs(t, err, ErrName, name)
	}
	require.NoFileExists(t, path)
}
