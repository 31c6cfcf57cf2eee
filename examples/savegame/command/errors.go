package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

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

// fail returns an error that decides the exit code.
func fail(code int, format string, args ...any) error {
	return cli.Exit(fmt.Errorf(format, args...), code)
}

func usage(format string, args ...any) error { return fail(exitUsage, format, args...) }

// kinds are the errors of other packages that have an exit code of their own.
var kinds = map[int][]error{
	exitUsage:   {versions.ErrName, users.ErrUser, path.ErrBadPattern},
	exitMissing: {versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash},
	exitDenied:  {users.ErrTokens},
	exitInUse:   {tree.ErrBusy, store.ErrLocked},
	exitUnsound: {versions.ErrDamaged, manifest.ErrChunk},
	exitFull:    {desk.ErrFull, syscall.ENOSPC},
}

func exitCode(err error) int {
	if decided, is := errors.AsType[cli.ExitCoder](err); is {
		return decided.ExitCode()
	}
	for code, kinds := range kinds {
		if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			return code
		}
	}
	return exitFailed
}

// plain shows a text of the other side's on a terminal: what that might obey, controls and marks that turn the direction of
// letters, stands there as U+FFFD.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// oneLine writes an error, or something else, on one line. A server may have said some of it.
func oneLine(what any) string {
	lines := strings.FieldsFunc(fmt.Sprint(what), func(r rune) bool { return r == '\n' || r == '\r' })
	return plain(strings.Join(lines, "; "))
}

var errNoAnswer = errors.New("no answer")

// passes reports whether what failed may succeed a little later.
func passes(err error) bool {
	return errors.Is(err, errNoAnswer) || desk.Transient(err)
}

// explain says what went wrong with a server, to who has to do something about it.
func explain(server string, err error) error {
	var closed *rpc.CloseError
	switch {
	case errors.Is(err, cert.ErrPinned):
		return fail(exitDenied, "server %s: wrong fingerprint: it is another server, or has a new certificate; if that is meant, log in again", server)
	case errors.As(err, &closed) && !passes(err) && (closed.Code == rpc.PreLoginFailure || closed.Code == desk.Revoked):
		return fail(exitDenied, "server %s does not accept the token or code: %s; log in again with a line that the server's owner, or another machine of yours (savegame invite), prints", server, closed.Reason)
	case errors.As(err, &closed):
		return fmt.Errorf("server %s: the connection ended: %v: %s", server, closed.Code, closed.Reason)
	case passes(err):
		return fmt.Errorf("server %s: %w", server, err)
	}
	return err
}
