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
	// minToken keeps out what a person thinks up. 16 random hex digits are 64 bits.
	minToken = 16
	// maxToken is what a login can carry, in bytes: see rpc.Config.Token.
	maxToken = 4096
	// maxTokens and maxMade bound what one user, who may ask for codes without end and redeem them, adds to the file, which each login reads: so
	// many tokens, and so many bytes of each.
	maxTokens = 1000
	maxMade   = 128
	// shown is how many bytes of a token Shown returns: enough to tell a user's tokens apart, too few to help who guesses.
	shown = 4
)

// ErrUser means that the token file has no token of the user that begins so.
var ErrUser = errors.New("no such user")

// ErrTokens means that a user has a thousand tokens already.
var ErrTokens = errors.New("too many tokens")

// Token is a line of a token file.
type Token struct {
	User   string
	Note   string // the line's comment
	secret string
}

// Shown returns the first characters of the token, which a list may show, and by which Revoke finds it.
func (t Token) Shown() string { return strings.ToValidUTF8(t.secret[:shown], "") }

// parse returns the tokens of a file's text: a line is user:token, then perhaps # and a note, or nothing but that.
func parse(text string) (tokens []Token, err error) {
	seen, number := make(map[string]bool), 0
	for line := range strings.Lines(text) {
		t, err := parseLine(line)
		if err == nil && seen[t.secret] {
			err = errors.New("the token stands there twice")
		}
		if number++; err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if t.secret != "" {
			seen[t.secret] = true
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// parseLine returns a line's token, an empty one when it has none.
func parseLine(line string) (t Token, err error) {
	login, note, _ := strings.Cut(" "+strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")), " #") // Windows' editors write such a mark
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

// checkPrintable refuses tokens with control characters, which Shown would hand to a terminal.
func checkPrintable(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("the token has characters that cannot be printed; take a random one")
	}
	return nil
}

// checkMade reports why a machine cannot have made a token.
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

// MaxName bounds a name in bytes.
const MaxName = 79

// ErrName means that a name breaks the rules of [CheckName].
var ErrName = errors.New("bad name")

var goodName = regexp.MustCompile(`^[\pL\pM\p{Nd}_()]([\pL\pM\p{Nd} ._()-]*[\pL\pM\p{Nd}_()-])?$`)

// CheckName reports why a name cannot be that of a user or a machine. A name has 1 to 79 bytes of letters, digits, spaces and ._-(); no dot, dash
// or space begins it, and no dot or space ends it. So it may name a file on Linux as it is. Upper and lower case differ.
func CheckName(name string) error {
	if len(name) > MaxName || !goodName.MatchString(name) {
		return fmt.Errorf("%w %.80q: one has 1 to %d bytes of letters, digits, spaces and ._-(), begins with no dot, dash or space, and ends with no dot or space",
			ErrName, name, MaxName)
	}
	return nil
}

// editTime bounds how long one waits for others who edit a file: they do so for milliseconds.
const editTime = 5 * time.Second

// List returns the tokens of a file, in its order. A file with a wrong line it reads again once it has the lock that Add and Revoke hold while they
// write: it may have seen half a line.
func List(path string) ([]Token, error) {
	_, tokens, err := list(path)
	return tokens, err
}

// list is List, and returns the text, too.
func list(path string) (text string, tokens []Token, err error) {
	text, tokens, err = read(path)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return text, tokens, err
	}
	f, lockErr := files.Lock(path, editTime)
	if lockErr != nil { // as who may only read it
		return "", nil, err
	}
	defer f.Close()
	return read(path)
}

// read returns a file's text and tokens, whoever writes to it meanwhile.
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
	if lines := strings.TrimRight(text, "\x00"); strings.HasSuffix(lines, "\n") {
		text = lines // the rest is what some file systems leave, after a crash, of a line that was not yet on the disk
	}
	return text, err
}

// Add gives a user a new random token, makes the file at path when it is missing, and returns the token when the file
// holds it durably. A user may have several: notes tell them apart. A note is one line of text and no secret. Add fails with [ErrName], and with
// [ErrTokens] for one who has a thousand. Add and Revoke may run at once on one file, in several processes.
func Add(path, user string, note ...string) (token string, err error) {
	token = rand.Text()
	return token, add(path, user, token, note...)
}

// add is Add for a token that somebody else has made.
func add(path, user, token string, note ...string) error {
	line := strings.Join(append([]string{user + ":" + token}, note...), " # ") + "\n"
	if err := CheckName(user); err != nil {
		return err
	}
	if t, err := parseLine(line); err != nil || t.secret != token {
		return cmp.Or(err, ErrToken)
	}
	if i := slices.IndexFunc(note, func(n string) bool { return !utf8.ValidString(n) || strings.ContainsFunc(n, unicode.IsControl) }); i >= 0 {
		return fmt.Errorf("the note %.100q is not one line of text", note[i])
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

// Revoke removes the tokens of a user that begin with prefix, such as a Shown, or all when that is empty, and returns how many those were. It
// fails with [ErrUser] when there are none. A code for which the server's owner asked by the user's name lets the user in afterwards: see Invite.
func Revoke(path, user, prefix string) (revoked int, err error) {
	if _, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("token file: %w", err)
	}
	err = edit(path, func(text string, _ []Token) (string, error) {
		var left strings.Builder
		for line := range strings.Lines(text) {
			if t, _ := parseLine(line); t.User == user && t.secret != "" && strings.HasPrefix(t.secret, prefix) {
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

// edit locks a token file, which it makes when it is missing, and writes what change makes of its text. A file that is wrong
// stays as it is. The text is written where it stands, and no line of it moves: so that a crash spoils no other line than
// the one that changes, and leaves no piece of a new one, and that the file keeps its owner, its mode and its links: a server may read what root
// has edited.
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
		if err = write(f, before, text); err != nil {
			text = before // without what there was room for
		}
		err = errors.Join(err, f.Truncate(int64(len(text))))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// disk is what write needs of a file.
type disk interface {
	io.WriterAt
	Sync() error
}

// write writes text where before stood. A new line is a comment until all of it is on the disk, and becomes a token by its first byte: a piece
// of a line, which is all that a crash may leave, would keep everybody out.
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

// lock locks the file that stands at path, which it makes when it is missing: not one in whose place an editor has put another meanwhile.
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

// ErrToken means that the token file does not hold the token of a login.
var ErrToken = errors.New("unknown token")

// Users knows the tokens of a file, which it reads again for each login, and the login codes, which it forgets when the server ends. Its methods
// are safe for concurrent use, and those that read the file are not for the world's goroutine.
type Users struct {
	path string

	// codes has login codes that are not too old, by the MACs of their letters: those that were redeemed, each of which has added a line to the token
	// file, and the newest of each identity, or user, that Invite was called with. Guarded by mu.
	codes map[string]*code
	mu    sync.Mutex

	// known is what the file held when it was last read: a login reads it again, but works only for what has changed.
	known atomic.Pointer[table]
}

// table has the user of each token's MAC in a text. It is never changed.
type table struct {
	text  string
	users map[string]string
}

// Open reads the token file at path, which must be there.
func Open(path string) (*Users, error) {
	u := &Users{path: path, codes: make(map[string]*code)}
	_, err := u.current()
	return u, err
}

// Invite returns a login code for one more machine, such as ABCD-EFGH-IJKL. It is good for ten minutes from now, and only until Invite is called
// with the same argument again; the machine that was let in by it may come by it again for the ten minutes, because the answer may have been lost.
//
// A user asks for one by the identity of a connection, [rpc.Conn.Identity], and that code is void when the token of the identity is revoked. Who
// runs the server calls Invite with a user's name alone, also that of a user who has no token yet: that code stays good whatever becomes of the
// user's tokens. Never pass on a name that comes from a client.
func (u *Users) Invite(identity string, now time.Time) (string, error) {
	if err := CheckName(UserOf(identity)); err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.codes, func(_ string, c *code) bool { return !now.Before(c.ends) || c.identity == identity && c.token == "" })
	letters := rand.Text()[:codeLetters]
	u.codes[mac(letters)] = &code{identity: identity, ends: now.Add(codeLife)}
	return letters[:4] + "-" + letters[4:8] + "-" + letters[8:], nil
}

// Identify returns the identity of a login: the user's name, a slash, which no name has, and 16 hex digits that stand for the token until the
// program ends and tell nothing of it. Presented is a token or what [ByCode] has made. Identify fails with [ErrToken] when the file does not hold
// the token, with [ErrCode] or [ErrTokens] when the code admits nobody, and otherwise when the file cannot be read: what it held before lets
// nobody in. Now is time.Now(), but in tests.
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

// ErrUnchecked is what a client is told while the token file cannot be read. Its token may be right: it may try again, and it is no failed login.
var ErrUnchecked error = &rpc.CloseError{Code: rpc.ServerFull, Reason: "the server cannot check tokens now"}

// Authenticator returns a function for rpc.Config.Authenticate. It identifies who logs in; errors that concern the server's file it writes to
// log, slog.Default() when that is nil, and the client is told ErrUnchecked instead.
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

// Watch reads the file once in an interval, each second when that is 0, and closes the connections of a world whose tokens it does not hold, with
// a code of the game's. It returns when ctx ends. While the file cannot be read it closes none: it writes to log, slog.Default() when that
// is nil, when that begins and when it is over. Something must drive the world, and it must not be Watch's goroutine.
func (u *Users) Watch(ctx context.Context, w *rpc.World, code rpc.Code, interval time.Duration, log *slog.Logger) {
	interval, log = cmp.Or(max(interval, 0), time.Second), cmp.Or(log, slog.Default())
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

// dismiss closes those of conns whose tokens the file does not hold. It reads the file after conns were listed: one that was read before lacks
// the token of a machine that has just come by a code.
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

// redeem adds the token of a machine that has a code, and makes the code void for other tokens. The same token again, after an answer that was
// lost, is no error, and is not added again: it may have been revoked.
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

// addFor adds a token for the user of an identity that asked for a code. It reads the file, so redeem calls it for right codes only: anybody may
// send wrong ones.
func (u *Users) addFor(identity, token, note string) error {
	tokens, err := u.current()
	_, digits, isToken := strings.Cut(identity, "/")
	switch {
	case err != nil:
		return err
	case isToken && tokens[digits] != UserOf(identity): // who is put out does not come in again by a code
		return ErrCode
	}
	return add(u.path, UserOf(identity), token, note)
}

// Valid reads the file, and returns a function that reports whether it held the token of an identity then.
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

// current returns the user of each token's MAC, as the file has them now. It makes the MACs anew only when the file has another text: else
// each login would cost as much as there are tokens.
func (u *Users) current() (map[string]string, error) {
	known := u.known.Load()
	if text, err := readText(u.path); err == nil && known != nil && text == known.text {
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

// key is this process's. A map's lookup takes a time that depends on what is looked for, but nobody outside can tell which
// MAC a guess has.
var key = []byte(rand.Text())

// mac returns 16 hex digits by which a secret is found: one guess hits one of n secrets with a chance of n in 2^64.
func mac(secret string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

const (
	// codeLetters is how many letters of 5 bits a code has. Of 60 bits, 10,000 guesses a second for ten minutes find one of
	// a thousand open codes with a chance of 1 in 200 million, whoever makes them. Package rpc lets nobody guess so often.
	codeLetters = 12
	// codeLife is how long a code is good for.
	codeLife = 10 * time.Minute
)

// ErrCode means that nobody is admitted by a login code, for one of the reasons that its text names. Of a machine whose name or token is none the
// error is an ErrCode, too, but its text says only what is wrong with those: nobody looked at the code, which may be good.
var ErrCode = errors.New("the code is wrong, or was used, or is older than 10 minutes, or there is a newer one")

// unlookedError is the ErrCode of a machine whose name or token is none.
type unlookedError struct{ error }

func (e unlookedError) Error() string        { return "nobody looked at the code: " + e.error.Error() }
func (e unlookedError) Is(target error) bool { return target == ErrCode }
func (e unlookedError) Unwrap() error        { return e.error }

// ByCode returns what a machine presents in a token's place, as rpc.Config.Token, to log in by a code, which may be written in any case, with
// dashes or without. The token is of the machine's own making: crypto/rand.Text makes a good one, and the machine keeps it before it logs in. It
// has 16 to 128 bytes of UTF-8, which can be printed and are no spaces. The machine's name is for the token's note, and keeps the rules of
// [CheckName]. A login whose answer was lost is made again with the same three.
func ByCode(code, token, machine string) string {
	return strings.Join([]string{code, token, machine}, "\n")
}

// code is a login code.
type code struct {
	identity string // or user, that Invite was called with
	ends     time.Time
	token    string // the MAC of the token that it was redeemed for; empty: it is open
}

// plain makes a code, however a person writes it, its letters alone. Codes have no digits 0, 1, 8 and 9.
var plain = strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B")
