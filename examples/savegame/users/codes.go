package users

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	// codeLetters is how many letters of 5 bits a code has. Of 60 bits, 10,000 guesses a second for ten minutes find one of
	// a thousand open codes with a chance of 1 in 200 million, whoever makes them.
	codeLetters = 12
	// codeLife is how long a code is good for.
	codeLife = 10 * time.Minute
	// maxCodes bounds the codes that are open at once, maxUserCodes those of one user, who is in nobody else's way so.
	maxCodes, maxUserCodes = 1000, 10
	// maxGuesses is how many wrong codes a source may try in ten minutes: people mistype, but not more often.
	maxGuesses = 10
	// maxSources bounds the sources whose guesses are counted. Who has more addresses than that is held by the code's
	// length alone, and keeps nobody else out.
	maxSources = 10_000
)

var (
	// ErrCode means that a code is wrong, was used, or is older than ten minutes.
	ErrCode = errors.New("the code is wrong, or was used, or is older than 10 minutes")
	// ErrGuesses means that too many wrong codes were tried.
	ErrGuesses = errors.New("too many wrong codes, try again in 10 minutes")
)

// Codes are login codes: each stands for a user, works for one machine, and for ten minutes. They live in memory only. The clock is
// the caller's. Codes are safe for concurrent use.
type Codes struct {
	add   func(user, machine string) (token string, err error)
	valid func() (func(identity string) bool, error)

	mu      sync.Mutex
	codes   map[string]code // by their MACs
	guesses map[string]int  // wrong ones, of each source
	counted time.Time       // since when guesses are counted
}

type code struct {
	identity string // of who asked for it, or a user's name
	ends     time.Time
	token    string // that it was redeemed for; empty: it is open
	secret   string // the MAC of the secret of the machine that has redeemed it
}

// NewCodes returns a set of none. Add makes a new token for a user's machine, as [Add] does in a file. Valid, as [Users.Valid], returns what tells
// whether the identity of who asked for a code still holds its token: who is put out does not come in again by a code. It is asked about right
// codes only, for anybody may send wrong ones.
func NewCodes(add func(user, machine string) (token string, err error), valid func() (func(identity string) bool, error)) *Codes {
	return &Codes{add: add, valid: valid, codes: make(map[string]code), guesses: make(map[string]int)}
}

// New returns a new code for the user of an identity, in three groups of four: ABCD-EFGH-IJKL. Whoever runs the server has it for a user's
// name alone, and that one stays good whatever becomes of the user's tokens.
func (c *Codes) New(identity string, now time.Time) (string, error) {
	if err := CheckUser(UserOf(identity)); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(now)
	all, theirs := c.openLocked(UserOf(identity))
	if all >= maxCodes {
		return "", fmt.Errorf("%d login codes are open, which is the limit; try again in 10 minutes", maxCodes)
	}
	if theirs >= maxUserCodes {
		return "", fmt.Errorf("%d login codes of %s are open, which is the limit; try again in 10 minutes", maxUserCodes, UserOf(identity))
	}
	letters := rand.Text()[:codeLetters]
	c.codes[mac(letters)] = code{identity: identity, ends: now.Add(codeLife)}
	return letters[:4] + "-" + letters[4:8] + "-" + letters[8:], nil
}

// openLocked returns how many codes are open, and how many of them are a user's.
func (c *Codes) openLocked(user string) (all, theirs int) {
	for _, code := range c.codes {
		if code.token == "" {
			all++
			if UserOf(code.identity) == user {
				theirs++
			}
		}
	}
	return all, theirs
}

// plain are the letters of a code, however a person writes it: codes have no digits 0, 1, 8 and 9.
var plain = strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B")

// Redeem returns the user of a code and a new token for a machine of the user's. Who knows the secret that came with a code gets the same
// token again, as the answer may be lost; for others the code is void then. Source is who asks, an address without its port: after 10 wrong
// codes in ten minutes it gets [ErrGuesses], otherwise a wrong code is [ErrCode].
func (c *Codes) Redeem(text, source, machine, secret string, now time.Time) (user, token string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(now)
	if c.guesses[source] >= maxGuesses {
		return "", "", ErrGuesses
	}
	digits := mac(plain.Replace(strings.ToUpper(text)))
	found, err := c.findLocked(digits)
	if err != nil {
		return "", "", err
	}
	if found.identity == "" || found.token != "" && (secret == "" || found.secret != mac(secret)) {
		if c.guesses[source] > 0 || len(c.guesses) < maxSources {
			c.guesses[source]++
		}
		return "", "", ErrCode
	}
	user = UserOf(found.identity)
	if found.token == "" {
		if found.token, err = c.add(user, machine); err != nil {
			return "", "", err
		}
		found.secret = mac(secret)
		c.codes[digits] = found
	}
	return user, found.token, nil
}

// findLocked returns an open or redeemed code, an empty one where there is none or its identity is not valid any more.
func (c *Codes) findLocked(digits string) (code, error) {
	found := c.codes[digits]
	if !strings.Contains(found.identity, "/") {
		return found, nil // a user's name alone, or nobody's
	}
	valid, err := c.valid()
	if err == nil && !valid(found.identity) {
		delete(c.codes, digits)
		found = code{}
	}
	return found, err
}

// forgetLocked drops codes that are too old, and the guesses of the ten minutes before these.
func (c *Codes) forgetLocked(now time.Time) {
	maps.DeleteFunc(c.codes, func(_ string, c code) bool { return !now.Before(c.ends) })
	if now.Sub(c.counted) >= codeLife {
		clear(c.guesses)
		c.counted = now
	}
}
