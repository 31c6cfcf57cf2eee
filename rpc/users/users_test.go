package users

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	alpha = "alpha-0123456789"
	beta  = "beta-0123456789ab"
)

func fileOf(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestParse(t *testing.T) {
	a, b := "ann:"+alpha, "bob:"+beta
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one a line":          {"ann:" + alpha + "\nbob:" + beta, []string{a, b}},
		"several a user":      {"ann:" + alpha + "\nann:" + beta, []string{a, "ann:" + beta}},
		"CRLF, blanks":        {"ann:" + alpha + "\r\n\r\n\t bob:" + beta + " \r\n", []string{a, b}},
		"mark and comments":   {"\ufeff# tokens\r\nann:" + alpha + " # laptop\n#bob:" + beta, []string{a}},
		"# and : in a token":  {"ann:al#pha:0123456789", []string{"ann:al#pha:0123456789"}},
		"nothing but comment": {"\n# nobody\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := parse(test.text)
			require.NoError(t, err)
			require.Equal(t, test.want, lines(entries))
		})
	}
}

// lines returns the lines that say what tokens are.
func lines(tokens []Token) (lines []string) {
	for _, t := range tokens {
		lines = append(lines, t.User+":"+t.secret)
	}
	return lines
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"\n" + alpha:                         "line 2: want user:token",
		"ann:hello":                          "line 1: token has 5 bytes; it must have 16 to 4096",
		"ann:" + strings.Repeat("x", 5000):   "line 1: token has 5000 bytes; it must have",
		"ann:" + alpha + "\n\nann: " + alpha: "line 3: want user:token",
		"ann:" + alpha + "\nbob:" + alpha:    "line 2: duplicate token",
		"\xff\xfea\x00:\x00" + alpha:         "line 1: bad name", // UTF-16
		"ann:\xff" + alpha:                   "line 1: want user:token",
		"-ann:" + alpha:                      "line 1: bad name",
		":" + alpha:                          "line 1: bad name",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want)
		_, err = Open(fileOf(t, text))
		require.ErrorContains(t, err, want)
	}
	missing := filepath.Join(t.TempDir(), "none")
	_, err := Open(missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, missing)
}

// What may be a user's name stands in a token file, and in an identity, as nothing else.
func TestNamesOfUsers(t *testing.T) {
	for _, good := range []string{"a", "ann.b_c-d", "0", "com", "Ann", "Jürgen", "नेहा", "a-", "a b", "a (b)", strings.Repeat("x", MaxName)} {
		e, err := parseLine(good + ":" + alpha + " # note")
		require.NoError(t, err, good)
		require.Equal(t, Token{good, "note", alpha}, e)
		require.Equal(t, good, UserOf(good+"/0123456789abcdef"))
	}
	for _, bad := range []string{"", ".", "..", ".a", "a.", "-a", "a/b", `a\b`, "a #b", "a\xff", "a\tb", strings.Repeat("x", MaxName+1)} {
		_, err := parseLine(bad + ":" + alpha)
		require.Error(t, err, bad)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"ann:alpha-0123456789\nbob:beta-0123456789ab # x\n", "\ufeff# y\r\nz", "a:b", "\xff", "#", "ann: \ufeff0123456789abcdef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parse(text)
		if err != nil {
			return
		}
		for _, e := range entries {
			require.NoError(t, CheckName(e.User))
			require.GreaterOrEqual(t, len(e.secret), minToken)
		}
		same, err := parse(strings.Join(lines(entries), "\n"))
		require.NoError(t, err)
		require.Len(t, same, len(entries))
	})
}

func TestAddListRevoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	first, err := Add(path, "ann")
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	second, err := Add(path, "ann")
	require.NoError(t, err)
	bob, err := Add(path, "bob", "his laptop")
	require.NoError(t, err)
	tokens, err := List(path)
	require.NoError(t, err)
	require.Equal(t, []Token{{"ann", "", first}, {"ann", "", second}, {"bob", "his laptop", bob}}, tokens)
	require.Equal(t, bob[:4], tokens[2].Shown())

	u, err := Open(path)
	require.NoError(t, err)
	identity, err := u.Identify([]byte(second), time.Now())
	require.NoError(t, err)
	require.Regexp(t, "^ann/[0-9a-f]{16}$", identity)
	require.Equal(t, "ann", UserOf(identity))
	_, err = u.Identify([]byte(second+"x"), time.Now())
	require.ErrorIs(t, err, ErrToken)

	n, err := Revoke(path, "ann", first[:6])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireValid(t, true, u, identity)
	for _, bad := range []string{"", "/", "ann", "ann/", "bob" + identity[3:], identity[3:], identity[4:]} {
		requireValid(t, false, u, bad)
	}
	n, err = Revoke(path, "ann", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireValid(t, false, u, identity)
	_, err = Revoke(path, "ann", "")
	require.ErrorIs(t, err, ErrUser)
	_, err = Revoke(path, "", "")
	require.ErrorIs(t, err, ErrUser)
	_, err = Add(path, "../x")
	require.ErrorIs(t, err, ErrName)
	identity, err = u.Identify([]byte(bob), time.Now())
	require.NoError(t, err)
	require.Equal(t, "bob", UserOf(identity))
}

func requireValid(t *testing.T, want bool, u *Users, identity string) {
	t.Helper()
	valid, err := u.Valid()
	require.NoError(t, err)
	require.Equal(t, want, valid(identity))
}

func TestChangesKeepWhatPeopleWrote(t *testing.T) {
	path := fileOf(t, "# mine\r\nann:"+alpha+" # laptop\r\nbob:"+beta)
	token, err := Add(path, "cy")
	require.NoError(t, err)
	_, err = Revoke(path, "ann", "alpha")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# mine\r\n"+strings.Repeat("#", 20)+" # laptop\r\nbob:"+beta+"\ncy:"+token+"\n", string(text))
	marked := fileOf(t, "\ufeffann:"+alpha)
	_, err = Revoke(marked, "ann", "")
	require.NoError(t, err)
	tokens, err := List(marked)
	require.NoError(t, err)
	require.Empty(t, tokens)

	bad := fileOf(t, "what is this")
	_, err = Add(bad, "ann")
	require.Error(t, err)
	text, err = os.ReadFile(bad)
	require.NoError(t, err)
	require.Equal(t, "what is this", string(text), "a file that is wrong stays as it is")
}

func TestChangesAtOnceLoseNothing(t *testing.T) {
	path := fileOf(t, "old:"+alpha+"\n")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if i == 7 {
				_, err := Revoke(path, "old", "")
				require.NoError(t, err)
			}
			_, err := Add(path, fmt.Sprint("user", i))
			require.NoError(t, err)
		})
	}
	all.Wait()
	tokens, err := List(path)
	require.NoError(t, err)
	require.Len(t, tokens, 20)
	left, err := filepath.Glob(path + "-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNobodyComesInByWhatTheFileHeld(t *testing.T) {
	path := fileOf(t, "ann:"+alpha)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	u, err := Open(path)
	require.NoError(t, err)
	identity, err := u.Identify([]byte(alpha), time.Now())
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+"2"))
	_, err = u.Identify([]byte(alpha), time.Now())
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = u.Valid()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Rename(path+"2", path))
	requireValid(t, true, u, identity)

	require.NoError(t, os.WriteFile(path, []byte("bob:"+alpha), 0o600))
	requireValid(t, false, u, identity)
	require.NoError(t, os.WriteFile(path, []byte("ann:short"), 0o600))
	_, err = u.Identify([]byte(alpha), time.Now())
	require.ErrorContains(t, err, "line 1")
}

// inviting returns the users of a file that has one, ann, and her identity.
func inviting(t testing.TB) (u *Users, ann string) {
	u, err := Open(fileOf(t, "ann:"+alpha))
	require.NoError(t, err)
	ann, err = u.Identify([]byte(alpha), time.Now())
	require.NoError(t, err)
	return u, ann
}

// invited is inviting, with a code for one more machine of ann's.
func invited(t testing.TB, now time.Time) (u *Users, ann, code string) {
	u, ann = inviting(t)
	code, err := u.Invite(ann, now)
	require.NoError(t, err)
	return u, ann, code
}

