package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
)

// dialTime bounds how long a server may take to answer.
const dialTime = 10 * time.Second

// list prints the saves.
func (a *app) list(ctx context.Context, c *cli.Command) error {
	if _, err := arguments(c, 0, 0); err != nil {
		return err
	}
	return a.visit(ctx, c, func(client *desk.Client, _ *display) error {
		saves, err := client.List(ctx)
		if err != nil {
			return fmt.Errorf("ls: %w", explain(c.String("server"), err))
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, s := range saves {
			fmt.Fprintf(w, "%s\t%d\t%s\n", plain(s.Name), s.Size, s.Modified.Local().Format(time.DateTime))
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
	return a.visit(ctx, c, func(client *desk.Client, _ *display) error {
		if err := client.Remove(ctx, args[0]); err != nil {
			return fmt.Errorf("rm %s: %w", args[0], explain(c.String("server"), err))
		}
		fmt.Fprintf(a.stdout, "removed %s\n", args[0])
		return nil
	})
}

// visit runs fn with a client that is connected as the flags say, and what shows its transfers.
func (a *app) visit(ctx context.Context, c *cli.Command, fn func(*desk.Client, *display) error) error {
	token, err := tokenOf(c)
	if err != nil {
		return err
	}
	p := &pin{fingerprint: c.String("fingerprint")}
	if err := checkFingerprint(p.fingerprint); err != nil {
		return err
	}
	d := newDisplay(a.stderr)
	config := desk.ClientConfig{
		Server: c.String("server"), TLS: p.config(), Token: token, Watch: d.watch,
		Waiting: func() { fmt.Fprintln(a.stderr, "waiting for other uploads with this token") },
	}
	if config.Backend, err = backendOf(c.String("backend"), 1); err != nil {
		return err
	}
	if config.QUIC, err = isQUIC(c.String("carrier")); err != nil {
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
	err = fn(client, d)
	if errors.Is(err, errInterrupted) {
		client.CloseFor("the client was interrupted")
	}
	return err
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
	return "", errors.New("no token: give --token, --token-file or $" + tokenVariable)
}

// checkFingerprint refuses what can match no certificate.
func checkFingerprint(s string) error {
	if s == "" {
		return errors.New("no fingerprint: give --fingerprint or $" + fingerprintVariable + " as the server printed it")
	}
	raw, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(s))
	if err != nil || len(raw) != 32 {
		return fmt.Errorf("fingerprint %q is not the 64 hex digits that the server printed", s)
	}
	return nil
}
