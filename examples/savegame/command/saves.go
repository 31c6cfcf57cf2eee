package command

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

// saveCommands declares what looks at saves and edits them.
func (a *app) saveCommands() []*cli.Command {
	json := cli.BoolFlag{Name: "json", Usage: "print a JSON array, with digests of what the versions hold"}
	list, versions := json, json
	return []*cli.Command{
		a.client("login", "HOST:PORT CODE", "make this machine a player's, by a line that serve or invite printed", login),
		a.client("invite", "", "print the line that logs your next machine in", invite),
		a.client("ls", "", "list the saves, each by its newest version", ls, &list),
		a.client("history", "NAME", "list the versions of a save", history, &versions),
		a.client("restore", "NAME[@VERSION]", "make an old version the newest, also of a save in the trash", restore),
		a.client("rm", "NAME", "put a save into the trash, where restore finds it for a while", remove,
			&cli.BoolFlag{Name: "forever", Usage: "delete all its versions instead"},
			&cli.BoolFlag{Name: "force", Usage: "with --forever, also versions that this machine has not seen"}),
	}
}

// ls prints the saves.
func ls(ctx context.Context, s *session) error {
	return s.visit(ctx, func(ctx context.Context, client *desk.Client) error { return s.print(client.List(ctx)) })
}

// history prints the versions of a save.
func history(ctx context.Context, s *session) error {
	return s.visit(ctx, func(ctx context.Context, client *desk.Client) error { return s.print(client.History(ctx, s.args[0])) })
}

// print writes what a server knows of versions, for people or for programs.
func (s *session) print(all []versions.Version, err error) error {
	if err != nil {
		return err
	}
	for i := range all {
		v := &all[i]
		v.Name, v.Machine, v.Kind = plain(v.Name), plain(v.Machine), versions.Kind(plain(string(v.Kind)))
	}
	if s.Bool("json") {
		e := json.NewEncoder(s.stdout)
		e.SetIndent("", "\t")
		return e.Encode(append([]versions.Version{}, all...)) // none is [], and not null
	}
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, v := range all {
		content := contentText(v)
		switch v.Kind {
		case versions.Trash:
			content = "in the trash"
		case versions.Damaged:
			content = "damaged"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", v.Name, v.Number, content, v.Time.Local().Format(time.DateTime), v.Machine)
	}
	return w.Flush()
}

// restore makes an old version the newest.
func restore(ctx context.Context, s *session) error {
	name, number, err := parseSave(s.args[0])
	if err != nil {
		return err
	}
	return s.visit(ctx, func(ctx context.Context, client *desk.Client) error {
		v, err := client.Restore(ctx, name, number, s.Machine)
		if err == nil {
			fmt.Fprintf(s.stdout, "restored %s: version %d, %s\n", s.args[0], v.Number, contentText(v))
		}
		return err
	})
}

// erase deletes a save for good, unless its newest version is one that this machine has not seen, and not in the trash either.
func (s *session) erase(ctx context.Context, client *desk.Client, name string) error {
	seen, err := s.seenLast(name)
	if err != nil {
		return err
	}
	return client.Erase(ctx, name, s.Machine, seen, s.Bool("force"))
}

// remove puts a save into the trash, or deletes it.
func remove(ctx context.Context, s *session) error {
	name := s.args[0]
	done := fmt.Sprintf("removed %s; savegame restore %s brings it back", name, name)
	return s.visit(ctx, func(ctx context.Context, client *desk.Client) (err error) {
		if s.Bool("forever") {
			done, err = fmt.Sprintf("removed %s for good", name), s.erase(ctx, client, name)
		} else {
			_, err = client.Remove(ctx, name, s.Machine)
		}
		if err == nil {
			fmt.Fprintln(s.stdout, done)
		}
		return err
	})
}
