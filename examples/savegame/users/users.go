package users

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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
	file   fs.FileInfo    // of what was read; nil: it is read at the next question
	tokens map[mac]string // the user of each
}

// Pass is what a token is good for. It holds nothing secret, and is comparable.
type Pass struct {
	User  string
	token mac
}

// key makes the MACs by which secrets are found. A map's lookup takes a time that depends on what is looked for, but
// nobody outside can tell which MAC a guess has.
type key [sha256.Size]byte

// mac stands for a secret.
type mac [sha256.Size]byte

func newKey() (k key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

func (k *key) mac(secret []byte) (m mac) {
	h := hmac.New(sha256.New, k[:])
	h.Write(secret)
	h.Sum(m[:0])
	return m
}

// Open reads the token file at path, which must be there.
func Open(path string) (*Users, error) {
	u := &Users{path: path, key: newKey()}
	_, err := u.current()
	return u, err
}

// Identify returns whose token it is. It fails with [ErrToken] when the file does not hold it, and otherwise when the file
// cannot be read: nobody is let in by what it held before.
func (u *Users) Identify(token []byte) (Pass, error) {
	tokens, err := u.current()
	if err != nil {
		return Pass{}, err
	}
	m := u.key.mac(token)
	user, known := tokens[m]
	if !known {
		return Pass{}, ErrToken
	}
	return Pass{user, m}, nil
}

// Valid reports whether the file still holds the token that a pass was given for.
func (u *Users) Valid(p Pass) (bool, error) {
	tokens, err := u.current()
	user, known := tokens[p.token]
	return known && user == p.User, err
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
func (u *Users) current() (map[mac]string, error) {
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

func (u *Users) readLocked(info fs.FileInfo) (map[mac]string, error) {
	u.file, u.tokens = nil, nil
	_, entries, err := read(u.path)
	if err != nil {
		return nil, err
	}
	u.tokens = make(map[mac]string, len(entries))
	for _, e := range entries {
		u.tokens[u.key.mac([]byte(e.token))] = e.user
	}
	if time.Since(info.ModTime()) > clockGrain {
		u.file = info
	}
	return u.tokens, nil
}
