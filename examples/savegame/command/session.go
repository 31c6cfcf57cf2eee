package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/stream"
)

const (
	// dialTime bounds how long a server may take to answer one try.
	dialTime = 10 * time.Second
	// maxPause is the longest pause between two tries: a server that is back is found soon.
	maxPause = 5 * time.Second
)

// client declares a command that goes to a server.
func (a *app) client(name, args, summary string, do func(context.Context, *session) error, flags ...cli.Flag) *cli.Command {
	return a.command(name, args, summary, func(ctx context.Context, j *job) error {
		s := &session{job: j, what: strings.TrimSpace(name + " " + j.Args().First())}
		if err := s.prepare(); err != nil {
			return err
		}
		return do(ctx, s)
	}, append(flags,
		&cli.StringFlag{Name: "home", Usage: "`FOLDER` of logins (default: savegame in the user's configuration)", Sources: cli.EnvVars("SAVEGAME_HOME")},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of the login, when there are several"},
		&cli.StringFlag{Name: "server", Usage: "`HOST:PORT` instead of that of the login", Sources: cli.EnvVars("QUIVER_SERVER")},
		&cli.StringFlag{Name: "token", Usage: "`TOKEN` instead of that of the login [$QUIVER_TOKEN]"}, // the help would show what a source has
		&cli.StringFlag{Name: "fingerprint", Usage: "SHA-256 of the server's certificate in `HEX`, instead of that of the login", Sources: cli.EnvVars("QUIVER_FINGERPRINT")},
		&cli.DurationFlag{Name: "patience", Value: 5 * time.Minute, Usage: "`TIME` without progress after which a lost server is given up"},
		sizeFlag("bwlimit", "`BYTES` a second, like 500KB, that content travels at"),
		oneOf("carrier", "what moves all datagrams: `sealed` packets beside QUIC's, or quic", "sealed", "quic"),
		oneOf("backend", "how content travels: `window` of reliable bunches, or slices", "window", "slices"),
		oneOf("log", "`LEVEL` of the log: off, debug, info, warn or error", "off", "debug", "info", "warn", "error"),
	)...)
}

// session is a command's dealings with a server, over as many connections as it takes.
type session struct {
	*job
	profile
	what   string // is done, for errors
	kept   string // says what is not lost when it is not done
	config desk.ClientConfig
	moved  atomic.Bool // content has travelled on this connection
}

// prepare reads the flags and the login.
func (s *session) prepare() (err error) {
	if s.profile, err = openProfile(s.String("home"), s.String("profile")); err != nil {
		return err
	}
	if s.String("backend") == "slices" {
		s.config.Backend = stream.Slices{}
	}
	s.config.QUIC = s.String("carrier") == "quic"
	s.config.Rate, s.config.Watch = int(min(s.size("bwlimit"), math.MaxInt32)), s.watch
	s.config.Logger, s.config.LogLevel = s.logger()
	return nil
}

// identify finds out where the server is, and who this machine is there. Flags go before the login; one that names another
// certificate is for another server, which is not shown the login's token.
func (s *session) identify() error {
	fingerprint := strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(s.String("fingerprint")))
	if fingerprint != "" && fingerprint != s.Fingerprint {
		s.Fingerprint, s.Server, s.Token = fingerprint, "", ""
	}
	s.Server = cmp.Or(s.String("server"), s.Server)
	s.Token = cmp.Or(s.String("token"), os.Getenv("QUIVER_TOKEN"), s.Token)
	switch {
	case s.Server == "" || s.Token == "" || s.Fingerprint == "":
		return fail(exitDenied, "%s: not logged in: paste the line that savegame serve printed (savegame login HOST:PORT CODE), or give --server, --token and --fingerprint", s.what)
	case len(s.Fingerprint) != 64:
		return usage("fingerprint %q is not the 64 hex digits of a SHA-256", s.Fingerprint)
	}
	return nil
}

// visit runs fn at the server that the flags and the login name.
func (s *session) visit(ctx context.Context, fn func(context.Context, *desk.Client) error) error {
	if err := s.identify(); err != nil {
		return err
	}
	return s.reach(ctx, fn)
}

// reach runs fn with a connected client, and again after what passes by itself, until the patience ends in which nothing
// moved.
func (s *session) reach(ctx context.Context, fn func(context.Context, *desk.Client) error) error {
	s.config.Server, s.config.Token, s.config.TLS = s.Server, s.Token, pinned(s.Fingerprint)
	pauses, patience := backoff.NewExponentialBackOff(), s.Duration("patience")
	pauses.MaxInterval = maxPause
	deadline, said := time.Now().Add(patience), ""
	_, err := backoff.Retry(ctx, func() (nothing struct{}, err error) {
		err = s.once(ctx, fn)
		if s.moved.Swap(false) {
			pauses.Reset()
			deadline = time.Now().Add(patience)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return nothing, err
		case !passes(err):
			return nothing, backoff.Permanent(explain(s.Server, err))
		case !time.Now().Before(deadline):
			return nothing, backoff.Permanent(fail(exitUnreached, "%w; given up after --patience %v without progress%s", explain(s.Server, err), patience, s.kept))
		}
		return nothing, explain(s.Server, err)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		if text := oneLine(err); text != said {
			s.note("connection lost: %s; trying again for %v", text, time.Until(deadline).Round(time.Second))
			said = text
		}
	}))
	if err != nil && ctx.Err() != nil {
		return fail(exitInterrupted, "%s: interrupted%s", s.what, s.kept)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	return nil
}

// once runs fn on one connection.
func (s *session) once(ctx context.Context, fn func(context.Context, *desk.Client) error) error {
	dialing, cancel := context.WithTimeoutCause(ctx, min(dialTime, max(s.Duration("patience"), time.Second)), errNoAnswer)
	defer cancel()
	client, err := desk.Dial(dialing, s.config)
	if err != nil && dialing.Err() != nil {
		return context.Cause(dialing)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	err = fn(ctx, client)
	if ctx.Err() != nil {
		client.CloseFor("the client was interrupted")
	}
	return err
}
