package vault

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// ErrToken means that a token is not in the token file.
var ErrToken = errors.New("unknown token")

// Guard knows the tokens of a file. It reads the file again when that has changed, so that tokens can be added and taken
// away while the server runs. It is safe for concurrent use.
type Guard struct {
	path string
	// key makes the MACs by which tokens are found. A map's lookup takes a time that depends on what is looked for, but
	// nobody outside can tell which MAC a guess has.
	key [sha256.Size]byte

	mu     sync.Mutex
	file   fs.FileInfo // of what was read; nil: it is read at the next login
	tokens map[mac]struct{}
}

// mac stands for a token.
type mac [sha256.Size]byte

// NewGuard returns a guard that knows the tokens of the file at path.
func NewGuard(path string) (*Guard, error) {
	g := &Guard{path: path}
	_, _ = rand.Read(g.key[:]) // never fails
	if _, err := g.current(); err != nil {
		return nil, err
	}
	return g, nil
}

// Identify returns the identity of a token. It fails with ErrToken when the file does not hold the token, and otherwise
// when the file cannot be read: nobody is let in by what it held before.
func (g *Guard) Identify(token []byte) (identity string, err error) {
	tokens, err := g.current()
	if err != nil {
		return "", err
	}
	if _, known := tokens[g.mac(token)]; !known {
		return "", ErrToken
	}
	return IdentityOf(token), nil
}

func (g *Guard) mac(token []byte) (m mac) {
	h := hmac.New(sha256.New, g.key[:])
	h.Write(token)
	h.Sum(m[:0])
	return m
}

// current returns the tokens as the file has them now.
func (g *Guard) current() (map[mac]struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.path)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", g.path, Reason(err))
	}
	if g.file != nil && sameState(g.file, info) {
		return g.tokens, nil
	}
	err = g.readLocked()
	return g.tokens, err
}

// sameState reports whether a file seems to be unchanged.
func sameState(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// clockGrain is the coarsest grain of a file's time, that of FAT. What was written so shortly before it was read may be
// written again without a new time.
const clockGrain = 2 * time.Second

func (g *Guard) readLocked() error {
	g.file, g.tokens = nil, nil
	f, err := openRegular(g.path)
	if err != nil {
		return fmt.Errorf("token file %s: %w", g.path, Reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("token file %s: %w", g.path, Reason(err))
	}
	tokens, err := readTokens(f)
	if err != nil {
		return err
	}
	g.tokens = make(map[mac]struct{}, len(tokens))
	for _, t := range tokens {
		g.tokens[g.mac([]byte(t))] = struct{}{}
	}
	if time.Since(info.ModTime()) > clockGrain {
		g.file = info
	}
	return nil
}

// IdentityOf is what the owner of a token is called where the token itself must not stand: 32 hex digits.
func IdentityOf(token []byte) string {
	sum := sha256.Sum256(append([]byte("quiver savegame "), token...))
	return hex.EncodeToString(sum[:16])
}
