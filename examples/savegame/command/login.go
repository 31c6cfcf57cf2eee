package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quivernet/quiver/examples/savegame/desk"
)

// pasteLine is what logs a machine in: where the server is, and a code that is good for one machine, with the fingerprint by
// which the machine knows the server.
func pasteLine(server, code, fingerprint string) string {
	raw, _ := hex.DecodeString(fingerprint) // never fails: it is a certificate's, or of a login that worked
	return fmt.Sprintf("savegame login %s %s.%s", server, plain(code), base64.RawURLEncoding.EncodeToString(raw))
}

// codeLetters is how long a login code is; what is longer is a token.
const codeLetters = len("ABCD-EFGH-IJKL")

// login redeems a code for a token, and keeps that, or keeps the token that is given.
func login(ctx context.Context, s *session) error {
	code, pin, _ := strings.Cut(s.args[1], ".")
	fingerprint, err := base64.RawURLEncoding.DecodeString(pin)
	if err != nil || len(fingerprint) != 32 {
		return usage("the code %q is not whole: paste the line as it was printed", s.args[1])
	}
	if s.Token != "" && s.Fingerprint != hex.EncodeToString(fingerprint) {
		s.note("this replaces the login at %s; with --profile NAME there can be several", s.Server)
	}
	s.Server, s.Fingerprint, s.Token, s.User = s.args[0], hex.EncodeToString(fingerprint), "", ""
	if len(code) > codeLetters {
		s.Token = code
	}
	secret := rand.Text() // an answer that was lost is given again to who knows it
	return s.reach(ctx, func(ctx context.Context, client *desk.Client) (err error) {
		if s.Token == "" {
			s.User, s.Token, err = client.Redeem(ctx, code, machineName(), secret)
		} else {
			_, err = client.List(ctx)
		}
		if err != nil {
			return err
		}
		s.Machine = machineName()
		if err := writeJSON(s.file(), s.profile); err != nil {
			return err
		}
		s.say("logged in at %s as %s, on %s, by the token %s…", s.Server, cmp.Or(plain(s.User), "its user"), s.Machine, plain(s.Token[:min(4, len(s.Token))]))
		s.note("now: savegame put PATH, or savegame ls and savegame get NAME")
		return nil
	})
}

// invite prints the line for another machine of the user's.
func invite(ctx context.Context, s *session, client *desk.Client) error {
	code, err := client.Invite(ctx)
	if err == nil {
		s.note("paste this line on the other machine within 10 minutes:")
		s.say("%s", pasteLine(s.Server, code, s.Fingerprint))
	}
	return err
}
