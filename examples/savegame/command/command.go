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
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"
)

// Run runs one command line, without the program's name, and returns the exit code; an error is one line on stderr. When
// ctx ends the command is interrupted, which is how a server is stopped. Any number may run at once.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := root()
	root.Reader, root.Writer, root.ErrWriter = stdin, stdout, stderr
	err := root.Run(ctx, append([]string{"savegame"}, args...))
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
func root() *cli.Command {
	root := group("savegame", "keep versions of save games on a server, and carry them from machine to machine",
		slices.Concat(serverCommands(), transferCommands(), saveCommands(), []*cli.Command{demoCommand()})...)
	root.Description, root.Version = description, "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		root.Version = info.Main.Version
	}
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet", Usage: "show neither progress nor notes"}}
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // Run prints
	return root
}

// group declares a command that only has others.
func group(name, summary string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{Name: name, Usage: summary, Commands: commands, OnUsageError: usageError, Action: func(_ context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return usage("unknown command %q (see %s --help)", c.Args().First(), c.FullName())
		}
		return cli.ShowSubcommandHelp(c)
	}}
}

// job is one command at work: results go to its Writer, all else to its ErrWriter.
type job struct {
	*cli.Command
	args []string // those that may be missing are empty then
	what string   // is done, for errors
	kept string   // says what is not lost when it is not done
}

// command declares a command. Of the arguments those in brackets may be missing, and one with dots may be many.
func command(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
	most := len(strings.Fields(args))
	least := most - strings.Count(" "+args, " [")
	return &cli.Command{Name: name, ArgsUsage: args, Usage: summary, Flags: flags, DisableSliceFlagSeparator: true, OnUsageError: usageError, Action: func(ctx context.Context, c *cli.Command) error {
		given := c.Args().Slice()
		if len(given) < least || len(given) > most && !strings.HasSuffix(args, "…") {
			return usage("%s takes %s, and was given %d: %q (see %s --help)", name, cmp.Or(args, "no argument"), len(given), given, c.FullName())
		}
		j := &job{Command: c, args: append(given, make([]string, max(most-len(given), 0))...), what: strings.TrimSpace(name + " " + c.Args().First())}
		return j.ended(ctx, do(ctx, j))
	}}
}

// ended says what failed, or was interrupted.
func (j *job) ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return fail(exitInterrupted, "%s: interrupted%s", j.what, j.kept)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s: %w%s", j.what, err, j.kept)
	}
	return fmt.Errorf("%s: %w", j.what, err)
}

// usageError leaves it at the error, without the help.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return usage("%w (see %s --help)", err, c.FullName())
}

// note prints something that is good to know, unless --quiet is given.
func (j *job) note(format string, args ...any) {
	if !j.Bool("quiet") {
		fmt.Fprintln(j.ErrWriter, plain(fmt.Sprintf(format, args...)))
	}
}

// say prints a result.
func (j *job) say(format string, args ...any) { fmt.Fprintf(j.Writer, format+"\n", args...) }

// logger returns the logger of a level, nil for off.
func (j *job) logger() (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	if level.UnmarshalText([]byte(j.String("log"))) != nil {
		return nil, nil
	}
	return slog.New(slog.NewTextHandler(j.ErrWriter, &slog.HandlerOptions{Level: level})), level
}

// text is a flag with a value that check takes.
func text(name, value, usage string, check func(string) error) cli.Flag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, Validator: check}
}

// oneOf is a flag that takes one of some words, the first by default.
func oneOf(name, usage string, words ...string) cli.Flag {
	return text(name, words[0], usage, func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

// carrierFlag says over what a client's connection travels.
func carrierFlag() cli.Flag {
	return oneOf("carrier", "what moves all datagrams: `sealed` packets beside QUIC's, or quic", "sealed", "quic")
}

// sizeFlag is a flag that takes bytes.
func sizeFlag(name, value, usage string) cli.Flag {
	return text(name, value, usage, func(text string) error {
		if n, err := humanize.ParseBytes(text); err != nil || n == 0 || n > math.MaxInt64 {
			return errors.New("it is a size like 500KB, 64MiB or 1.5GB")
		}
		return nil
	})
}

// size returns the bytes of a sizeFlag, 0 when it is not given.
func (j *job) size(flag string) int64 {
	n, _ := humanize.ParseBytes(j.String(flag)) // the flag has checked it
	return int64(n)
}

// atLeast checks a number's lower bound.
func atLeast[T cmp.Ordered](least T) func(T) error {
	return func(n T) error {
		if n < least {
			return fmt.Errorf("it is at least %v", least)
		}
		return nil
	}
}
