package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/stream"
)

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// newApp declares the commands.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	a := &app{stdin, stdout, stderr}
	root := &cli.Command{
		Name:           "savegame",
		Usage:          "save games up and down over reliable bunches",
		DefaultCommand: "demo",
		Commands:       []*cli.Command{a.demoCommand(), a.serveCommand(), a.putCommand(), a.getCommand(), a.listCommand(), a.removeCommand()},
		Writer:         stdout,
		ErrWriter:      stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run prints and exits
		OnUsageError:   usageError,
		HideVersion:    true,
	}
	for _, c := range root.Commands {
		c.OnUsageError = usageError
	}
	return root
}

// twoDashes writes flags in the library's errors as its help does.
var twoDashes = strings.NewReplacer("not defined: -", "not defined: --", "needs an argument: -", "needs an argument: --", "for flag -", "for flag --")

// usageError leaves it at the error, without the help.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return fmt.Errorf("%s (see savegame %s --help)", twoDashes.Replace(err.Error()), c.Name)
}

func (a *app) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "an embedded server, an upload and a download",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "size", Value: "16MiB", Usage: "`BYTES` of the generated save"},
			&cli.StringFlag{Name: "file", Usage: "upload `FILE` instead of a generated save"},
			&cli.DurationFlag{Name: "rtt", Usage: "emulated round trip `TIME`"},
			&cli.StringFlag{Name: "loss", Value: "0", Usage: "emulated loss in each direction, like `1%`"},
			&cli.StringFlag{Name: "rate", Value: "0", Usage: "emulated bottleneck in each direction, like `10mbit`"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the save and of the emulated link"},
			&cli.StringFlag{Name: "backend", Value: "window", Usage: backendUsage},
			carrierFlag(),
			&cli.IntFlag{Name: "lanes", Value: 1, Usage: "channels of one transfer, 1 to 32"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object and nothing else"},
		},
		Action: a.demo,
	}
}

func (a *app) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "keep saves in a folder",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: ":7777", Usage: "`HOST:PORT` to listen on"},
			&cli.StringFlag{Name: "dir", Value: "savegame-data", Usage: "`FOLDER` of the certificate and the saves"},
			&cli.StringFlag{Name: "token-file", Usage: "`FILE` with one token of at least 16 bytes a line, and comments after # (default: tokens.txt in the folder, made with one token)"},
			&cli.StringFlag{Name: "max-size", Value: "64MiB", Usage: "`BYTES` of one save"},
			&cli.StringFlag{Name: "quota", Value: "1GiB", Usage: "`BYTES` of the saves and unfinished uploads of one token"},
			logFlag("info"),
		},
		Action: a.serve,
	}
}

func (a *app) putCommand() *cli.Command {
	return &cli.Command{
		Name: "put", Usage: "hand a file in", ArgsUsage: "FILE [NAME]",
		Description: "FILE - is standard input; it is kept in a temporary file until the server has it.",
		Flags:       append(contentFlags(), &cli.StringFlag{Name: "name", Usage: "`NAME` of the save, also where a file here is called so"}),
		Action:      a.put,
	}
}

func (a *app) getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "fetch a save", ArgsUsage: "NAME [FILE]",
		Description: "A file is there, or replaced, once the save is complete, also behind a link; an interrupted get goes on.\n" +
			"FILE - is standard output. There, into a pipe and into a device the content goes as it comes, and each get begins anew.",
		Flags: contentFlags(), Action: a.get,
	}
}

func (a *app) listCommand() *cli.Command {
	return &cli.Command{Name: "ls", Usage: "list the saves", Flags: clientFlags(), Action: a.list}
}

func (a *app) removeCommand() *cli.Command {
	return &cli.Command{Name: "rm", Usage: "delete a save", ArgsUsage: "NAME", Flags: clientFlags(), Action: a.remove}
}

// Environment variables that hold a token, and the fingerprint of the server's certificate.
const (
	tokenVariable       = "QUIVER_TOKEN"
	fingerprintVariable = "QUIVER_FINGERPRINT"
)

func clientFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Value: "127.0.0.1:7777", Usage: "`HOST:PORT`", Sources: cli.EnvVars("QUIVER_SERVER")},
		&cli.StringFlag{Name: "token", Usage: "`TOKEN` that the server knows (default: $" + tokenVariable + ")"},
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` whose first token it is"},
		&cli.StringFlag{Name: "fingerprint", Usage: "SHA-256 of the server's certificate, in `HEX`", Sources: cli.EnvVars(fingerprintVariable)},
		carrierFlag(),
		logFlag("off"),
	}
}

// backendUsage tells what backendOf takes.
const backendUsage = "how the content travels: `window` of reliable bunches, or slices"

// carrierFlag is what isQUIC takes.
func carrierFlag() cli.Flag {
	return &cli.StringFlag{Name: "carrier", Value: "sealed", Usage: "what moves all datagrams: `sealed` packets beside QUIC's, or quic"}
}

func isQUIC(carrier string) (bool, error) {
	switch carrier {
	case "quic", "sealed":
		return carrier == "quic", nil
	}
	return false, fmt.Errorf("carrier %q is none of sealed and quic", carrier)
}

// contentFlags are those of the commands that move a save.
func contentFlags() []cli.Flag {
	return append(clientFlags(), &cli.StringFlag{Name: "backend", Value: "window", Usage: backendUsage})
}

// backendOf returns the backend of that name.
func backendOf(name string, lanes int) (stream.Backend, error) {
	switch name {
	case "", "window":
		return stream.Window{Lanes: lanes}, nil
	case "slices":
		return stream.Slices{}, nil
	}
	return nil, fmt.Errorf("backend %q is none of window and slices", name)
}

func logFlag(level string) cli.Flag {
	return &cli.StringFlag{Name: "log", Value: level, Usage: "`LEVEL` of the log: off, debug, info, warn or error"}
}

// arguments returns the arguments by position; those beyond the least may be missing.
func arguments(c *cli.Command, least, most int) ([]string, error) {
	args := c.Args().Slice()
	switch {
	case len(args) < least:
		return nil, fmt.Errorf("%s needs %s", c.Name, c.ArgsUsage)
	case len(args) > most && most == 0:
		return nil, fmt.Errorf("unknown argument %q (see savegame --help)", args[0])
	case len(args) > most:
		return nil, fmt.Errorf("%s takes no more than %s, not %q", c.Name, c.ArgsUsage, args[most])
	}
	return append(args, make([]string, most-len(args))...), nil
}
