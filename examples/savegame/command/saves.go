package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
)

// saveCommands declares the commands that list saves and edit them.
func saveCommands() []*cli.Command {
	asJSON := func() cli.Flag {
		return &cli.BoolFlag{Name: "json", Usage: "print a JSON array, with digests of what the versions hold"}
	}
	return []*cli.Command{
		client("login", "HOST:PORT CODE", "make this machine a player's, by a line that serve or invite printed", login),
		client("invite", "", "print the line that logs your next machine in", visiting(invite)),
		client("ls", "", "list the saves, each by its newest version", visiting(ls), asJSON()),
		client("history", "NAME", "list the versions of a save", visiting(history), asJSON()),
		client("restore", "NAME[@VERSION]", "make an old version the newest, also of a save in the trash", visiting(restore)),
		client("rm", "NAME", "put a save into the trash, where restore finds it for a while", visiting(remove),
			&cli.BoolFlag{Name: "forever", Usage: "delete all its versions instead"},
			&cli.BoolFlag{Name: "force", Usage: "with --forever, also versions that this machine has not seen"}),
	}
}

// ls prints the saves.
func ls(ctx context.Context, s *session, client *desk.Client) error { return s.list(client.List(ctx)) }

// history prints the versions of a save.
func history(ctx context.Context, s *session, client *desk.Client) error {
	name, err := wholeSave(s)
	if err != nil {
		return err
	}
	return s.list(client.History(ctx, name))
}

// wholeSave returns the save that is the argument of a command about all
// versions. It fails if the argument names one version.
func wholeSave(s *session) (name string, err error) {
	name, _, numbered := strings.Cut(s.args[0], "@")
	if numbered {
		return "", usage("%s is about all versions of %s, and not about one (see %s --help)", s.Name, name, s.FullName())
	}
	return name, users.CheckName(name)
}

