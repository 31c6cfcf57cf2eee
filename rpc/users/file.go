package users

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quivernet/quiver/internal/files"
)

// ErrUser means that the token file has no token of the user with the given prefix.
var ErrUser = errors.New("no such user")

// ErrTokens means that a user has a thousand tokens already.
var ErrTokens = errors.New("too many tokens")

// editTime is the maximum time that we wait for other processes that are editing a file. An edit
// takes only milliseconds, so a longer wait means that something is wrong.
const editTime = 5 * time.Second

// List returns the tokens of a file in the order of its lines. It may run while Add and Revoke
// write to the file.
func List(path string) ([]Token, error) {
	_, tokens, err := list(path)
	return tokens, err
}

// list is like List, but also returns the file's text.
func list(path string) (text string, tokens []Token, err error) {
	text, tokens, err = read(path)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return text, tokens, err
	}

	// There's a bad line, but we may have read only half of a line that Add or Revoke was writing.
	// They hold the lock while they write, so take the lock and read the file again.
	f, lockErr := files.Lock(path, editTime)
	if lockErr != nil {
		// The lock requires permission to write to the file, which we may not have.
		return "", nil, err
	}
	defer f.Close()
	return read(path)
}

// read returns the text and the tokens of a file. It does not take the lock.
func read(path string) (text string, tokens []Token, err error) {
	text, err = readText(path)
	if err == nil {
		tokens, err = parse(text)
	}
	if err != nil {
		return "", nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return text, tokens, nil
}

// readText returns the text of a file, without any zeros that a crash has left at its end.
func readText(path string) (text string, err error) {
	b, err := os.ReadFile(path)
	text = string(b)
	// Some file systems leave zeros in place of a line that wasn't on disk yet.
	if lines := strings.TrimRight(text, "\x00"); strings.HasSuffix(lines, "\n") {
		text = lines
	}
	return text, err
}

// Add gives a user a new random token, and returns the token once it is on disk. If the file
// at path does not exist, Add creates it. Add fails with [ErrName] for a bad name, and with
// [ErrTokens] if the user has a thousand tokens.
//
// A user may have several tokens, and a note tells them apart. The note is one line of text and
// isn't secret. Add and Revoke may run concurrently on one file, even in several processes.
func Add(path, user string, note ...string) (token string, err error) {
	token = rand.Text()
	return token, add(path, user, token, note...)
}

// add does what Add does, with a token that the caller has chosen.
func add(path, user, token string, notes ...string) error {
	line, err := formatLine(user, token, notes)
	if err != nil {
		return err
	}
	return edit(path, func(text string, tokens []Token) (string, error) {
		owned := 0
		for _, t := range tokens {
			if t.secret == token {
				return "", fmt.Errorf("%w: the file already contains the token", ErrToken)
			}
			if t.User == user {
				owned++
			}
		}
		if owned >= maxTokens {
			return "", fmt.Errorf("%w: %s has %d, which is the limit: revoke unused ones",
				ErrTokens, user, owned)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			line = "\n" + line
		}
		return text + line, nil
	})
}

// formatLine returns the line for a token. It returns an error if parsing the line wouldn't give
// the same token.
func formatLine(user, token string, notes []string) (string, error) {
	line := strings.Join(append([]string{user + ":" + token}, notes...), " # ") + "\n"
	if err := CheckName(user); err != nil {
		return "", err
	}
	if t, err := parseLine(line); err != nil || t.secret != token {
		return "", cmp.Or(err, ErrToken)
	}
	for _, n := range notes {
		if !utf8.ValidString(n) || strings.ContainsFunc(n, unicode.IsControl) {
			return "", fmt.Errorf("note %.100q is not a single line of text", n)
		}
	}
	return line, nil
}

// Revoke removes the tokens of a user that begin with prefix, such as the result of [Token.Shown],
// and returns the number of removed tokens. If prefix is empty, it removes all tokens of the user.
// It fails with [ErrUser] if it finds none.
//
// It does not invalidate a login code that the server's owner requested by the user's name. Such a
// code still lets the user in afterwards: see [Users.Invite].
func Revoke(path, user, prefix string) (revoked int, err error) {
	// edit would create the file.
	if _, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("token file: %w", err)
	}
	err = edit(path, func(text string, _ []Token) (string, error) {
		var rest strings.Builder
		for line := range strings.Lines(text) {
			t, _ := parseLine(line)
			if t.User == user && t.secret != "" && strings.HasPrefix(t.secret, prefix) {
				// Overwrite the token rather than remove its line, because no line may move.
				login := t.User + ":" + t.secret
				line = strings.Replace(line, login, strings.Repeat("#", len(login)), 1)
				revoked++
			}
			rest.WriteString(line)
		}
		if revoked == 0 {
			return "", fmt.Errorf("%w %q with a token that begins with %q", ErrUser, user, prefix)
		}
		return rest.String(), nil
	})
	return revoked, err
}

// edit replaces the text of a token file with the text that change returns. It holds the file's
// lock, and creates the file if necessary. If the file contains an error, edit doesn't change it.
//
// The text is written in place and no line ever moves. A crash can therefore damage only the line
// that is changing, and never leaves part of a new line. The file also keeps its owner, its mode
// and its links, so a server can still read a file that root has edited.
func edit(path string, change func(text string, tokens []Token) (string, error)) error {
	f, err := lock(path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	before, tokens, err := read(path)
	text := before
	if err == nil {
		text, err = change(before, tokens)
	}
	if err == nil {
		err = write(f, before, text)
		if err != nil {
			// The disk may be full. Cut off the part of the new line that did fit.
			text = before
		}
		err = errors.Join(err, f.Truncate(int64(len(text))))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// syncWriterAt has the methods of a file that write needs.
type syncWriterAt interface {
	io.WriterAt
	Sync() error
}

// write replaces before with text, which may have one more line at its end.
//
// A crash could leave part of a new line, which would lock out all users. We therefore write the
// line as a comment first. Once all of it is on disk, we turn it into a token by writing its first
// byte.
func write(f syncWriterAt, before, text string) error {
	if start := len(before); len(text) > start {
		start += strings.IndexFunc(text[start:], func(r rune) bool { return r != '\n' })
		if _, err := f.WriteAt([]byte(text[:start]+"#"+text[start+1:]), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// lock opens and locks the file at path, and creates it if it does not exist.
func lock(path string) (*os.File, error) {
	for range 10 {
		f, err := files.Lock(path, editTime)
		if err != nil {
			return nil, err
		}
		if files.Stands(f) {
			return f, nil
		}
		// An editor has replaced the file in the meantime, so this lock protects nothing.
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: another program keeps replacing the file", path)
}
