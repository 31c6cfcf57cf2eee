package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
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
			return s.loggedOut(s.String("profile"))
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
	begin  time.Time   // of the command
	bytes  int64       // of content that have travelled, packed
	moved  atomic.Bool // content has travelled on this connection
	again  bool        // it was asked before, and may have been done
	met    bool        // a connection was there
}

// newSession reads the flags and the login.
func newSession(j *job) (s *session, err error) {
	s = &session{job: j, begin: time.Now()}
	if s.profile, err = openProfile(s.String("home"), s.String("profile")); err != nil {
		return nil, err
	}
	s.Server = cmp.Or(s.String("server"), s.Server)
	s.config.Token = s.Token
	s.config.Rate, s.config.Watch = int(min(s.size("bwlimit"), math.MaxInt32)), s.watch
	s.config.QUIC = s.String("carrier") == "quic"
	s.config.Logger = s.logger()
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
	_, port, err := net.SplitHostPort(s.Server)
	if err == nil {
		_, err = net.LookupPort("udp", port)
	}
	if err != nil {
		return usage("the server %q is no HOST:PORT: %w", s.Server, err)
	}
	pin, err := cert.Pinned(s.Fingerprint)
	if err != nil {
		return fail(exitDenied, "server %s: %v; log in again", s.Server, err)
	}
	s.config.Connect = func(ctx context.Context, w *rpc.World) (*rpc.Conn, error) { return rpc.Dial(ctx, s.Server, pin, w) }
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
		case !desk.Transient(err) && !(s.met && errors.As(err, new(*net.DNSError))): // the name is found again when this machine's network is back
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
	if err != nil {
		return cmp.Or(context.Cause(dialing), err)
	}
	defer client.Close()
	s.met = true
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

// contentText says how much a version holds.
func contentText(v versions.Version) string {
	return fmt.Sprintf("%s in %s", versions.SizeText(v.Size), english.Plural(v.Files, "file", ""))
}

// noteDisplaced says which versions are gone for good, also when --quiet is given.
func (s *session) noteDisplaced(displaced []string) {
	for _, d := range displaced {
		fmt.Fprintf(s.ErrWriter, "deleted to make room: %s\n", plain(d))
	}
}

// report says what a transfer did, over all connections.
func (s *session) report(v versions.Version, moved string) {
	s.say("%s %s: version %d, %s, %s %s in %.1f s", s.Name, plain(v.Name), v.Number, contentText(v), versions.SizeText(s.bytes), moved, time.Since(s.begin).Seconds())
}

// profile is what a login leaves: where the server is, and who this machine is there.
type profile struct {
	home string // folder of what is kept between commands

	Server      string `json:"server"`
	Fingerprint string `json:"fingerprint"` // of the server's certificate, in hex
	User        string `json:"user"`
	Token       string `json:"token"`
	Machine     string `json:"machine"`
}

// openProfile reads the profile of a name, empty where nobody has logged in. Home is a folder, empty for the usual one.
func openProfile(home, name string) (p profile, err error) {
	if home == "" {
		if home, err = os.UserConfigDir(); err != nil {
			return p, fmt.Errorf("no folder for the login: %w; set $SAVEGAME_HOME", err)
		}
		home = filepath.Join(home, "savegame")
	}
	if name != "" {
		home, err = filepath.Join(home, name), users.CheckName(name)
	}
	p.home, p.Machine = home, machineName()
	if err == nil {
		err = readJSON(p.file(), &p)
	}
	return p, err
}

// loggedOut returns the error of a profile, by its name, that has no login, with the profiles that have one.
func (p *profile) loggedOut(name string) error {
	who, home := "not logged in", p.home
	if name != "" {
		who, home = fmt.Sprintf("not logged in as --profile %s", name), filepath.Dir(p.home)
	}
	const paste = "paste the line that savegame serve printed (savegame login HOST:PORT CODE)"
	if others := logins(home); len(others) > 0 {
		return fail(exitDenied, "%s; there is a login %s; or %s", who, strings.Join(others, ", "), paste)
	}
	return fail(exitDenied, "%s: %s", who, paste)
}

// logins returns how commands name the profiles in a folder that have a login, some ten of them.
func logins(home string) (names []string) {
	if _, err := os.Stat(filepath.Join(home, profileFile)); err == nil {
		names = append(names, "without --profile")
	}
	named, _ := fs.Glob(os.DirFS(home), "*/"+profileFile) // where it cannot be read there are none to name
	for _, file := range named[:min(10, len(named))] {
		names = append(names, "with --profile "+filepath.Dir(file))
	}
	return names
}

const profileFile = "profile.json"

func (p *profile) file() string { return filepath.Join(p.home, profileFile) }

// machineName returns this machine's name as versions have it.
func machineName() string {
	if host, err := os.Hostname(); err == nil && users.CheckName(host) == nil {
		return host
	}
	return "machine"
}

// sighting remembers what a place of this machine held when it was equal to a version. Each place has its own, so that a
// look at a version from another folder is no consent to lose it from this one.
type sighting struct {
	Ref  versions.Ref
	Data cdc.Digest // of its manifest
	Time int64      // of the save itself, as its manifest has it

	Exclude []string `json:",omitempty"` // what puts of it leave out
}

func (p *profile) seenFile() string { return filepath.Join(p.home, "seen.json") }

// key is under what the sightings of a save are kept, or that of a place, which is the paths that were put or the one that was got, by whatever
// links they are reached. Their last elements may be links too: those are what the place is, and may lead elsewhere tomorrow.
func (p *profile) key(name string, place ...string) string {
	key, paths := p.Fingerprint[:min(16, len(p.Fingerprint))]+"/"+name+"\n", make([]string, len(place))
	for i, at := range place {
		at, _ = filepath.Abs(at) // where it fails nothing was read or written
		if folder, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
			at = filepath.Join(folder, filepath.Base(at))
		}
		paths[i] = at
	}
	for _, at := range slices.Sorted(slices.Values(paths)) { // they are one place in whatever order they are said
		key += at + "\n"
	}
	return key
}

