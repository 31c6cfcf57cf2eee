package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/vault"
)

// dialTime bounds how long a server may take to answer.
const dialTime = 10 * time.Second

// put hands a file in.
func (a *app) put(ctx context.Context, c *cli.Command) error {
	args, err := arguments(c, 1, 2)
	if err != nil {
		return err
	}
	path, name := args[0], args[1]
	if len(c.Args().Slice()) < 2 {
		name = filepath.Base(path)
	}
	if err := vault.CheckName(name); err != nil {
		return err
	}
	src, err := vault.OpenSource(path)
	if err != nil {
		return err
	}
	defer src.Close()
	return a.visit(ctx, c, func(client *desk.Client) error {
		start := time.Now()
		had, err := client.Put(ctx, name, src)
		switch {
		case err != nil:
			return fmt.Errorf("put %s: %w", name, explain(c.String("server"), err))
		case had:
			fmt.Fprintf(a.stdout, "put %s: %s, the server had it already\n", name, formatSize(src.Size))
			return nil
		}
		a.report("put", name, src.Size, client.Conn().Stats().BytesOut, time.Since(start))
		return nil
	})
}

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
	target, err := vault.OpenTarget(path, name)
	if err != nil {
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client) error {
		start := time.Now()
		size, had, err := client.Get(ctx, name, target)
		switch {
		case err != nil:
			return fmt.Errorf("get %s: %w", name, explain(c.String("server"), err))
		case had:
			fmt.Fprintf(a.stdout, "get %s: %s, %s has it already\n", name, formatSize(size), target.Path)
			return nil
		}
		a.report("get", name, size, client.Conn().Stats().BytesIn, time.Since(start))
		return nil
	})
}

// report says what a transfer cost. Carried is bytes on the wire in the direction of the transfer.
func (a *app) report(what, name string, size int64, carried uint64, d time.Duration) {
	fmt.Fprintf(a.stdout, "%s %s: %s in %.2f s, %s, sent %s\n", what, name, formatSize(size), d.Seconds(), formatRate(size, d), formatSize(int64(carried)))
}

// list prints the saves.
func (a *app) list(ctx context.Context, c *cli.Command) error {
	if _, err := arguments(c, 0, 0); err != nil {
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client) error {
		saves, err := client.List(ctx)
		if err != nil {
			return fmt.Errorf("ls: %w", explain(c.String("server"), err))
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, s := range saves {
			fmt.Fprintf(w, "%s\t%d\t%s\n", s.Name, s.Size, s.Modified.Local().Format(time.DateTime))
		}
		return w.Flush()
	})
}

// remove deletes a save.
func (a *app) remove(ctx context.Context, c *cli.Command) error {
	args, err := arguments(c, 1, 1)
	if err != nil {
		return err
	}
	if err := vault.CheckName(args[0]); err != nil {
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client) error {
		if err := client.Remove(ctx, args[0]); err != nil {
			return fmt.Errorf("rm %s: %w", args[0], explain(c.String("server"), err))
		}
		fmt.Fprintf(a.stdout, "removed %s\n", args[0])
		return nil
	})
}

// visit runs fn with a client that is connected as the flags say.
func (a *app) visit(ctx context.Context, c *cli.Command, fn func(*desk.Client) error) error {
	token, err := tokenOf(c)
	if err != nil {
		return err
	}
	p := &pin{fingerprint: c.String("fingerprint")}
	if err := checkFingerprint(p.fingerprint); err != nil {
		return err
	}
	config := desk.ClientConfig{
		Server: c.String("server"), TLS: p.config(), Token: token,
		Watch: newDisplay(a.stderr).watch,
	}
	if config.Backend, err = backendOf(c.String("backend"), 1); err != nil {
		return err
	}
	if config.Logger, config.LogLevel, err = newLogger(a.stderr, c.String("log")); err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	client, err := desk.Dial(dialing, config)
	if err != nil {
		return explainDial(config.Server, p, err)
	}
	defer client.Close()
	return fn(client)
}

// tokenOf finds the token: in its flag, in a file, in the environment.
func tokenOf(c *cli.Command) (string, error) {
	if token := strings.TrimSpace(c.String("token")); token != "" {
		return token, nil
	}
	if path := c.String("token-file"); path != "" {
		tokens, err := vault.ReadTokens(path)
		if err != nil {
			return "", err
		}
		return tokens[0], nil
	}
	if token := strings.TrimSpace(os.Getenv(tokenVariable)); token != "" {
		return token, nil
	}
	return "", errors.New("no token: give -token, -token-file or $" + tokenVariable)
}

// checkFingerprint refuses what can match no certificate.
func checkFingerprint(s string) error {
	if s == "" {
		return errors.New("no fingerprint: give -fingerprint as the server printed it")
	}
	raw, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(s))
	if err != nil || len(raw) != 32 {
		return fmt.Errorf("fingerprint %q is not the 64 hex digits that the server printed", s)
	}
	return nil
}
