package users

import (
	"errors"
	"strings"
	"time"
)

const (
	// codeLetters is the number of letters in a code, each of which has 5 bits. With 60 bits,
	// 10,000 guesses a second for ten minutes find one of a thousand open codes with probability
	// 1 in 200 million, however many clients are guessing. Package rpc allows far fewer guesses.
	codeLetters = 12

	// codeLife is how long a code is valid.
	codeLife = 10 * time.Minute
)

// A loginCode lets one more machine log in.
type loginCode struct {
	identity string // the argument of Invite, which may be just a user's name
	expires  time.Time
	token    string // MAC of the token that redeemed the code; empty until then
}

// lookalikes removes separators from a code, and replaces digits with the letters that they look
// like. Codes don't contain the digits 0, 1, 8 and 9.
var lookalikes = strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B")

// codeOf returns the letters of a code, however a person has written it.
func codeOf(text string) string { return lookalikes.Replace(strings.ToUpper(text)) }

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

// ErrCode means that a login code admits no machine, for one of the reasons in its text. A code
// expires after ten minutes.
//
// If the name or the token of the machine is invalid, the error is an ErrCode, too, but its text
// says only what is wrong with them. The code itself wasn't checked and may be right.
var ErrCode = errors.New("login code is wrong, used, expired or replaced by a newer one")

// machineError is the ErrCode for a machine whose name or token is invalid.
type machineError struct{ error }

func (e machineError) Error() string        { return "login code not checked: " + e.error.Error() }
func (e machineError) Is(target error) bool { return target == ErrCode }
func (e machineError) Unwrap() error        { return e.error }
