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
	// a thousand open codes with a chance of 1 in 200 million, whoever makes them. Package rpc lets nobody guess so often.
	codeLetters = 12
	// codeLife is how long a code is good for.
	codeLife = 10 * time.Minute
	// maxCodes bounds the codes that are open at once, maxUserCodes those of one user, who is in nobody else's way so.
	maxCodes, maxUserCodes = 1000, 10
)

// ErrCode means that a code is wrong, was used, or is older than ten minutes.
var ErrCode = errors.New("the code is wrong, or was used, or is older than 10 minutes")

// ByCode returns what a machine presents in a token's place to log in by a code: the code, and a token of the machine's own making, which it
// logs in by from then on. A login whose answer was lost is simply made again.
func ByCode(code, token, machine string) string {
	return strings.Join([]string{code, token, machine}, "\n")
}

// codes are the login codes that are open, or were redeemed within the last ten minutes. They live in memory only.
type codes struct {
	mu  sync.Mutex
	all map[string]code // by their MACs
}

type code struct {
	identity string // of who asked for it, or a user's name
	ends     time.Time
	token    string // the MAC of the token that it was redeemed for; empty: it is open
}

// invite returns a new code, in three groups of four: ABCD-EFGH-IJKL.
func (c *codes) invite(identity string, now time.Time) (string, error) {
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
	c.all[mac(letters)] = code{identity: identity, ends: now.Add(codeLife)}
	return letters[:4] + "-" + letters[4:8] + "-" + letters[8:], nil
}

// openLocked returns how many codes are open, and how many of them are a user's.
func (c *codes) openLocked(user string) (all, theirs int) {
	for _, code := range c.all {
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

// redeem has add make a token of the identity that asked for a code, and makes the code void for other tokens. For the same one that is no
// error again, and nothing is done then: that token may have been revoked.
func (c *codes) redeem(text, token string, now time.Time, add func(identity string) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(now)
	digits := mac(plain.Replace(strings.ToUpper(text)))
	found, known := c.all[digits]
	if !known || found.token != "" && found.token != mac(token) {
		return ErrCode
	}
	if found.token == "" {
		if err := add(found.identity); err != nil {
			return err
		}
		found.token = mac(token)
		c.all[digits] = found
	}
	return nil
}

// forgetLocked drops codes that are too old.
func (c *codes) forgetLocked(now time.Time) {
	maps.DeleteFunc(c.all, func(_ string, c code) bool { return !now.Before(c.ends) })
}
