package users

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// ErrToken means that the token file does not contain the token of a login.
var ErrToken = errors.New("unknown token")

// ErrUnchecked is the error that a client gets while the server can't read its token file. The
// client's token may be valid, so the client may try again, and the login doesn't count as failed.
var ErrUnchecked error = &rpc.CloseError{Code: rpc.ServerFull, Reason: "the server cannot check tokens now"}

// Users checks logins against a token file and a list of login codes. It reads the file again
// for every login, so edits take effect at once. The codes are lost when the server ends.
//
// The methods are safe for concurrent use. Do not call methods that read the file on the world's
// goroutine.
type Users struct {
	path string

	// codes has the login codes that have not expired, keyed by the MAC of their letters. A code
	// that was redeemed has added a line to the token file. For each argument of Invite, there is
	// at most one code that was not redeemed.
	codes map[string]*loginCode
	mu    sync.Mutex // guards codes

	// cache is the result of parsing the file. Every login reads the file, but parses it only if it
	// has changed since then.
	cache atomic.Pointer[table]
}

// A table maps the tokens in a file's text to their users. It is immutable.
type table struct {
	text  string
	users map[string]string // keyed by the token's MAC
}

// Open reads the token file at path, which must exist.
func Open(path string) (*Users, error) {
	u := &Users{path: path, codes: make(map[string]*loginCode)}
	_, err := u.load()
	return u, err
}

// Invite returns a login code for one more machine, such as ABCD-EFGH-IJKL. The code is valid for
// ten minutes from now, but becomes invalid earlier if Invite is called with the same argument
// again. The machine that has used the code may use it again within the ten minutes, in case the
// answer got lost.
//
// For a code that a user requests, identity is the identity of the user's connection, as returned
// by [rpc.Conn.Identity]. Such a code becomes invalid when the token of that identity is revoked.
//
// For a code that the person who runs the server requests, identity is just a user's name. The user
// doesn't need to have any tokens, and the code stays valid even if the user's tokens are revoked.
// Never pass on a name that a client has sent.
func (u *Users) Invite(identity string, now time.Time) (string, error) {
	if err := CheckName(UserOf(identity)); err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.codes, func(_ string, c *loginCode) bool {
		expired := !now.Before(c.expires)
		replaced := c.identity == identity && c.token == ""
		return expired || replaced
	})
	letters := rand.Text()[:codeLetters]
	u.codes[mac(letters)] = &loginCode{identity: identity, expires: now.Add(codeLife)}
	return letters[:4] + "-" + letters[4:8] + "-" + letters[8:], nil
}

// Identify returns the identity of a login. presented is a token or a result of [ByCode]. now
// is time.Now(), except in tests.
//
// The identity is the user's name, a slash, which no name contains, and 16 hex digits. The
// digits stand for the token until the program ends, and reveal nothing about it.
//
// Identify fails with [ErrToken] if the file does not contain the token, and with [ErrCode]
// or [ErrTokens] if the code admits no machine. If the file cannot be read, it returns
// another error, and does not fall back on the previous content.
func (u *Users) Identify(presented []byte, now time.Time) (identity string, err error) {
	token := string(presented)
	if byCode := strings.Split(token, "\n"); len(byCode) == 3 {
		// Redeeming the code adds the token to the file, where we find it below.
		token = byCode[1]
		if err := u.redeem(byCode[0], token, byCode[2], now); err != nil {
			return "", err
		}
	}
	tokens, err := u.load()
	if err != nil {
		return "", err
	}
	digits := mac(token)
	if user, known := tokens[digits]; known {
		return user + "/" + digits, nil
	}
	return "", ErrToken
}

