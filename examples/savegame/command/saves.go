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
		return &cli.BoolFlag{Name: "json", Usage: "print a JSON array that includes digests of the content"}
	}
	return []*cli.Command{
		client("login", "HOST:PORT CODE", "log this machine in with a line that serve or invite printed", login),
		client("invite", "", "print the line that logs your next machine in", visiting(invite)),
		client("ls", "", "list the newest version of each save", visiting(ls), asJSON()),
		client("history", "NAME", "list the versions of a save", visiting(history), asJSON()),
		client("restore", "NAME[@VERSION]", "make an old version the newest, even of a save in the trash", visiting(restore)),
		client("rm", "NAME", "move a save to the trash, from which it can be restored for a while", visiting(remove),
			&cli.BoolFlag{Name: "forever", Usage: "permanently delete all its versions instead"},
			&cli.BoolFlag{Name: "force", Usage: "with --forever, even if this machine has not seen all versions"}),
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

// wholeSave returns the argument of a command about all versions of a save. It fails if the
// argument names a single version.
func wholeSave(s *session) (name string, err error) {
	name, _, numbered := strings.Cut(s.args[0], "@")
	if numbered {
		return "", usage("%s affects all versions of %s, not a single one (see %s --help)", s.Name, name, s.FullName())
	}
	return name, users.CheckName(name)
}

// list prints versions for people or, with --json, for programs.
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
		return e.Encode(append([]versions.Version{}, all...)) // so that no versions are [] and not null
	}
	w := tabwriter.NewWriter(s.Writer, 0, 0, 2, ' ', 0)
	first := make(map[string]int) // the first version of each content
	for _, v := range all {
		key := v.Name + "@" + v.Content.String()
		when := ""
		if !v.Time.IsZero() { // unknown for a damaged record
			when = v.Time.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", v.Name, v.Number, describe(v, first[key]), when, v.Machine)
		first[key] = cmp.Or(first[key], v.Number)
	}
	return w.Flush()
}

// describe describes a version, including whether it returns to the content of an earlier one, as
// after a restore.
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
		s.say("nothing to restore: version %d, the newest, already has the content of %s", stored.Version.Number, s.args[0])
	} else {
		s.say("restored %s: version %d, %s", s.args[0], stored.Version.Number, contentText(stored.Version))
	}
	return nil
}

// remove moves a save to the trash, or deletes it permanently.
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
	s.say("removed %s; restore it with savegame restore %s", name, quoted(name))
	return nil
}

// erase permanently deletes a save, unless this machine hasn't seen its newest version.
func (s *session) erase(ctx context.Context, client *desk.Client, edit desk.Edit) error {
	name := edit.Name
	_, err := desk.Erase.Ask(ctx, client.Desk(), edit)
	if errors.Is(err, versions.ErrConflict) {
		return fail(exitConflict, "%v; use --force to delete it nevertheless; %s", err, shown(name))
	}
	done := errors.Is(err, versions.ErrNoSave) && (s.again || edit.Seen.Number > 0) // erased by us or by another machine
	if err != nil && !done {
		return err
	}
	s.say("permanently deleted %s", name)
	return s.forget(name)
}

// shown tells a person how to look at a conflicting version.
func shown(name string) string {
	return fmt.Sprintf("to see its versions, run savegame history %s and savegame get %s@VERSION PATH", quoted(name), quoted(name))
}

// quoted returns a name as it must be written in a shell.
func quoted(name string) string {
	if strings.ContainsAny(name, " ()") {
		return `"` + name + `"`
	}
	return name
}

// pasteLine returns the command line that logs a machine in. It contains the server's address, a
// code for one machine, and the fingerprint by which the machine recognizes the server.
func pasteLine(server, code, fingerprint string) string {
	raw, _ := hex.DecodeString(fingerprint) // can't fail, because it comes from a certificate or a successful login
	return fmt.Sprintf("savegame login %s %s.%s", server, plain(code), base64.RawURLEncoding.EncodeToString(raw))
}

// codeLetters is how long a login code is; anything longer is a token.
const codeLetters = len("ABCD-EFGH-IJKL")

// login exchanges a code for a token, which it stores, or stores a given token.
func login(ctx context.Context, s *session) error {
	code, pin, _ := strings.Cut(s.args[1], ".")
	fingerprint, err := base64.RawURLEncoding.DecodeString(pin)
	if err != nil || len(fingerprint) != 32 {
		return usage("code %q is incomplete: paste the whole line as it was printed", s.args[1])
	}
	if s.Token != "" && s.Fingerprint != hex.EncodeToString(fingerprint) {
		s.note("this replaces the login at %s; use --profile NAME to have several", s.Server)
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
		s.say("logged in at %s as %s, on %s, with token %s…", s.Server, plain(s.User), s.Machine, plain(s.Token[:min(4, len(s.Token))]))
		s.note("next: savegame put PATH, or savegame ls and savegame get NAME")
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
