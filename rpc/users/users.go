package users

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/rpc"
)

const (
	// minToken is the minimum length of a token in bytes. It excludes tokens that a person
	// makes up. 16 random hex digits are 64 bits.
	minToken = 16

	// maxToken is the maximum length of a token in a login, in bytes: see rpc.Config.Token.
	maxToken = 4096

	// maxTokens is the maximum number of tokens of one user. maxMade is the maximum length,
	// in bytes, of a token that a machine makes.
	//
	// A user may request and redeem any number of codes. The two limits bound what the user
	// thereby adds to the file, which each login reads.
	maxTokens = 1000
	maxMade   = 128

	// shown is the number of bytes of a token that Shown returns. It is enough to distinguish
	// a user's tokens, and too few to help an attacker guess them.
	shown = 4
)

// ErrUser means that the user has no token in the token file that begins as requested.
var ErrUser = errors.New("no such user")

// ErrTokens means that a user has a thousand tokens already.
var ErrTokens = errors.New("too many tokens")

// A Token is a line of a token file.
type Token struct {
	User   string
	Note   string // the note after " #"
	secret string
}

// Shown returns the first characters of the token. A list may show
// them, and Revoke finds the token by them.
func (t Token) Shown() string { return strings.ToValidUTF8(t.secret[:shown], "") }