// redeem lets a machine exchange a code for the right to log in with token. It adds the token to
// the file. No other token can be added by the same code.
func (u *Users) redeem(code, token, machine string, now time.Time) error {
	if err := cmp.Or(CheckName(machine), checkMachineToken(token)); err != nil {
		return machineError{err}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.codes[mac(codeOf(code))]
	digits := mac(token)
	switch {
	case c == nil, !now.Before(c.expires):
		return ErrCode
	case c.token == digits:
		// The machine didn't get our answer and is trying again. We must not add the token again,
		// because it may have been revoked since.
		return nil
	case c.token != "":
		// Another machine was faster.
		return ErrCode
	}
	err := u.addFor(c.identity, token, "login of "+machine+", "+now.Format("2006-01-02 15:04"))
	if err == nil {
		c.token = digits
	}
	return err
}

// addFor adds a token for the user of an identity that requested a code. Because it reads the file,
// and anybody may send wrong codes, redeem calls it only after it has found the code to be right.
func (u *Users) addFor(identity, token, note string) error {
	tokens, err := u.load()
	if err != nil {
		return err
	}
	user, digits, hasToken := strings.Cut(identity, "/")
	if hasToken && tokens[digits] != user {
		// The token with which the code was requested has been revoked in the meantime. The code
		// must not let its user back in.
		return ErrCode
	}
	return add(u.path, user, token, note)
}

// Authenticator returns a function for rpc.Config.Authenticate that identifies clients by
// Identify. If an error concerns the server's file, the function writes it to log and returns
// ErrUnchecked to the client instead. A nil log means slog.Default().
func (u *Users) Authenticator(log *slog.Logger) func(ctx context.Context, token []byte) (identity string, err error) {
	log = cmp.Or(log, slog.Default())
	return func(_ context.Context, token []byte) (identity string, err error) {
		identity, err = u.Identify(token, time.Now())
		refused := errors.Is(err, ErrToken) || errors.Is(err, ErrTokens) || errors.Is(err, ErrCode)
		if err != nil && !refused {
			log.Error("tokens cannot be checked", "error", err)
			return "", ErrUnchecked
		}
		return identity, err
	}
}

// Watch closes the connections of w whose tokens are no longer in the file. It closes them with
// code, which the game chooses. Watch reads the file once per interval, or each second if interval
// is 0. It returns when ctx ends.
//
// While the file cannot be read, Watch closes no connection. It writes to log when the file becomes
// unreadable, and when it is readable again. A nil log means slog.Default(). The world must be
// driven by another goroutine.
func (u *Users) Watch(ctx context.Context, w *rpc.World, code rpc.Code, interval time.Duration, log *slog.Logger) {
	interval = cmp.Or(max(interval, 0), time.Second)
	log = cmp.Or(log, slog.Default())
	unreadable := false
	for ctx.Err() == nil {
		var conns []*rpc.Conn
		if w.Do(ctx, func() { conns = w.Conns() }) == nil {
			err := u.closeRevoked(conns, code)
			switch {
			case err != nil && !unreadable:
				log.Error("tokens cannot be checked; users with revoked tokens stay connected", "error", err)
			case err == nil && unreadable:
				log.Info("tokens can be checked again")
			}
			unreadable = err != nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// closeRevoked reads the file, and closes the connections in conns whose tokens it doesn't contain.
//
// The caller must list the connections first. If we read the file before that, a machine could use
// a code in between. We would then close its connection, because our copy of the file lacks its
// token.
func (u *Users) closeRevoked(conns []*rpc.Conn, code rpc.Code) error {
	valid, err := u.Valid()
	if err != nil {
		return err
	}
	for _, c := range conns {
		if !valid(c.Identity()) {
			c.Close(code, "the token was revoked")
		}
	}
	return nil
}

// Valid reads the file, and returns a function that reports whether the file contained the
// token of an identity at that time.
func (u *Users) Valid() (valid func(identity string) bool, err error) {
	tokens, err := u.load()
	return func(identity string) bool {
		user, digits, _ := strings.Cut(identity, "/")
		return user != "" && tokens[digits] == user
	}, err
}

// load reads the file and returns the user of each token, by the token's MAC. It computes the
// MACs only if the text has changed since the last call. Otherwise the cost of every login would
// grow with the number of tokens.
func (u *Users) load() (map[string]string, error) {
	cached := u.cache.Load()
	text, err := readText(u.path)
	if err == nil && cached != nil && text == cached.text {
		return cached.users, nil
	}
	text, tokens, err := list(u.path)
	if err != nil {
		return nil, err
	}
	users := make(map[string]string, len(tokens))
	for _, t := range tokens {
		users[mac(t.secret)] = t.User
	}
	u.cache.Store(&table{text, users})
	return users, nil
}

// key is random for each process. The time of a map look-up may depend on what is looked up, but an
// attacker who doesn't know the key can't tell which MAC belongs to a guess.
var key = []byte(rand.Text())

// mac returns 16 hex digits that stand for a secret. The probability that a single guess matches
// one of n secrets is n in 2^64.
func mac(secret string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
