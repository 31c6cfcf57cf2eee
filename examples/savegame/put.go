package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
)

// standard names standard input to put and standard output to get.
const standard = "-"

// put hands a file in.
func (a *app) put(ctx context.Context, c *cli.Command) error {
	path, name, err := putArguments(c)
	if err != nil {
		return err
	}
	var src *vault.Source // nil: standard input, which is read once the server is there
	if path != standard {
		if src, err = vault.OpenSource(path); err != nil {
			return err
		}
		defer src.Close()
	}
	if err := vault.CheckName(name); err != nil { // after the file: "." is a folder rather than a bad name
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client, d *display) error {
		if src == nil {
			if src, err = vault.Spool(ctx, a.stdin); err != nil {
				return err
			}
			defer src.Close()
		}
		had, err := client.Put(ctx, name, src)
		switch {
		case err != nil:
			return fmt.Errorf("put %s: %w", name, explain(c.String("server"), err))
		case had:
			fmt.Fprintf(a.stdout, "put %s: %s, the server had it already\n", name, formatSize(src.Size))
			return nil
		}
		d.report(a.stdout, "put", name)
		return nil
	})
}

// putArguments returns the file and the save's name. A second file is no name: who lets a shell write *, means files, and
// one would be stored under the name of another.
func putArguments(c *cli.Command) (path, name string, err error) {
	args := c.Args().Slice()
	named := c.IsSet("name")
	switch {
	case len(args) == 0:
		return "", "", fmt.Errorf("put needs %s", c.ArgsUsage)
	case len(args) > 2:
		return "", "", fmt.Errorf("put stores one file, and was given %d names: run it once for each file", len(args))
	case len(args) == 2 && named:
		return "", "", fmt.Errorf("put was given two names for the save, %q and --name %q, or two files: it stores one file", args[1], c.String("name"))
	case named:
		return args[0], c.String("name"), nil
	case len(args) == 2:
		if _, err := os.Lstat(args[1]); err == nil {
			return "", "", fmt.Errorf("put stores one file, and %q is a file here too: run put once for each, or say --name %q if the save is to be called so", args[1], args[1])
		}
		return args[0], args[1], nil
	case args[0] == standard:
		return "", "", fmt.Errorf("put %s needs a NAME for the save", standard)
	}
	return args[0], filepath.Base(args[0]), nil
}
