// Package command is the command line of savegame, for the server and for players' machines. [Run]
// runs one command line.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/tree"
)

// Run runs one command line, which doesn't include the program's name, and returns the exit code.
// It prints an error as one line on stderr. When ctx ends, the command is interrupted, which is how
// a server is stopped. Run is safe for concurrent use.
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

// Signals returns a context that ends when a signal asks this process to end. A second signal kills
// the process. A hangup that is already ignored, for example because of nohup, stays ignored. A
// second hangup is ignored too, because both a terminal and its shell send one.
func Signals() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	return ctx
}

const description = `Three machines, three lines:
   savegame serve                   on the server; it prints the next line
   savegame login HOST:PORT CODE    on the machine that you play on; savegame invite prints a line for the one after
   savegame put ~/games/world       and there: savegame get world

A put is refused if PATH did not hold the newest version last, and a get is refused if it would replace changes that no
version has. Commands reconnect when the connection is lost, and continue where they stopped when they are run again.

Exit codes: ` + exitCodes

// root declares the commands.
func root() *cli.Command {
	root := group("savegame", "keep versions of save games on a server, and carry them from machine to machine",
		slices.Concat(serverCommands(), transferCommands(), saveCommands(), []*cli.Command{demoCommand()})...)
	root.Description, root.Version = description, "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		root.Version = info.Main.Version
	}
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet", Usage: "show only what is left out or deleted, neither progress nor notes"}}
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // Run prints the error
	return root
}

// group declares a command that only has subcommands.
func group(name, summary string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{Name: name, Usage: summary, Commands: commands, OnUsageError: usageError, Action: func(_ context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return usage("unknown command %q (see %s --help)", c.Args().First(), c.FullName())
		}
		return cli.ShowSubcommandHelp(c)
	}}
}

// A job is a running command. It writes results to its Writer, and everything else to its
// ErrWriter.
type job struct {
	*cli.Command
	args []string // missing arguments are empty
	what string   // the operation, for errors
	kept string   // what isn't lost if it fails, for errors
}

// command declares a command. Arguments in brackets are optional, and one with dots may be
// repeated.
func command(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
	maxArgs := len(strings.Fields(args))
	minArgs := maxArgs - strings.Count(" "+args, " [")
	return &cli.Command{Name: name, ArgsUsage: args, Usage: summary, Flags: flags, DisableSliceFlagSeparator: true, OnUsageError: usageError, Action: func(ctx context.Context, c *cli.Command) error {
		given := c.Args().Slice()
		if len(given) < minArgs || len(given) > maxArgs && !strings.HasSuffix(args, "…") {
			return usage("%s expects %s, but got %d: %q (see %s --help)", name, cmp.Or(args, "no arguments"), len(given), given, c.FullName())
		}
		j := &job{Command: c, args: append(given, make([]string, max(maxArgs-len(given), 0))...), what: strings.TrimSpace(strings.TrimPrefix(c.FullName(), c.Root().Name+" ") + " " + c.Args().First())}
		return j.ended(ctx, do(ctx, j))
	}}
}

// ended adds the failed operation to err, or returns that the job was interrupted.
func (j *job) ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return fail(exitInterrupted, "%s: interrupted%s", j.what, j.kept)
	case store.IsFull(err) && !errors.Is(err, desk.ErrFull):
		return fmt.Errorf("%s: %w: make room there%s", j.what, err, j.kept)
	case store.IsFull(err):
		return fmt.Errorf("%s: %w%s", j.what, err, j.kept)
	}
	return fmt.Errorf("%s: %w", j.what, err)
}

// usageError makes a usage error that doesn't print the help.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return usage("%w (see %s --help)", err, c.FullName())
}

// note prints additional information, unless --quiet is set.
func (j *job) note(format string, args ...any) {
	if !j.Bool("quiet") {
		fmt.Fprintln(j.ErrWriter, plain(fmt.Sprintf(format, args...)))
	}
}

// say prints a result. Its error matters only if that is all that the command does.
func (j *job) say(format string, args ...any) error {
	_, err := fmt.Fprintf(j.Writer, format+"\n", args...)
	return err
}

// logger returns a logger for the level of --log. If that is off, it discards everything.
func (j *job) logger() *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(j.String("log"))) != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(j.ErrWriter, &slog.HandlerOptions{Level: level}))
}

// checked returns a flag whose value must pass check.
func checked(name, value, usage string, check func(string) error) cli.Flag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, Validator: check}
}