// parse returns the tokens in a file's text. A line may have user:token, and a note after #.
func parse(text string) (tokens []Token, err error) {
	seen := make(map[string]bool)
	number := 0
	for line := range strings.Lines(text) {
		t, err := parseLine(line)
		if err == nil && seen[t.secret] {
			err = errors.New("the token stands there twice")
		}
		number++
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if t.secret != "" {
			seen[t.secret] = true
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// parseLine returns a line's token, or an empty one if the line has none.
func parseLine(line string) (t Token, err error) {
	line = strings.TrimPrefix(line, "\ufeff") // editors on Windows write this mark
	login, note, _ := strings.Cut(" "+strings.TrimSpace(line), " #")
	login = strings.TrimSpace(login)
	if login == "" {
		return t, nil
	}
	user, token, isPair := strings.Cut(login, ":")
	switch {
	case !isPair || !utf8.ValidString(token) || strings.ContainsFunc(token, unicode.IsSpace):
		return t, errors.New("it is not user:token with # before a note")
	case len(token) < minToken || len(token) > maxToken:
		return t, fmt.Errorf("the token has %d bytes and needs %d to %d; take a random one", len(token), minToken, maxToken)
	}
	return Token{user, strings.TrimSpace(note), token}, cmp.Or(CheckName(user), checkPrintable(token))
}

// checkPrintable refuses tokens with control characters, which Shown would pass to a terminal.
func checkPrintable(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("the token has characters that cannot be printed; take a random one")
	}
	return nil
}

// checkMade returns an error if a token cannot be one that a machine makes.
func checkMade(token string) error {
	t, err := parseLine("machine:" + token)
	switch {
	case err == nil && t.secret != token:
		err = errors.New("a space ends the token")
	case len(token) < minToken || len(token) > maxMade:
		err = fmt.Errorf("the token has %d bytes, one that a machine makes has %d to %d", len(token), minToken, maxMade)
	}
	return err
}

// MaxName is the maximum length of a name in bytes.
const MaxName = 79

// ErrName means that a name breaks the rules of [CheckName].
var ErrName = errors.New("bad name")

var goodName = regexp.MustCompile(`^[\pL\pM\p{Nd}_()]([\pL\pM\p{Nd} ._()-]*[\pL\pM\p{Nd}_()-])?$`)

// CheckName returns an error if a name cannot be that of a user or a machine.
//
// A name has 1 to 79 bytes of letters, digits, spaces and ._-(). It must not begin with a
// dot, dash or space, nor end with a dot or space. On Linux it can therefore be a file name
// as it is. Names are case-sensitive.
func CheckName(name string) error {
	if len(name) > MaxName || !goodName.MatchString(name) {
		return fmt.Errorf("%w %.80q: one has 1 to %d bytes of letters, digits, spaces and ._-(), begins with no dot, dash or space, and ends with no dot or space",
			ErrName, name, MaxName)
	}
	return nil
}

// editTime is how long to wait for other processes that edit a file,
// which takes them milliseconds.
const editTime = 5 * time.Second

// List returns the tokens of a file, in the order of the file. If a line is
// wrong, List may have read half a line. It then reads the file again under the
// lock that Add and Revoke hold while they write.
func List(path string) ([]Token, error) {
	_, tokens, err := list(path)
	return tokens, err
}

// list is like List, and also returns the text.
func list(path string) (text string, tokens []Token, err error) {
	text, tokens, err = read(path)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return text, tokens, err
	}
	f, lockErr := files.Lock(path, editTime)
	if lockErr != nil { // for instance because the process may only read the file
		return "", nil, err
	}
	defer f.Close()
	return read(path)
}

// read returns a file's text and tokens, without the lock.
func read(path string) (text string, tokens []Token, err error) {
	text, err = readText(path)
	if err == nil {
		tokens, err = parse(text)
	}
	if err != nil {
		return "", nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return text, tokens, nil
}

// readText returns a file's text.
func readText(path string) (text string, err error) {
	b, err := os.ReadFile(path)
	text = string(b)
	// After a crash, some file systems leave zeros in place of a line that was not yet on disk.
	if lines := strings.TrimRight(text, "\x00"); strings.HasSuffix(lines, "\n") {
		text = lines
	}
	return text, err
}

// Add gives a user a new random token, and returns the token once it is on disk. If the file
// at path does not exist, Add creates it. Add fails with [ErrName] for a bad name, and with
// [ErrTokens] if the user has a thousand tokens.
//
// A user may have several tokens, which notes distinguish. A note is one line of text and is
// not secret. Add and Revoke may run concurrently on one file, in several processes.
func Add(path, user string, note ...string) (token string, err error) {
	token = rand.Text()
	return token, add(path, user, token, note...)
}

// add is like Add, for a given token.
func add(path, user, token string, note ...string) error {
	line := strings.Join(append([]string{user + ":" + token}, note...), " # ") + "\n"
	if err := CheckName(user); err != nil {
		return err
	}
	if t, err := parseLine(line); err != nil || t.secret != token {
		return cmp.Or(err, ErrToken)
	}
	for _, n := range note {
		if !utf8.ValidString(n) || strings.ContainsFunc(n, unicode.IsControl) {
			return fmt.Errorf("the note %.100q is not one line of text", n)
		}
	}
	return edit(path, func(text string, tokens []Token) (string, error) {
		if slices.ContainsFunc(tokens, func(t Token) bool { return t.secret == token }) {
			return "", fmt.Errorf("%w: the token is there already", ErrToken)
		}
		others := slices.DeleteFunc(tokens, func(t Token) bool { return t.User == user })
		if has := len(tokens) - len(others); has >= maxTokens {
			return "", fmt.Errorf("%w: %s has %d, which is the limit; revoke those that are not used", ErrTokens, user, has)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			line = "\n" + line
		}
		return text + line, nil
	})
}

// Revoke removes the tokens of a user that begin with prefix, such as a Shown, and returns
// the number of tokens removed. If prefix is empty, it removes all tokens of the user. It
// fails with [ErrUser] if there are none.
//
// A login code that the server's owner requested by the user's name
// still lets the user in afterwards: see Invite.
func Revoke(path, user, prefix string) (revoked int, err error) {
	if _, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("token file: %w", err)
	}
	err = edit(path, func(text string, _ []Token) (string, error) {
		var left strings.Builder
		for line := range strings.Lines(text) {
			t, _ := parseLine(line)
			if t.User == user && t.secret != "" && strings.HasPrefix(t.secret, prefix) {
				login := t.User + ":" + t.secret
				line = strings.Replace(line, login, strings.Repeat("#", len(login)), 1)
				revoked++
			}
			left.WriteString(line)
		}
		if revoked == 0 {
			return "", fmt.Errorf("%w as %q with a token %s…", ErrUser, user, prefix)
		}
		return left.String(), nil
	})
	return revoked, err
}

// edit locks a token file and writes the text that change returns. It creates the file if it
// does not exist. It does not change a file that has an error in it.
//
// The text is written in place, and no line moves. A crash can therefore damage only the line
// that changes, and leaves no part of a new line. The file also keeps its owner, its mode and
// its links, so a server may read what root has edited.
func edit(path string, change func(text string, tokens []Token) (string, error)) error {
	f, err := lock(path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	before, tokens, err := read(path)
	text := before
	if err == nil {
		text, err = change(before, tokens)
	}
	if err == nil {
		err = write(f, before, text)
		if err != nil {
			text = before // remove the part that did fit
		}
		err = errors.Join(err, f.Truncate(int64(len(text))))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// disk is the part of a file that write uses.
type disk interface {
	io.WriterAt
	Sync() error
}

// write writes text in place of before.
//
// A new line is a comment until all of it is on disk. It becomes a token when its first byte
// is written. Otherwise a crash could leave a part of a line, which would lock out all users.
func write(f disk, before, text string) error {
	if start := len(before); len(text) > start {
		start += strings.IndexFunc(text[start:], func(r rune) bool { return r != '\n' })
		if _, err := f.WriteAt([]byte(text[:start]+"#"+text[start+1:]), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// lock locks the file at path, and creates it if it does not exist. If an editor replaces the
// file in the meantime, lock tries again.
func lock(path string) (*os.File, error) {
	for range 10 {
		f, err := files.Lock(path, editTime)
		if err != nil {
			return nil, err
		}
		if files.Stands(f) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: other files take its place all the time", path)
}

// ErrToken means that the token file does not contain the token of a login.
var ErrToken = errors.New("unknown token")

// Users knows the tokens of a file and the login codes. It reads the file again for each
// login. The codes are lost when the server ends.
//
// The methods are safe for concurrent use. Do not call those that
// read the file on the world's goroutine.
type Users struct {
	path string

	mu sync.Mutex // guards codes

	// The login codes that have not expired, by the MACs of their letters. They are of two
	// kinds. One is codes that were redeemed, each of which added a line to the token file.
	// The other is the newest code for each identity or user with which Invite was called.
	codes map[string]*code

	// known caches the content of the file. A login reads the file
	// again, but parses it only if it has changed.
	known atomic.Pointer[table]
}

// table has the user of each token in a text, by the token's MAC. It does not change.
type table struct {
	text  string
	users map[string]string
}

// Open reads the token file at path, which must exist.
func Open(path string) (*Users, error) {
	u := &Users{path: path, codes: make(map[string]*code)}
	_, err := u.current()
	return u, err
}

// Invite returns a login code for one more machine, such as ABCD-EFGH-IJKL. The code is
// valid for ten minutes from now, and only until Invite is called with the same
// argument again. The machine that the code let in may use it again within the ten
// minutes, because the answer may have been lost.
//
// A user requests a code with the identity of a connection, [rpc.Conn.Identity]. This code
// becomes invalid when the token of the identity is revoked.
//
// The person who runs the server calls Invite with a user's name alone. The user
// need not have tokens. This code stays valid even if the user's tokens are revoked.
// Never pass on a name that a client has sent.
func (u *Users) Invite(identity string, now time.Time) (string, error) {
	if err := CheckName(UserOf(identity)); err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.codes, func(_ string, c *code) bool {
		return !now.Before(c.ends) || c.identity == identity && c.token == ""
	})
	letters := rand.Text()[:codeLetters]
	u.codes[mac(letters)] = &code{identity: identity, ends: now.Add(codeLife)}
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
// another error, and does not use the previous content.
func (u *Users) Identify(presented []byte, now time.Time) (identity string, err error) {
	token := string(presented)
	if login := strings.Split(token, "\n"); len(login) == 3 {
		token = login[1]
		if err := u.redeem(login[0], token, login[2], now); err != nil {
			return "", err
		}
	}
	tokens, err := u.current()
	if err != nil {
		return "", err
	}
	digits := mac(token)
	if user, known := tokens[digits]; known {
		return user + "/" + digits, nil
	}
	return "", ErrToken
}

// ErrUnchecked is the error that a client gets while the token file cannot be read. The client's
// token may be right, so the client may try again, and the login does not count as failed.
var ErrUnchecked error = &rpc.CloseError{Code: rpc.ServerFull, Reason: "the server cannot check tokens now"}

// Authenticator returns a function for rpc.Config.Authenticate that identifies clients by
// Identify. If an error concerns the server's file, the function writes it to log and returns
// ErrUnchecked to the client instead. A nil log means slog.Default().
func (u *Users) Authenticator(log *slog.Logger) func(ctx context.Context, token []byte) (identity string, err error) {
	log = cmp.Or(log, slog.Default())
	return func(_ context.Context, token []byte) (identity string, err error) {
		identity, err = u.Identify(token, time.Now())
		wrong := func(kind error) bool { return errors.Is(err, kind) }
		if err != nil && !slices.ContainsFunc([]error{ErrToken, ErrTokens, ErrCode}, wrong) {
			log.Error("tokens cannot be checked", "error", err)
			return "", ErrUnchecked
		}
		return identity, err
	}
}

// Watch closes the connections of w whose tokens are no longer in the file. It reads the file
// once per interval, or each second if interval is 0. code, with which it closes them, is one
// of the game's. Watch returns when ctx ends.
//
// While the file cannot be read, Watch closes no connection. It writes to log
// when that state begins and when it ends. A nil log means slog.Default(). The
// world must be driven by another goroutine.
func (u *Users) Watch(ctx context.Context, w *rpc.World, code rpc.Code, interval time.Duration, log *slog.Logger) {
	interval = cmp.Or(max(interval, 0), time.Second)
	log = cmp.Or(log, slog.Default())
	blind := false
	for ctx.Err() == nil {
		var present []*rpc.Conn
		if w.Do(ctx, func() { present = w.Conns() }) == nil {
			err := u.dismiss(present, code)
			switch {
			case err != nil && !blind:
				log.Error("tokens cannot be checked: whose token is revoked stays connected", "error", err)
			case err == nil && blind:
				log.Info("tokens can be checked again")
			}
			blind = err != nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// dismiss closes those of conns whose tokens the file does not contain. The
// caller must list conns before. Earlier content of the file lacks the
// token of a machine that has just used a code.
func (u *Users) dismiss(conns []*rpc.Conn, code rpc.Code) error {
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

// redeem adds the token of a machine that has a code, and makes the
// code invalid for other tokens.
//
// The same token may come again after an answer was lost. That is not an error, and the token
// is not added again, because it may have been revoked.
func (u *Users) redeem(text, token, machine string, now time.Time) error {
	if err := cmp.Or(CheckName(machine), checkMade(token)); err != nil {
		return unlookedError{err}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.codes[mac(plain.Replace(strings.ToUpper(text)))]
	digits := mac(token)
	switch {
	case c == nil, !now.Before(c.ends), c.token != "" && c.token != digits:
		return ErrCode
	case c.token == digits:
		return nil
	}
	err := u.addFor(c.identity, token, "login of "+machine+", "+now.Format("2006-01-02 15:04"))
	if err == nil {
		c.token = digits
	}
	return err
}

// addFor adds a token for the user of an identity that requested a code. Because it reads the
// file, redeem calls it only for right codes: anybody may send wrong ones.
func (u *Users) addFor(identity, token, note string) error {
	tokens, err := u.current()
	_, digits, isToken := strings.Cut(identity, "/")
	switch {
	case err != nil:
		return err
	case isToken && tokens[digits] != UserOf(identity): // a user whose token was revoked must not return by a code
		return ErrCode
	}
	return add(u.path, UserOf(identity), token, note)
}

// Valid reads the file, and returns a function that reports whether the file contained the
// token of an identity at that time.
func (u *Users) Valid() (valid func(identity string) bool, err error) {
	tokens, err := u.current()
	return func(identity string) bool {
		user, digits, _ := strings.Cut(identity, "/")
		return user != "" && tokens[digits] == user
	}, err
}

// UserOf returns the user of an identity.
func UserOf(identity string) string {
	user, _, _ := strings.Cut(identity, "/")
	return user
}

// current returns the user of each token in the present file, by the token's MAC. It computes
// the MACs only if the text of the file has changed. Otherwise the cost of each login would
// grow with the number of tokens.
func (u *Users) current() (map[string]string, error) {
	known := u.known.Load()
	text, err := readText(u.path)
	if err == nil && known != nil && text == known.text {
		return known.users, nil
	}
	text, tokens, err := list(u.path)
	if err != nil {
		return nil, err
	}
	users := make(map[string]string, len(tokens))
	for _, t := range tokens {
		users[mac(t.secret)] = t.User
	}
	u.known.Store(&table{text, users})
	return users, nil
}

// key is random for each process. The time of a map look-up depends on the key that is looked
// up, but an attacker cannot know which MAC a guess has.
var key = []byte(rand.Text())

// mac returns 16 hex digits by which a secret is found. One guess hits
// one of n secrets with probability n in 2^64.
func mac(secret string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

const (
	// codeLetters is the number of letters in a code, of 5 bits each. With 60 bits, 10,000
	// guesses a second for ten minutes find one of a thousand open codes with probability 1 in
	// 200 million, however many clients make them. Package rpc does not allow so many guesses.
	codeLetters = 12

	// codeLife is how long a code is valid.
	codeLife = 10 * time.Minute
)

// ErrCode means that a login code admits no machine, for one of the reasons in its text.
//
// If the name or the token of the machine is not valid, the error is also an ErrCode, but its
// text describes only that. The code was not checked, and may be right.
var ErrCode = errors.New("the code is wrong, or was used, or is older than 10 minutes, or there is a newer one")

// unlookedError is the ErrCode of a machine whose name or token is not valid.
type unlookedError struct{ error }

func (e unlookedError) Error() string        { return "nobody looked at the code: " + e.error.Error() }
func (e unlookedError) Is(target error) bool { return target == ErrCode }
func (e unlookedError) Unwrap() error        { return e.error }

// ByCode returns what a machine presents, as rpc.Config.Token, to log in with a code instead
// of a token. The code may be written in upper or lower case, with or without dashes.
//
// The machine makes the token itself, for instance with crypto/rand.Text, and stores it
// before it logs in. The token has 16 to 128 bytes of printable UTF-8 without spaces. The
// machine's name becomes the token's note, and must pass [CheckName].
//
// If the answer to a login was lost, log in again with the same three arguments.
func ByCode(code, token, machine string) string {
	return strings.Join([]string{code, token, machine}, "\n")
}

// code is a login code.
type code struct {
	identity string // the argument of Invite; may be a user's name
	ends     time.Time
	token    string // the MAC of the token for which it was redeemed; empty = not redeemed
}

// plain reduces a code to its letters, however a person writes it.
// Codes do not contain the digits 0, 1, 8 and 9.
var plain = strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B")
