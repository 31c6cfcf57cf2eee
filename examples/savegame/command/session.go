package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc/cert"
)

const (
	// dialTime bounds how long a server may take to answer one try.
	dialTime = 10 * time.Second
	// maxPause is the longest pause between two tries: a server that is back is found soon.
	maxPause = 5 * time.Second
	// barInterval is how often a terminal shows what has moved.
	barInterval = 100 * time.Millisecond
)

// client declares a command that goes to the server of the login, or logs in.
func client(name, args, summary string, do func(context.Context, *session) error, flags ...cli.Flag) *cli.Command {
	return command(name, args, summary, func(ctx context.Context, j *job) error {
		s, err := newSession(j)
		if err != nil {
			return err
		}
		if s.Token == "" && name != "login" {
			return fail(exitDenied, "not logged in: paste the line that savegame serve printed (savegame login HOST:PORT CODE)")
		}
		return do(ctx, s)
	}, append(flags,
		&cli.StringFlag{Name: "home", Usage: "`FOLDER` of logins (default: savegame in the user's configuration)", Sources: cli.EnvVars("SAVEGAME_HOME")},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of the login, when there are several"},
		&cli.StringFlag{Name: "server", Usage: "`HOST:PORT` instead of that of the login"},
		&cli.DurationFlag{Name: "patience", Value: 5 * time.Minute, Usage: "`TIME` without progress after which a lost server is given up"},
		sizeFlag("bwlimit", "", "`BYTES` a second, like 500KB, that content travels at"),
		carrierFlag(),
		oneOf("log", "`LEVEL` of the log: off, debug, info, warn or error", "off", "debug", "info", "warn", "error"),
	)...)
}

// session is a command's dealings with a server, over as many connections as it takes.
type session struct {
	*job
	profile
	config desk.ClientConfig
	moved  atomic.Bool // content has travelled on this connection
	again  bool        // it was asked before, and may have been done
}

// newSession reads the flags and the login.
func newSession(j *job) (s *session, err error) {
	s = &session{job: j}
	if s.profile, err = openProfile(s.String("home"), s.String("profile")); err != nil {
		return nil, err
	}
	s.Server = cmp.Or(s.String("server"), s.Server)
	s.config.Token = s.Token
	s.config.Rate, s.config.Watch = int(min(s.size("bwlimit"), math.MaxInt32)), s.watch
	s.config.QUIC = s.String("carrier") == "quic"
	s.config.Logger, s.config.LogLevel = s.logger()
	return s, nil
}

// visiting is what a command does at the server and nowhere else.
func visiting(do func(context.Context, *session, *desk.Client) error) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		return s.reach(ctx, func(ctx context.Context, client *desk.Client) error { return do(ctx, s, client) })
	}
}

// reach runs fn with a connected client. After an error that may pass by itself it does so again over a new connection, until nothing has
// moved for as long as --patience says, but for the time for which the server was there.
func (s *session) reach(ctx context.Context, fn func(context.Context, *desk.Client) error) error {
	s.config.Server, s.config.TLS = s.Server, cert.Pinned(s.Fingerprint)
	pauses, patience := backoff.NewExponentialBackOff(), s.Duration("patience")
	pauses.MaxInterval = maxPause
	for deadline, said := time.Now().Add(patience), ""; ; {
		err := s.once(ctx, func(ctx context.Context, client *desk.Client) error {
			defer func(begin time.Time) { deadline = deadline.Add(time.Since(begin)) }(time.Now())
			return fn(ctx, client)
		})
		s.again = true
		if s.moved.Swap(false) {
			pauses.Reset()
			deadline = time.Now().Add(patience)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passes(err):
			return explain(s.Server, err)
		case !time.Now().Before(deadline):
			return fail(exitUnreached, "%w; given up after --patience %v without progress%s", explain(s.Server, err), patience, s.kept)
		}
		if text := oneLine(explain(s.Server, err)); text != said {
			s.note("connection lost: %s; trying again for %v", text, time.Until(deadline).Round(time.Second))
			said = text
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
		}
	}
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
	if err = fn(ctx, client); ctx.Err() != nil {
		client.CloseFor("the client was interrupted")
	}
	return err
}

// watch shows what moves, and notes whether something has.
func (s *session) watch(label string, total int64) (moved func(bytes int), stop func()) {
	show, stop := s.show(label, total)
	return func(bytes int) {
		s.moved.Store(true)
		show(bytes)
	}, stop
}

// show shows on a terminal how much of something has moved until stop is called. A negative total is not known. One goroutine at a time may
// call moved.
func (j *job) show(label string, total int64) (moved func(bytes int), stop func()) {
	f, isFile := j.ErrWriter.(*os.File)
	if j.Bool("quiet") || !isFile || !term.IsTerminal(int(f.Fd())) {
		return func(int) {}, func() {}
	}
	bar := newBar(f, label, total)
	return func(bytes int) { _ = bar.Add(bytes) }, func() { _ = bar.Clear() } // a bar that cannot be drawn stops nothing
}

// newBar makes a bar, or where the total is not known a spinner, which turns when it is told of something new and not by itself:
// it would do that for ever.
func newBar(out io.Writer, label string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(cmp.Or(total, 1), progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionThrottle(barInterval))
}

// sizeText writes bytes for people.
func sizeText(bytes int64) string { return humanize.Bytes(uint64(max(bytes, 0))) }

// contentText says how much a version holds.
func contentText(v versions.Version) string {
	return fmt.Sprintf("%s in %s", sizeText(v.Size), english.Plural(v.Files, "file", ""))
}

// noteDisplaced says which versions are gone for good, also when --quiet is given.
func (s *session) noteDisplaced(stored desk.Stored) {
	for _, d := range stored.Displaced {
		fmt.Fprintf(s.ErrWriter, "deleted to make room: %s\n", plain(d))
	}
}

// report says what a transfer did.
func (s *session) report(v versions.Version, bytes int64, moved string, begin time.Time) {
	s.say("%s %s: version %d, %s, %s %s in %.1f s", s.Name, plain(v.Name), v.Number, contentText(v), sizeText(bytes), moved, time.Since(begin).Seconds())
}