func (u *Users) byCode(code, token string, now time.Time) (identity string, err error) {
	return u.Identify([]byte(ByCode(code, token, "pc")), now)
}

func TestCodes(t *testing.T) {
	now := time.Unix(1e9, 0)
	u, _ := inviting(t)
	code, err := u.Invite("ann", now)
	require.NoError(t, err)
	require.Regexp(t, `^[A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4}$`, code)
	written := strings.ToLower(strings.NewReplacer("O", "0", "I", "1", "B", "8", "-", " ").Replace(code))

	for _, bad := range []string{"short", alpha, "two words of a token", beta + "\r", ""} {
		_, err = u.byCode(code, bad, now)
		require.Error(t, err, "no token, or another one's: %q", bad)
	}
	_, err = u.Identify([]byte(ByCode(code, beta, "../pc")), now)
	require.ErrorIs(t, err, ErrCode)
	require.NoError(t, os.Rename(u.path, u.path+"2"))
	_, err = u.byCode(code, beta, now)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Rename(u.path+"2", u.path))
	identity, err := u.byCode(written, beta, now.Add(codeLife-1))
	require.NoError(t, err)
	require.Equal(t, "ann", UserOf(identity))
	again, err := u.Identify([]byte(beta), now)
	require.NoError(t, err)
	require.Equal(t, identity, again)
	_, err = u.byCode(code, beta+"2", now.Add(codeLife-1))
	require.ErrorIs(t, err, ErrCode, "a code works once")
	tokens, err := List(u.path)
	require.NoError(t, err)
	require.Equal(t, []Token{{"ann", "", alpha}, {"ann", "login of pc, " + now.Add(codeLife-1).Format("2006-01-02 15:04"), beta}}, tokens)

	late, err := u.Invite("ann", now)
	require.NoError(t, err)
	_, err = u.byCode(late, beta+"3", now.Add(codeLife))
	require.ErrorIs(t, err, ErrCode, "and for ten minutes")
	_, err = u.Invite("../ann", now)
	require.ErrorIs(t, err, ErrName)
}

// TestOneCodeAtATime: a user who requests another code has only that one, and
// does not affect other users.
func TestOneCodeAtATime(t *testing.T) {
	u, ann := inviting(t)
	now := time.Unix(1e9, 0)
	first, err := u.Invite(ann, now)
	require.NoError(t, err)
	owner, err := u.Invite("ann", now)
	require.NoError(t, err)
	second, err := u.Invite(ann, now)
	require.NoError(t, err)
	require.Len(t, u.codes, 2)
	_, err = u.byCode(first, beta, now)
	require.ErrorIs(t, err, ErrCode)
	for i, code := range []string{owner, second} {
		_, err = u.byCode(code, fmt.Sprint(beta, i), now)
		require.NoError(t, err)
	}
	_, err = u.Invite("bob", now.Add(codeLife))
	require.NoError(t, err)
	require.Len(t, u.codes, 1, "what is too old is forgotten")
}

// TestWatchSaysThatItCannotRead: it logs once when the file cannot be read, and
// once when it can be read again.
func TestWatchSaysThatItCannotRead(t *testing.T) {
	path := fileOf(t, "ann:"+alpha+"\n")
	u, err := Open(path)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Log
		world, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = world.Run(ctx) })
		work.Go(func() { u.Watch(ctx, world, 4001, 0, slog.New(slog.NewTextHandler(&log, nil))) })
		said := func() string {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			return log.Take()
		}
		require.Empty(t, said())
		require.NoError(t, os.Rename(path, path+"2"))
		text := said()
		require.Equal(t, 1, strings.Count(text, "\n"), text)
		require.Contains(t, text, "level=ERROR")
		require.Contains(t, text, path)
		require.NoError(t, os.Rename(path+"2", path))
		text = said()
		require.Equal(t, 1, strings.Count(text, "\n"), text)
		require.Contains(t, text, "again")
		stop()
		work.Wait()
	})
}
