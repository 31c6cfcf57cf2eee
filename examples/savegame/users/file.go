package users

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quivernet/quiver/examples/savegame/flock"
)

const (
	// MaxUser bounds a user's name in bytes.
	MaxUser = 64
	// minToken keeps out what a person thinks up. 16 random hex digits are 64 bits.
	minToken = 16
	// maxToken is what a login can carry, in bytes.
	maxToken = 4096
	// shown is how many characters of a token List shows: enough to tell a user's tokens apart, too few to help who guesses.
	shown = 4
)

// ErrUser means that a name can not be a user's, or that the token file has no such user.
var ErrUser = errors.New("no such user")

var userName = regexp.MustCompile(`^[\pL\pN_][\pL\pM\pN._-]*$`)

// CheckUser reports why name can not be a user's: it has 1 to 64 bytes of letters, digits and ._- of which no dot or dash
// begins it and no dot ends it. Large and small letters differ. Such a name can own versions.
func CheckUser(name string) error {
	if len(name) > MaxUser || !utf8.ValidString(name) || !userName.MatchString(name) || strings.HasSuffix(name, ".") {
		return fmt.Errorf("%w: a user's name has 1 to %d bytes of letters, digits and ._-, and not %.70q", ErrUser, MaxUser, name)
	}
	return nil
}

// Token is a line of a token file, as far as it may be shown.
type Token struct {
	User  string
	Shown string // the token's first characters
}

// entry is such a line.
type entry struct {
	user, token string
	at          int // where it begins in the file
}

// parse returns the entries of a file's text: UTF-8, of each line what stands before a space or a #. Empty lines, a byte
// order mark and carriage returns are ignored.
func parse(text string) (entries []entry, err error) {
	seen, number, at := make(map[string]bool), 0, 0
	for line := range strings.Lines(text) {
		e, err := parseLine(strings.TrimPrefix(line, "\ufeff"))
		if err == nil && seen[e.token] {
			err = errors.New("the token stands there twice")
		}
		if number++; err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if e.token != "" {
			e.at = at + strings.Index(line, e.user)
			seen[e.token] = true
			entries = append(entries, e)
		}
		at += len(line)
	}
	return entries, nil
}

// parseLine returns a line's entry, an empty one when it has none.
func parseLine(line string) (e entry, err error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0][0] == '#' {
		return e, nil
	}
	user, token, isPair := strings.Cut(words[0], ":")
	switch {
	case len(words) > 1 && words[1][0] != '#':
		return e, errors.New("a token has no spaces, and a comment begins with #")
	case !isPair:
		return e, errors.New("a line is user:token")
	case len(token) > maxToken:
		return e, fmt.Errorf("the token has %d bytes, the limit is %d", len(token), maxToken)
	case !utf8.ValidString(token), strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return e, errors.New("the token is not visible UTF-8 text")
	case len(token) < minToken:
		return e, fmt.Errorf("the token has %d bytes and needs at least %d; take a random one", len(token), minToken)
	}
	return entry{user: user, token: token}, CheckUser(user)
}

// read returns a file's text and entries.
func read(path string) (text string, entries []entry, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		entries, err = parse(string(b))
	}
	if err != nil {
		return "", nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return string(b), entries, nil
}

// Add gives a user a new random token, makes the file at path when it is missing, and returns the token when the file
// holds it durably. A user may have several. It may run beside others, in other processes too, as Revoke may.
func Add(path, user string) (token string, err error) {
	if err := CheckUser(user); err != nil {
		return "", err
	}
	token = rand.Text()
	return token, edit(path, func(f *os.File, text string, _ []entry) error {
		line := user + ":" + token + "\n"
		if text != "" && !strings.HasSuffix(text, "\n") {
			line = "\n" + line
		}
		_, err := f.WriteAt([]byte(line), int64(len(text)))
		return err
	})
}

// Revoke takes away the tokens of a user that begin with prefix, all when that is empty, and says how many those were: #
// stands where they stood. It fails with [ErrUser] when there are none.
func Revoke(path, user, prefix string) (revoked int, err error) {
	err = edit(path, func(f *os.File, _ string, entries []entry) error {
		for _, e := range entries {
			if e.user == user && strings.HasPrefix(e.token, prefix) {
				if _, err := f.WriteAt(bytes.Repeat([]byte("#"), len(user)+1+len(e.token)), int64(e.at)); err != nil {
					return err
				}
				revoked++
			}
		}
		if revoked == 0 {
			return fmt.Errorf("%w as %q with a token %s…", ErrUser, user, prefix)
		}
		return nil
	})
	return revoked, err
}

// List returns the tokens of a file, in its order, each to be told by its first characters only.
func List(path string) (tokens []Token, err error) {
	_, entries, err := read(path)
	for _, e := range entries {
		tokens = append(tokens, Token{e.user, string([]rune(e.token)[:shown])})
	}
	return tokens, err
}

// edit locks a token file, which it makes when it is missing, and lets do write to it. A file that is wrong stays as it is.
// Each write changes a line where it stands, so that a crash spoils no other, and that the file keeps its owner, its mode
// and its links: a server may read what root has edited.
func edit(path string, do func(f *os.File, text string, entries []entry) error) error {
	f, err := flock.Wait(path, 5*time.Second) // others edit for milliseconds
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	text, entries, err := read(path)
	if err == nil {
		err = do(f, text, entries)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
