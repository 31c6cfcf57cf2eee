package users

import (
	"crypto/rand"
	"errors"
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
)

// ErrCode means that no login code is so, or not any more.
var ErrCode = errors.New("the code is wrong, or was used, or is older than 10 minutes, or there is a newer one")

// ByCode returns what a machine presents in a token's place to log in by a code: the code, and a token of the machine's own making, which it
// logs in by from then on. A login whose answer was lost is simply made again.
func ByCode(code, token, machine string) string {
	return strings.Join([]string{code, token, machine}, "\n")
}

// codes are the login codes, the last one of each identity that asked for one: so there are no more than the token file has lines. They live in
// memory only.
type codes struct {
	mu   sync.Mutex
	last map[string]code // by who asked for it: an identity, or a user's name
}

type code struct {
	letters string // their MAC
	ends    time.Time
	token   string // the MAC of the token that it was redeemed for; empty: it is open
}

// invite returns a new code, in three groups of four: ABCD-EFGH-IJKL.
func (c *codes) invite(identity string, now time.Time) (string, error) {
	if err := CheckUser(UserOf(identity)); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.last, func(_ string, c code) bool { return !now.Before(c.ends) })
	letters := rand.Text()[:codeLetters]
	c.last[identity] = code{letters: mac(letters), ends: now.Add(codeLife)}
	return letters[:4] + "-" + letters[4:8] + "-" + letters[8:], nil
}

// plain are the letters of a code, however a person writes it: codes have no digits 0, 1, 8 and 9.
var plain = strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B")

// redeem has add make a token of the identity that asked for a code, and makes the code void for other tokens. For the same one that is no
// error again, and nothing is done then: that token may have been revoked.
func (c *codes) redeem(text, token string, now time.Time, add func(identity string) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	letters := mac(plain.Replace(strings.ToUpper(text)))
	for identity, known := range c.last {
		switch {
		case known.letters != letters || !now.Before(known.ends):
			continue
		case known.token == mac(token):
			return nil
		case known.token != "":
			return ErrCode
		}
		err := add(identity)
		if err == nil {
			known.token = mac(token)
			c.last[identity] = known
		}
		return err
	}
	return ErrCode
}