// list prints what a server knows about versions, for people or for programs.
func (s *session) list(all []versions.Version, err error) error {
	if err != nil {
		return err
	}
	for i := range all {
		v := &all[i]
		v.Name, v.Machine, v.Kind = plain(v.Name), plain(v.Machine), versions.Kind(plain(string(v.Kind)))
	}
	if s.Bool("json") {
		e := json.NewEncoder(s.Writer)
		e.SetIndent("", "\t")
		return e.Encode(append([]versions.Version{}, all...)) // no versions are [], and not null
	}
	w := tabwriter.NewWriter(s.Writer, 0, 0, 2, ' ', 0)
	first := make(map[string]int) // the first version of each content
	for _, v := range all {
		key := v.Name + "@" + v.Content.String()
		when := ""
		if !v.Time.IsZero() { // the time of a damaged record is unknown
			when = v.Time.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", v.Name, v.Number, describe(v, first[key]), when, v.Machine)
		first[key] = cmp.Or(first[key], v.Number)
	}
	return w.Flush()
}

// describe returns what a version is, and whether it is a return to an earlier
// one, as by a restore, or by a put of the same content.
func describe(v versions.Version, earlier int) string {
	switch {
	case v.Kind == versions.Trash:
		return "in the trash"
	case v.Kind == versions.Damaged:
		return "damaged"
	case earlier > 0:
		return fmt.Sprintf("%s, as @%d", contentText(v), earlier)
	}
	return contentText(v)
}

// restore makes an old version the newest.
func restore(ctx context.Context, s *session, client *desk.Client) error {
	name, number, err := parseSave(s.args[0])
	if err != nil {
		return err
	}
	stored, err := desk.Restore.Ask(ctx, client.Desk(), desk.Edit{Name: name, Version: number, Machine: s.Machine})
	if err != nil {
		return err
	}
	s.noteDisplaced(stored.Displaced)
	if stored.Outcome == versions.Unchanged && !s.again {
		s.say("restored nothing: version %d, which is the newest, has all of %s", stored.Version.Number, s.args[0])
	} else {
		s.say("restored %s: version %d, %s", s.args[0], stored.Version.Number, contentText(stored.Version))
	}
	return nil
}

// remove puts a save into the trash, or deletes it.
func remove(ctx context.Context, s *session, client *desk.Client) error {
	name, err := wholeSave(s)
	if err != nil {
		return err
	}
	seen, err := s.seenLast(name)
	if err != nil {
		return err
	}
	edit := desk.Edit{Name: name, Machine: s.Machine, Seen: seen, Force: s.Bool("force")}
	if s.Bool("forever") {
		return s.erase(ctx, client, edit)
	}
	if _, err = desk.Remove.Ask(ctx, client.Desk(), edit); err != nil && !(s.again && errors.Is(err, versions.ErrTrash)) {
		return err
	}
	s.say("removed %s; savegame restore %s brings it back", name, quoted(name))
	return nil
}

// erase deletes a save permanently, unless its newest version is one that this
// machine has not seen.
func (s *session) erase(ctx context.Context, client *desk.Client, edit desk.Edit) error {
	name := edit.Name
	_, err := desk.Erase.Ask(ctx, client.Desk(), edit)
	if errors.Is(err, versions.ErrConflict) {
		return fail(exitConflict, "%v; --force deletes it all the same, and %s", err, shown(name))
	}
	done := errors.Is(err, versions.ErrNoSave) && (s.again || edit.Seen.Number > 0) // by us, or by another machine
	if err != nil && !done {
		return err
	}
	s.say("removed %s for good", name)
	return s.forget(name)
}

// shown returns how a person can look at what is in the way.
func shown(name string) string {
	return fmt.Sprintf("savegame history %s and get %s@VERSION PATH show what is there", quoted(name), quoted(name))
}

// quoted returns a name as shells take it.
func quoted(name string) string {
	if strings.ContainsAny(name, " ()") {
		return `"` + name + `"`
	}
	return name
}

// pasteLine returns the line that logs a machine in: where the server is, and a code
// for one machine, with the fingerprint by which the machine recognizes the server.
func pasteLine(server, code, fingerprint string) string {
	raw, _ := hex.DecodeString(fingerprint) // never fails: it is that of a certificate, or of a login that worked
	return fmt.Sprintf("savegame login %s %s.%s", server, plain(code), base64.RawURLEncoding.EncodeToString(raw))
}

// codeLetters is how long a login code is; anything longer is a token.
const codeLetters = len("ABCD-EFGH-IJKL")

// login redeems a code for a token and stores that, or stores the token that is given.
func login(ctx context.Context, s *session) error {
	code, pin, _ := strings.Cut(s.args[1], ".")
	fingerprint, err := base64.RawURLEncoding.DecodeString(pin)
	if err != nil || len(fingerprint) != 32 {
		return usage("the code %q is not whole: paste the line as it was printed", s.args[1])
	}
	if s.Token != "" && s.Fingerprint != hex.EncodeToString(fingerprint) {
		s.note("this replaces the login at %s; with --profile NAME there can be several", s.Server)
	}
	s.Server, s.Fingerprint, s.Machine = s.args[0], hex.EncodeToString(fingerprint), machineName()
	s.Token, s.config.Token = code, code
	if len(code) <= codeLetters {
		s.Token = rand.Text()
		s.config.Token = users.ByCode(code, s.Token, s.Machine)
	}
	if err := os.MkdirAll(s.home, 0o700); err != nil { // before the code is used up
		return err
	}
	return s.reach(ctx, func(ctx context.Context, client *desk.Client) (err error) {
		if s.User, err = desk.User.Ask(ctx, client.Desk(), rpc.None{}); err != nil {
			return err
		}
		if err := writeJSON(s.file(), s.profile); err != nil {
			return err
		}
		s.say("logged in at %s as %s, on %s, by the token %s…", s.Server, plain(s.User), s.Machine, plain(s.Token[:min(4, len(s.Token))]))
		s.note("now: savegame put PATH, or savegame ls and savegame get NAME")
		return nil
	})
}

// invite prints the line for another machine of the user.
func invite(ctx context.Context, s *session, client *desk.Client) error {
	code, err := desk.Invite.Ask(ctx, client.Desk(), rpc.None{})
	if err == nil {
		s.note("paste this line on the other machine within 10 minutes:")
		err = s.say("%s", pasteLine(s.Server, code, s.Fingerprint))
	}
	return err
}
