package users

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quivernet/quiver/internal/words"
)

const (
	// minToken is the minimum length of a token in bytes. It excludes most tokens that people make
	// up, but allows 16 random hex digits, which are 64 bits.
	minToken = 16

	// maxToken is the maximum length of a token in bytes. Longer tokens don't fit into a login: see
	// rpc.Config.Token.
	maxToken = 4096

	// A user may request and redeem any number of codes. Each adds a token to the file, which every
	// login reads. We therefore limit the number of tokens of a user (maxTokens), and the size of a
	// token that was chosen by the machine that redeemed a code (maxMachineToken).
	maxTokens       = 1000
	maxMachineToken = 128

	// shownBytes is the number of bytes of a token that Shown reveals. They are enough to tell a
	// user's tokens apart, but too few to help an attacker guess one.
	shownBytes = 4
)

// A Token is one line of a token file: a secret that lets its user log in.
type Token struct {
	User   string
	Note   string // the text after " #" on the line
	secret string
}

// Shown returns the first characters of the token. They are safe to display, and Revoke accepts
// them as a prefix.
func (t Token) Shown() string { return strings.ToValidUTF8(t.secret[:shownBytes], "") }

// parse returns the tokens in the text of a token file. A single bad line fails the whole file.
func parse(text string) (tokens []Token, err error) {
	secrets := make(map[string]bool)
	lineNumber := 0
	for line := range strings.Lines(text) {
		lineNumber++
		t, err := parseLine(line)
		if err == nil && secrets[t.secret] {
			err = errors.New("duplicate token")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lineNumber, err)
		}
		if t.secret == "" {
			continue // a blank line or a comment
		}
		secrets[t.secret] = true
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// parseLine returns the token on a line, or an empty Token if the line is blank or a comment.
func parseLine(line string) (t Token, err error) {
	line = strings.TrimPrefix(line, "\ufeff") // the byte order mark of editors on Windows

	// Because of the space in front, a line may consist of a comment alone.
	login, note, _ := strings.Cut(" "+strings.TrimSpace(line), " #")
	login = strings.TrimSpace(login)
	if login == "" {
		return t, nil
	}

	user, token, isPair := strings.Cut(login, ":")
	switch {
	case !isPair || !utf8.ValidString(token) || strings.ContainsFunc(token, unicode.IsSpace):
		return t, errors.New("want user:token, optionally followed by # and a note")
	case len(token) < minToken || len(token) > maxToken:
		return t, fmt.Errorf("token has %s; it must have %d to %d: use a random one",
			words.Bytes(len(token)), minToken, maxToken)
	}
	return Token{user, strings.TrimSpace(note), token}, cmp.Or(CheckName(user), checkPrintable(token))
}

// checkPrintable refuses tokens with control characters, because a program that lists tokens may
// print their Shown on a terminal.
func checkPrintable(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("token has unprintable characters: use a random one")
	}
	return nil
}

// checkMachineToken checks a token that a machine has made for itself before it redeems a code.
func checkMachineToken(token string) error {
	t, err := parseLine("machine:" + token)
	switch {
	case err == nil && t.secret != token:
		err = errors.New("token contains a space")
	case len(token) < minToken || len(token) > maxMachineToken:
		err = fmt.Errorf("token has %s; a machine's must have %d to %d",
			words.Bytes(len(token)), minToken, maxMachineToken)
	}
	return err
}

// MaxName is the maximum length of a name in bytes.
const MaxName = 79

// ErrName means that a name breaks the rules of [CheckName].
var ErrName = errors.New("bad name")

var goodName = regexp.MustCompile(`^[\pL\pM\p{Nd}_()]([\pL\pM\p{Nd} ._()-]*[\pL\pM\p{Nd}_()-])?$`)

// CheckName returns an error if name is not valid for a user or a machine.
//
// A name has 1 to 79 bytes of letters, digits, spaces and ._-(). It must not begin with a dot, dash
// or space, nor end with a dot or space. A valid name can be used unchanged as a file name on
// Linux. Names are case-sensitive.
func CheckName(name string) error {
	if len(name) > MaxName || !goodName.MatchString(name) {
		return fmt.Errorf("%w %.80q: it must have 1 to %d bytes of letters, digits, spaces and ._-(), not begin with a dot, dash or space, and not end with a dot or space",
			ErrName, name, MaxName)
	}
	return nil
}

// UserOf returns the user of an identity.
func UserOf(identity string) string {
	user, _, _ := strings.Cut(identity, "/")
	return user
}
