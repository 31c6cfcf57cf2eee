package users

import (
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
	// maxTokens bounds the tokens of one user, who may ask for codes of new ones without end: each login reads them all.
	maxTokens = 1000
	// shown is how many characters of a token List shows: enough to tell a user's tokens apart, too few to help who guesses.
	shown = 4
)

// ErrUser means that a name can not be a user's, or that the token file has no such user.
var ErrUser = errors.New("no such user")

// ErrTokens means that a user has as many tokens as there may be.
var ErrTokens = errors.New("too many tokens")

var userName = regexp.MustCompile(`^[\pL\p{Nd}_][\pL\pM\p{Nd}._-]*$`)

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
	Note  string // the line's comment
}

// entry is such a line.
type entry struct{ user, token, note string }

// parse returns the entries of a file's text: a line is user:token, then perhaps # and a note, or nothing but that.
func parse(text string) (entries []entry, err error) {
	seen, number := make(map[string]bool), 0
	for line := range strings.Lines(text) {
		e, err := parseLine(line)
		if err == nil && seen[e.token] {
			err = errors.New("the token stands there twice")
		}
		if number++; err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if e.token != "" {
			seen[e.token] = true
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// parseLine returns a line's entry, an empty one when it has none.
func parseLine(line string) (e entry, err error) {
	login, note, _ := strings.Cut(" "+strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")), " #") // Windows' editors write such a mark
	login = strings.TrimSpace(login)
	if login == "" {
		return e, nil
	}
	user, token, isPair := strings.Cut(login, ":")
	switch {
	case !isPair || !utf8.ValidString(token) || strings.ContainsFunc(token, unicode.IsSpace):
		return e, errors.New("it is not user:token with # before a note")
	case len(token) < minToken || len(token) > maxToken:
		return e, fmt.Errorf("the token has %d bytes and needs %d to %d; take a random one", len(token), minToken, maxToken)
	}
	return entry{user, token, strings.TrimSpace(note)}, CheckUser(user)
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
// holds it durably. A user may have several: notes tell them apart. With a thousand it fails with [ErrTokens]. It may run
// beside others, in other processes too, as
// Revoke may.
func Add(path, user string, note ...string) (token string, err error) {
	if err := CheckUser(user); err != nil {
		return "", err
	}
	token = rand.Text()
	line := strings.Join(append([]string{user + ":" + token}, note...), " # ") + "\n"
	return token, edit(path, func(text string, entries []entry) (string, error) {
		if has := count(entries, user); has >= maxTokens {
			return "", fmt.Errorf("%w: %s has %d, which is the limit; revoke those that are not used", ErrTokens, user, has)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			line = "\n" + line
		}
		return text + line, nil
	})
}

// count returns how many of the entries are a user's.
func count(entries []entry, user string) (n int) {
	for _, e := range entries {
		if e.user == user {
			n++
		}
	}
	return n
}

// Revoke takes away the tokens of a user that begin with prefix, all when that is empty, and says how many those were. It
// fails with [ErrUser] when there are none.
func Revoke(path, user, prefix string) (revoked int, err error) {
	err = edit(path, func(text string, _ []entry) (string, error) {
		var left strings.Builder
		for line := range strings.Lines(text) {
			if e, _ := parseLine(line); e.user == user && e.token != "" && strings.HasPrefix(e.token, prefix) {
				login := e.user + ":" + e.token
				line = strings.Replace(line, login, strings.Repeat("#", len(login)), 1)
				revoked++
			}
			left.WriteString(line)
		}
		if revoked == 0 {
			return "", fmt.Errorf("%w as %q with a token %s…", ErrUser, user, prefix)
		}
		return left.String(), nil
	})
	return revoked, err
}

// List returns the tokens of a file, in its order, each to be told by its first characters and its note only.
func List(path string) (tokens []Token, err error) {
	_, entries, err := read(path)
	for _, e := range entries {
		tokens = append(tokens, Token{e.user, string([]rune(e.token)[:shown]), e.note})
	}
	return tokens, err
}

// edit locks a token file, which it makes when it is missing, and writes what change makes of its text. A file that is wrong
// stays as it is. The text is written where it stands, and no line of it moves: so that a crash spoils no other line than
// the one that changes, and that the file keeps its owner, its mode and its links: a server may read what root has edited.
func edit(path string, change func(text string, entries []entry) (string, error)) error {
	f, err := flock.Wait(path, 5*time.Second) // others edit for milliseconds
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	before, entries, err := read(path)
	text := before
	if err == nil {
		text, err = change(before, entries)
	}
	if err == nil {
		if _, err = f.WriteAt([]byte(text), 0); err != nil {
			err = errors.Join(err, f.Truncate(int64(len(before)))) // a piece of a line would keep everybody out
		}
	}
	return errors.Join(err, f.Sync(), f.Close())
}
