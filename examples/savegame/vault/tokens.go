package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minTokenBytes keeps out what a person thinks up: a token is a name and a password in one, and is guessed at any name at once.
	// 16 random hex digits are 64 bits.
	minTokenBytes = 16
	// maxTokenBytes is what a login can carry.
	maxTokenBytes = 4096
	// maxTokenFile bounds what is read of a token file.
	maxTokenFile = 4 << 20
	// byteOrderMark is what some editors write before UTF-8 text.
	byteOrderMark = "\ufeff"
)

// ReadTokens returns the tokens of a file, in UTF-8, one a line. A token has no spaces and at least 16 bytes. Empty lines,
// lines that begin with #, and what follows a token, a space and a # are ignored; so are a byte order mark and carriage
// returns.
func ReadTokens(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, Reason(err))
	}
	defer f.Close()
	return readTokens(f)
}

// readTokens reads from where f stands.
func readTokens(f *os.File) ([]string, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", f.Name(), Reason(err))
	}
	if len(text) > maxTokenFile {
		return nil, fmt.Errorf("token file %s has more than %d bytes", f.Name(), maxTokenFile)
	}
	tokens, err := parseTokens(string(text))
	if err != nil {
		return nil, fmt.Errorf("token file %s %w", f.Name(), err)
	}
	return tokens, nil
}

func parseTokens(text string) (tokens []string, err error) {
	for i, line := range strings.Split(strings.TrimPrefix(text, byteOrderMark), "\n") {
		token, err := parseToken(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if token != "" {
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return nil, errors.New("holds no token")
	}
	return tokens, nil
}

// parseToken returns the token of a line, empty when it has none.
func parseToken(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0][0] == '#' {
		return "", nil
	}
	token := words[0]
	switch {
	case len(words) > 1 && words[1][0] != '#':
		return "", errors.New("a token has no spaces, and a comment begins with #")
	case len(token) > maxTokenBytes:
		return "", fmt.Errorf("the token has %d bytes, the limit is %d", len(token), maxTokenBytes)
	case !utf8.ValidString(token), strings.ContainsFunc(token, isInvisible):
		return "", errors.New("the token is not visible UTF-8 text")
	case len(token) < minTokenBytes:
		return "", fmt.Errorf("the token has %d bytes and needs at least %d; take a random one", len(token), minTokenBytes)
	}
	return token, nil
}

// isInvisible reports whether nobody sees that a token has r: a control character, or a byte order mark in the middle.
func isInvisible(r rune) bool { return !unicode.IsGraphic(r) }

// MakeTokens makes a token file with one random token unless it is there, and reports whether it made it.
func MakeTokens(path string) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("token file %s: %w", path, Reason(err))
	}
	_, err = fmt.Fprintln(f, rand.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, fmt.Errorf("token file %s: %w", path, Reason(err))
	}
	return true, nil
}

// Reason is what an error of the file system is about, without the path.
func Reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}