// notEmpty rejects "", which an unset variable produces and which would mean the current folder.
func notEmpty(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// oneOf returns a flag that accepts one of the words, the first by default.
func oneOf(name, usage string, words ...string) cli.Flag {
	return checked(name, words[0], usage, func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

// carrierFlag returns the flag of the carrier of a client's connection.
func carrierFlag() cli.Flag {
	return oneOf("carrier", "`CARRIER` of all datagrams: sealed packets, or QUIC alone", "sealed", "quic")
}

// sizeFlag returns a flag that accepts a number of bytes.
func sizeFlag(name, value, usage string) cli.Flag {
	return checked(name, value, usage, func(text string) error {
		if n, err := humanize.ParseBytes(text); err != nil || n == 0 || n > math.MaxInt64 {
			return errors.New("must be a size such as 500KB, 64MiB or 1.5GB")
		}
		return nil
	})
}

// size returns the value of a sizeFlag, or 0 if it isn't set.
func (j *job) size(flag string) int64 {
	n, _ := humanize.ParseBytes(j.String(flag)) // validated by the flag
	return int64(n)
}

// atLeast returns a validator of a number's lower bound.
func atLeast[T cmp.Ordered](least T) func(T) error {
	return func(n T) error {
		if n < least {
			return fmt.Errorf("must be at least %v", least)
		}
		return nil
	}
}

const exitCodes = `0 done, 1 failed, 2 wrong usage, 3 no such save or version, 4 conflict, 5 not allowed (token, code or
fingerprint), 6 no room, 7 server not reached, 8 unsound store, 9 folder in use, 10 done, but something was left out,
130 interrupted.`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitMissing     = 3
	exitConflict    = 4
	exitDenied      = 5
	exitFull        = 6
	exitUnreached   = 7
	exitUnsound     = 8
	exitInUse       = 9
	exitPartly      = 10
	exitInterrupted = 130 // what shells return for SIGINT
)

// A failure is an error with its exit code.
type failure struct {
	error
	code int
}

func (f failure) Unwrap() error { return f.error }

// fail returns a failure with the given exit code.
func fail(code int, format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), code}
}

func usage(format string, args ...any) error { return fail(exitUsage, format, args...) }

// kinds are the errors of other packages that have their own exit codes.
var kinds = map[int][]error{
	exitUsage:   {users.ErrName, users.ErrUser, path.ErrBadPattern},
	exitMissing: {versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash},
	exitDenied:  {users.ErrTokens},
	exitInUse:   {tree.ErrBusy, store.ErrLocked},
	exitUnsound: {versions.ErrDamaged, cdc.ErrChunk},
	exitFull:    {desk.ErrFull, syscall.ENOSPC, syscall.EDQUOT},
}

func exitCode(err error) int {
	if f, ok := errors.AsType[failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[cli.ExitCoder](err); ok { // help uses another code for unknown topics
		return exitUsage
	}
	for code, kinds := range kinds {
		if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			return code
		}
	}
	return exitFailed
}

// plain makes a text of the other side safe for a terminal. It replaces control characters, and
// marks that change the direction of letters, by U+FFFD.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// oneLine formats an error or another value, parts of which may come from a server, as one line.
func oneLine(what any) string {
	lines := strings.FieldsFunc(fmt.Sprint(what), func(r rune) bool { return r == '\n' || r == '\r' })
	return plain(strings.Join(lines, "; "))
}

// errNoAnswer means that a server didn't answer in time. It may answer later.
var errNoAnswer = fmt.Errorf("no answer: %w", os.ErrDeadlineExceeded)

// explain returns an error that tells a person what is wrong with the server and what to do about
// it.
func explain(server string, err error) error {
	var closed *rpc.CloseError
	switch {
	case errors.Is(err, cert.ErrPinned):
		return fail(exitDenied, "server %s has a different fingerprint: it is another server or has a new certificate; if that is intended, log in again", server)
	case errors.As(err, &closed) && (closed.Code == rpc.PreLoginFailure || closed.Code == desk.Revoked):
		return fail(exitDenied, "server %s does not accept the token or code: %s; log in again with a line that the server or another machine of yours (savegame invite) prints", server, closed.Reason)
	case errors.As(err, &closed) && closed.Code == rpc.ProtocolMismatch:
		return fmt.Errorf("server %s runs a different version of savegame: %s", server, closed.Reason)
	case errors.As(err, &closed):
		return fmt.Errorf("server %s: connection ended: %v: %s", server, closed.Code, closed.Reason)
	case errors.As(err, new(*net.DNSError)):
		return fail(exitUnreached, "server %s: %w", server, err)
	case desk.Transient(err):
		return fmt.Errorf("server %s: %w", server, err)
	}
	return err
}
