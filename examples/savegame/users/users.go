package users

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"
	"time"
)

// ErrToken means that the token file does not hold a token.
var ErrToken = errors.New("unknown token")

// Users knows the tokens of a file by their digests, and reads the file again when it has changed. It is safe for
// concurrent use.
type Users struct {
	path string
	key  key

	mu     sync.Mutex
	file   fs.FileInfo       // of what was read; nil: it is read at the next question
	tokens map[string]string // the user of each token's MAC
}

// key makes the MACs by which secrets are found. A map's lookup takes a time that depends on what is looked for, but
// nobody outside can tell which MAC a guess has.
type key [sha256.Size]byte

func newKey() (k key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// mac returns 16 hex digits that stand for a secret: one guess hits one of n secrets with a chance of n in 2^64.
func (k *key) mac(secret string) string {
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Open reads the token file at path, which must be there.
func Open(path string) (*Users, error) {
	u := &Users{path: path, key: newKey()}
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
	mac := u.key.mac(string(token))
	if user, known := tokens[mac]; known {
		return user + "/" + mac, nil
	}
	return "", ErrToken
}

// Valid reports whether the file still holds the token that Identify gave an identity for.
func (u *Users) Valid(identity string) (bool, error) {
	tokens, err := u.current()
	user, mac, _ := strings.Cut(identity, "/")
	return user != "" && tokens[mac] == user, err
}

// UserOf returns the user of an identity.
func UserOf(identity string) string {
	user, _, _ := strings.Cut(identity, "/")
	return user
}

// Watch looks at the file every interval and calls changed, on the caller's goroutine, each time that it holds other
// tokens than before. It returns when ctx ends. While the file cannot be read nothing has changed.
func (u *Users) Watch(ctx context.Context, interval time.Duration, changed func()) {
	before, _ := u.current()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now, err := u.current(); err == nil && !maps.Equal(before, now) {
			before = now
			changed()
		}
	}
}

// current returns the tokens as the file has them now. Nobody writes to the map.
func (u *Users) current() (map[string]string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	info, err := os.Stat(u.path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if u.file != nil && os.SameFile(u.file, info) && u.file.Size() == info.Size() && u.file.ModTime().Equal(info.ModTime()) {
		return u.tokens, nil
	}
	return u.readLocked(info)
}

// clockGrain is the coarsest grain of a file's time, that of FAT. What was written so shortly before it was read may be
// written again without a new time.
const clockGrain = 2 * time.Second

func (u *Users) readLocked(info fs.FileInfo) (map[string]string, error) {
	u.file, u.tokens = nil, nil
	_, entries, err := read(u.path)
	if err != nil {
		return nil, err
	}
	u.tokens = make(map[string]string, len(entries))
	for _, e := range entries {
		u.tokens[u.key.mac(e.token)] = e.user
	}
	if time.Since(info.ModTime()) > clockGrain {
		u.file = info
	}
	return u.tokens, nil
}
