package users

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	// maxFile bounds what is read of a token file.
	maxFile = 4 << 20
	// shown is how many characters of a token List shows: enough to tell a user's tokens apart, too few to help who guesses.
	shown = 4
	// patience is how long a change waits for another one to end.
	patience = 5 * time.Second
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
type entry struct{ user, token string }

// parse returns the entries of a file's text: UTF-8, of each line what stands before a space or a #. Empty lines, a byte
// order mark and carriage returns are ignored.
func parse(text string) (entries []entry, err error) {
	seen := make(map[string]bool)
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		e, err := parseLine(line)
		if err == nil && seen[e.token] {
			err = errors.New("the token stands there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if e != (entry{}) {
			seen[e.token] = true
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// parseLine returns a line's entry, an empty one when it has none.
func parseLine(line string) (e entry, err error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0][0] == '#' {
		return e, nil
	}
	user, token, both := strings.Cut(words[0], ":")
	switch {
	case len(words) > 1 && words[1][0] != '#':
		return e, errors.New("a token has no spaces, and a comment begins with #")
	case !both:
		return e, errors.New("a line is user:token")
	case len(token) > maxToken:
		return e, fmt.Errorf("the token has %d bytes, the limit is %d", len(token), maxToken)
	case !utf8.ValidString(token), strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return e, errors.New("the token is not visible UTF-8 text")
	case len(token) < minToken:
		return e, fmt.Errorf("the token has %d bytes and needs at least %d; take a random one", len(token), minToken)
	}
	return entry{user, token}, CheckUser(user)
}

// read returns a file's text and entries.
func read(path string) (text []byte, entries []entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	if text, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(text) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err == nil {
		entries, err = parse(string(text))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return text, entries, nil
}

// Add gives a user a new random token, makes the file at path when it is missing, and returns the token when the file
// holds it durably. A user may have several. It may run beside others, in other processes too, as Revoke may.
func Add(path, user string) (token string, err error) {
	if err := CheckUser(user); err != nil {
		return "", err
	}
	token = rand.Text()
	return token, change(path, func(text []byte) ([]byte, error) {
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		return fmt.Appendf(text, "%s:%s\n", user, token), nil
	})
}

// Revoke takes away the tokens of a user that begin with prefix, all when that is empty, and says how many those were. It
// fails with [ErrUser] when there are none.
func Revoke(path, user, prefix string) (revoked int, err error) {
	return revoked, change(path, func(text []byte) (kept []byte, err error) {
		for line := range bytes.Lines(text) {
			e, _ := parseLine(strings.TrimPrefix(string(line), "\ufeff"))
			if e.user == user && user != "" && strings.HasPrefix(e.token, prefix) {
				revoked++
			} else {
				kept = append(kept, line...)
			}
		}
		if revoked == 0 {
			return nil, fmt.Errorf("%w as %q with a token %s…", ErrUser, user, prefix)
		}
		return kept, nil
	})
}

// List returns the tokens of a file, in its order, each to be told by its first characters only.
func List(path string) (tokens []Token, err error) {
	_, entries, err := read(path)
	for _, e := range entries {
		tokens = append(tokens, Token{e.user, string([]rune(e.token)[:shown])})
	}
	return tokens, err
}

// change replaces a token file by what edit makes of it, durably and in one step, while no other change runs. A file that
// is missing is empty, and one that is wrong stays as it is.
func change(path string, edit func(text []byte) ([]byte, error)) error {
	if behind, err := filepath.EvalSymlinks(path); err == nil {
		path = behind
	}
	lock, err := flock.Wait(path+".lock", patience)
	if err != nil {
		return err
	}
	defer lock.Close()
	info, err := os.Stat(path)
	if err == nil {
		err = keepOwner(lock, info) // or the server could not lock what root has locked once
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, _, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = edit(text); err != nil {
		return err
	}
	return replace(path, text, info)
}

// replace makes a file of a text. It keeps owner and mode of what was there, so that a server may read what root has
// written.
func replace(path string, text []byte, was fs.FileInfo) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if was != nil {
		err = errors.Join(err, keepOwner(f, was), f.Chmod(was.Mode().Perm()))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	_ = dir.Sync() // where it can be asked for: not on Windows, and not of every file system
	return dir.Close()
}
