// Package command is savegame's command line: the server, and what a player does from machine to machine. [Run] runs one
// command line.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/demo"
)

// app is where one run of the program reads and writes: results to stdout, all else to stderr.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Run runs one command line, without the program's name, and returns the exit code; an error is one line on stderr. When
// ctx ends the command is interrupted, which is how a server is stopped. Any number may run at once.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin, stdout, stderr}
	err := a.root().Run(ctx, append([]string{"savegame"}, args...))
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "savegame: %s\n", oneLine(err))
	return exitCode(err)
}

const description = `Three machines, three lines:
   savegame serve                   on the server; it prints the next line
   savegame login HOST:PORT CODE    on the machine that you play on; savegame invite prints a line for the one after
   savegame put ~/games/world       and there: savegame get world

A put over a version that this machine has not seen is refused, and so is a get over changes that no version has. Commands
go on by themselves when the connection is lost, and where they stopped when they are run again.

Exit codes: ` + exitCodes

// root declares the commands.
func (a *app) root() *cli.Command {
	demo := demo.Command(a.stdout, a.stderr)
	demo.OnUsageError = usageError
	root := a.group("savegame", "keep versions of save games on a server, and carry them from machine to machine",
		slices.Concat(a.serverCommands(), a.transferCommands(), a.saveCommands(), []*cli.Command{demo})...)
	root.Description, root.Version = description, "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		root.Version = info.Main.Version
	}
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet", Usage: "show neither progress nor notes"}}
	root.Writer, root.ErrWriter = a.stdout, a.stderr
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // Run prints
	return root
}

// group declares a command that only has others.
func (a *app) group(name, summary string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{Name: name, Usage: summary, Commands: commands, OnUsageError: usageError, Action: func(_ context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return usage("unknown command %q (see %s --help)", c.Args().First(), c.FullName())
		}
		return cli.ShowSubcommandHelp(c)
	}}
}

// job is one command at work.
type job struct {
	*app
	*cli.Command
	args []string // those that may be missing are empty then
}

// command declares a command. Of the arguments those in brackets may be missing, and one with dots may be many.
func (a *app) command(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
	names := strings.Fields(args)
	most := len(names)
	least := len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[0] == '[' }))
	return &cli.Command{Name: name, ArgsUsage: args, Usage: summary, Flags: flags, OnUsageError: usageError, Action: func(ctx context.Context, c *cli.Command) error {
		given := c.Args().Slice()
		if len(given) < least || len(given) > most && !strings.HasSuffix(args, "…") {
			return usage("%s takes %s, and was given %d: %q (see %s --help)", name, cmp.Or(args, "no argument"), len(given), given, c.FullName())
		}
		return do(ctx, &job{a, c, append(given, make([]string, max(most-len(given), 0))...)})
	}}
}

// twoDashes writes flags in the library's errors as its help does.
var twoDashes = strings.NewReplacer("not defined: -", "not defined: --", "for flag -", "for flag --")

// usageError leaves it at the error, without the help.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return usage("%s (see %s --help)", twoDashes.Replace(err.Error()), c.FullName())
}

// note says something that is good to know, unless nobody wants to.
func (j *job) note(format string, args ...any) {
	if !j.Bool("quiet") {
		fmt.Fprintln(j.stderr, plain(fmt.Sprintf(format, args...)))
	}
}

// oneOf is a flag that takes one of some words, the first by default.
func oneOf(name, summary string, words ...string) cli.Flag {
	return &cli.StringFlag{Name: name, Value: words[0], Usage: summary, Validator: func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
		}
		return nil
	}}
}

// sizeFlag is a flag that takes bytes, or none.
func sizeFlag(name, summary string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: summary, Validator: func(text string) error {
		n, err := humanize.ParseBytes(text)
		if err != nil || n == 0 || n > math.MaxInt64 {
			return errors.New("it is a size like 500KB, 64MiB or 1.5GB")
		}
		return nil
	}}
}

// size returns the bytes of a sizeFlag, 0 when it is not given.
func (j *job) size(flag string) int64 {
	n, _ := humanize.ParseBytes(j.String(flag)) // the flag has checked it
	return int64(n)
}

// logger returns the logger of a level, nil for off.
func (j *job) logger() (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	if level.UnmarshalText([]byte(j.String("log"))) != nil {
		return nil, nil
	}
	return slog.New(slog.NewTextHandler(j.stderr, &slog.HandlerOptions{Level: level})), level
}
