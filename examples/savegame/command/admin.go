package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc/cert"
)

// serverCommands declares what runs where the server's folder is.
func serverCommands() []*cli.Command {
	command := func(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
		return command(name, args, summary, do, append(flags,
			&cli.StringFlag{Name: "dir", Value: "savegame-data", Usage: "`FOLDER` of the certificate, the saves and " + tokenFile + ", which has a line user:token for each login"})...)
	}
	serve := command("serve", "", "keep saves in a folder, for who logs in", serve, serveFlags()...)
	serve.Description = "The line that it prints logs one machine in; there savegame invite prints the line for the next one.\nAfter a signal it takes nothing new, and ends when running puts and gets have; after a second one at once."
	return []*cli.Command{
		serve,
		command("check", "", "read all that a stopped server keeps, and verify it", check,
			&cli.BoolFlag{Name: "repair", Usage: "delete what is damaged, so that a put of the same content brings it back"}),
		group("token", "say who may come in, while the server runs or not",
			command("add", "USER", "give a user a new token, and print the line that logs a machine in by it", addToken),
			command("revoke", "USER [PREFIX]", "take a user's tokens away, or those that begin with PREFIX", revokeTokens),
			command("ls", "", "list the tokens, each by its first letters, which login printed, and its note", listTokens)),
	}
}

// tokens returns the token file.
func (j *job) tokens() string { return filepath.Join(j.String("dir"), tokenFile) }

// check verifies a server's folder.
func check(ctx context.Context, j *job) (err error) {
	path := filepath.Join(j.String("dir"), storeFolder)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no server's folder: %w; say --dir FOLDER", err)
	}
	folder, err := store.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	all, err := versions.Open(ctx, folder, versions.Config{})
	if err != nil {
		return err
	}
	r, err := all.Check(ctx, j.Bool("repair"))
	for _, f := range r.Findings {
		j.say("%s", oneLine(f))
	}
	switch {
	case err != nil:
		return err
	case !r.Sound():
		return fail(exitUnsound, "the store in %s is unsound; after check --repair, put again what is incomplete", j.String("dir"))
	}
	j.say("sound: %s of %s, %s in %s", english.Plural(r.Versions, "version", ""), english.Plural(r.Users, "user", ""),
		sizeText(r.Bytes), english.Plural(r.Objects, "object", ""))
	return nil
}

func addToken(_ context.Context, j *job) error {
	certificate, err := cert.Load(j.String("dir"))
	if err != nil {
		return err
	}
	token, err := users.Add(j.tokens(), j.args[0])
	if err == nil {
		j.note("this logs a machine in, with where the server is:")
		j.say("%s", pasteLine("HOST:PORT", token, cert.Fingerprint(certificate)))
	}
	return err
}

func revokeTokens(_ context.Context, j *job) error {
	n, err := users.Revoke(j.tokens(), j.args[0], j.args[1])
	if err == nil {
		j.say("revoked %s of %s", english.Plural(n, "token", ""), j.args[0])
	}
	return err
}

func listTokens(_ context.Context, j *job) error {
	tokens, err := users.List(j.tokens())
	for _, t := range tokens {
		j.say("%s", strings.TrimSpace(plain(fmt.Sprintf("%s %s… %s", t.User, t.Shown, t.Note))))
	}
	return err
}
