package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
)

// get fetches a save.
func (a *app) get(ctx context.Context, c *cli.Command) error {
	args, err := arguments(c, 1, 2)
	if err != nil {
		return err
	}
	name, path := args[0], args[1]
	if err := vault.CheckName(name); err != nil {
		return err
	}
	if path == "" {
		path = name
	}
	target, messages, err := a.target(path, name)
	if err != nil {
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client, d *display) error {
		size, had, err := client.Get(ctx, name, target)
		switch {
		case err != nil && !target.IsFile():
			return fmt.Errorf("get %s: %w; %s is no file, so the next get begins anew", name, explain(c.String("server"), err), target.Path)
		case err != nil:
			return fmt.Errorf("get %s: %w", name, explain(c.String("server"), err))
		case had:
			fmt.Fprintf(messages, "get %s: %s, %s has it already\n", name, formatSize(size), target.Path)
			return nil
		}
		d.report(messages, "get", name)
		return nil
	})
}

// target opens where a save goes, and says where messages go: not among a content that goes to standard output.
func (a *app) target(path, name string) (t *vault.Target, messages io.Writer, err error) {
	if path == standard || a.isStdout(path) {
		return vault.TargetOf(a.stdout, path), a.stderr, nil
	}
	t, err = vault.OpenTarget(path, name)
	return t, a.stdout, err
}

// isStdout reports whether path leads to what standard output is, as /dev/stdout does.
func (a *app) isStdout(path string) bool {
	f, ok := a.stdout.(*os.File)
	if !ok {
		return false
	}
	out, err := f.Stat()
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(out, info)
}
