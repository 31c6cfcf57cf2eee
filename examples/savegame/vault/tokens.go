package vault

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

const (
	// maxTokenBytes is what a login can carry.
	maxTokenBytes = 4096
	// maxTokenFile bounds what is read of a token file.
	maxTokenFile = 4 << 20
)

// ErrToken means that a token is not in the token file.
var ErrToken = errors.New("unknown token")

// ReadTokens returns the tokens of a file: one a line, blank lines and spaces around tokens ignored.
func ReadTokens(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, Reason(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, Reason(err))
	}
	if len(text) > maxTokenFile {
		return nil, fmt.Errorf("token file %s has more than %d bytes", path, maxTokenFile)
	}
	var tokens []string
	for i, line := range strings.Split(string(text), "\n") {
		token := strings.TrimSpace(line)
		if len(token) > maxTokenBytes {
			return nil, fmt.Errorf("token file %s: the token in line %d has %d bytes, the limit is %d", path, i+1, len(token), maxTokenBytes)
		}
		if token != "" {
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("token file %s holds no token", path)
	}
	return tokens, nil
}

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

// Identify returns the identity of a token in the file at path. The file is read each time, so that a token can be added
// or taken away while the server runs.
func Identify(path string, token []byte) (identity string, err error) {
	tokens, err := ReadTokens(path)
	if err != nil {
		return "", err
	}
	// Hashes are compared, so that the time tells nothing of the tokens.
	known := func(t string) bool { return sha256.Sum256([]byte(t)) == sha256.Sum256(token) }
	if !slices.ContainsFunc(tokens, known) {
		return "", ErrToken
	}
	return IdentityOf(token), nil
}

// IdentityOf is what the owner of a token is called where the token itself must not stand: 32 hex digits.
func IdentityOf(token []byte) string {
	sum := sha256.Sum256(append([]byte("quiver savegame "), token...))
	return hex.EncodeToString(sum[:16])
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
