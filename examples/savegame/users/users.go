package users

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// ErrToken means that the token file does not hold the token of a login.
var ErrToken = errors.New("unknown token")

// Users knows the tokens of a file, which it reads for each question. It is safe for concurrent use.
type Users struct{ path string }

// Open reads the token file at path, which must be there.
func Open(path string) (*Users, error) {
	u := &Users{path}
	_, err := u.current()
	return u, err
}

// Identify returns whose token it is, and which: the user's name, a slash, which no name has, and 16 hex digits that stand
// for the token until the program ends and tell nothing of it. It fails with [ErrToken] when the file does not hold the
// token, and otherwise when the file cannot be read: nobody is let in by what it held before.
func (u *Users) Identify(token []byte) (identity string, err error) {
	tokens, err := u.current()
	if err != nil {
		return "", err
	}
	digits := mac(string(token))
	if user, known := tokens[digits]; known {
		return user + "/" + digits, nil
	}
	return "", ErrToken
}

// Valid returns what tells whether the file, as it is now, holds the token that Identify gave an identity for.
func (u *Users) Valid() (valid func(identity string) bool, err error) {
	tokens, err := u.current()
	return func(identity string) bool {
		user, digits, _ := strings.Cut(identity, "/")
		return user != "" && tokens[digits] == user
	}, err
}

// Holds reports whether the file, as it is now, holds the token that Identify gave an identity for.
func (u *Users) Holds(identity string) (bool, error) {
	valid, err := u.Valid()
	return err == nil && valid(identity), err
}

// UserOf returns the user of an identity.
func UserOf(identity string) string {
	user, _, _ := strings.Cut(identity, "/")
	return user
}

// current returns the user of each token's MAC, as the file has them now.
func (u *Users) current() (map[string]string, error) {
	_, entries, err := read(u.path)
	if err != nil {
		return nil, err
	}
	tokens := make(map[string]string, len(entries))
	for _, e := range entries {
		tokens[mac(e.token)] = e.user
	}
	return tokens, nil
}

// key is this process's. A map's lookup takes a time that depends on what is looked for, but nobody outside can tell which
// MAC a guess has.
var key = []byte(rand.Text())

// mac returns 16 hex digits by which a secret is found: one guess hits one of n secrets with a chance of n in 2^64.
func mac(secret string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