// seen returns all sightings, of saves at any server.
func (p *profile) seen() (map[string]sighting, error) {
	sightings := make(map[string]sighting)
	return sightings, readJSON(p.seenFile(), &sightings)
}

// seenLast returns the newest version of a save that any place held.
func (p *profile) seenLast(name string) (last versions.Ref, err error) {
	sightings, err := p.seen()
	for key, s := range sightings {
		if strings.HasPrefix(key, p.key(name)) && s.Ref.Number > last.Number {
			last = s.Ref
		}
	}
	return last, err
}

// remember notes that a place holds a version, and what its puts leave out, unless that is nil.
func (p *profile) remember(v versions.Version, m *manifest.Manifest, exclude []string, place ...string) error {
	return p.edit(func(sightings map[string]sighting) {
		here := p.key(v.Name, place...)
		if exclude == nil {
			exclude = sightings[here].Exclude
		}
		sightings[here] = sighting{v.Ref(), m.Data(), m.Entries[0].Time, exclude}
	})
}

// forget notes that there is no version of a save any more: what places held of it no version has now.
func (p *profile) forget(name string) error {
	return p.edit(func(sightings map[string]sighting) {
		for key, s := range sightings {
			if strings.HasPrefix(key, p.key(name)) {
				sightings[key] = sighting{Exclude: s.Exclude}
			}
		}
	})
}

// edit changes the sightings, alone, when something was done. No error of it says that it was not, as one of a full disk would.
func (p *profile) edit(change func(sightings map[string]sighting)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("it is done, but cannot be remembered here: %v", err)
		}
	}()
	lock, err := files.Lock(p.seenFile()+".lock", 5*time.Second)
	if err != nil {
		return err
	}
	defer lock.Close()
	sightings, err := p.seen()
	if err != nil {
		return err
	}
	change(sightings)
	return writeJSON(p.seenFile(), sightings)
}

// readJSON reads a file, which may be missing.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w; move it away", path, err)
	}
	return nil
}

// writeJSON replaces a file, for its owner alone.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return files.Replace(path, b)
}
