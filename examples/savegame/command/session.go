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
	// dialTime is how long a server may take to answer an attempt to connect.
	dialTime = 10 * time.Second
	// maxPause is the longest pause between two attempts. It's short, so that a server that is back
	// is found soon.
	maxPause = 5 * time.Second
	// barInterval is how often a terminal shows progress.
	barInterval = 100 * time.Millisecond
)

// client declares a command that connects to a server.
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
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of the login, if there are several"},
		&cli.StringFlag{Name: "server", Usage: "`HOST:PORT` of the server (default: that of the login)"},
		&cli.DurationFlag{Name: "patience", Value: 5 * time.Minute, Usage: "`TIME` without progress after which the command gives up a lost server", Validator: atLeast[time.Duration](0)},
		sizeFlag("bwlimit", "", "`BYTES` of content per second, such as 500KB (default: no limit)"),
		carrierFlag(),
		oneOf("log", "`LEVEL` of the log: off, debug, info, warn or error", "off", "debug", "info", "warn", "error"),
	)...)
}

// A session is a command's work with a server, over as many connections as it takes.
type session struct {
	*job
	profile
	config desk.ClientConfig
	begin  time.Time   // when the command began
	bytes  int64       // packed bytes of content sent or received
	moved  atomic.Bool // content has been sent or received on this connection
	again  bool        // the request was made before, and may have succeeded
	met    bool        // a connection was established
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

// visiting returns a command that runs do with a connected client.
func visiting(do func(context.Context, *session, *desk.Client) error) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		return s.reach(ctx, func(ctx context.Context, client *desk.Client) error { return do(ctx, s, client) })
	}
}

// reach runs fn with a connected client. After a temporary error it runs fn again over a new
// connection. It gives up after --patience without progress, not counting the time while the server
// was connected.
func (s *session) reach(ctx context.Context, fn func(context.Context, *desk.Client) error) error {
	_, port, err := net.SplitHostPort(s.Server)
	if err == nil {
		_, err = net.LookupPort("udp", port)
	}
	if err != nil {
		return usage("server %q is not HOST:PORT: %w", s.Server, err)
	}
	pin, err := cert.Pinned(s.Fingerprint)
	if err != nil {
		return fail(exitDenied, "server %s: %v: log in again", s.Server, err)
	}
	s.config.Connect = func(ctx context.Context, w *rpc.World) (*rpc.Conn, error) { return rpc.Dial(ctx, s.Server, pin, w) }
	pauses, patience := backoff.NewExponentialBackOff(), s.Duration("patience")
	pauses.MaxInterval = maxPause
	deadline, noted := time.Now().Add(patience), ""
	for {
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
		case !desk.Transient(err) && !(s.met && errors.As(err, new(*net.DNSError))): // DNS may work again when this machine's network is back
			return explain(s.Server, err)
		case !time.Now().Before(deadline):
			return fail(exitUnreached, "%w; gave up after --patience %v without progress%s", explain(s.Server, err), patience, s.kept)
		}
		if text := oneLine(explain(s.Server, err)); text != noted {
			s.note("connection lost: %s; trying again for %v", text, time.Until(deadline).Round(time.Second))
			noted = text
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
		client.CloseFor("client was interrupted")
	}
	return err
}

// watch shows progress, and records whether there is any.
func (s *session) watch(label string, total int64) (moved func(bytes int), stop func()) {
	show, stop := s.show(label, total)
	return func(bytes int) {
		s.moved.Store(true)
		show(bytes)
	}, stop
}

// show shows progress on a terminal until stop is called. A negative total means that the total is
// unknown. Only one goroutine at a time may call moved.
func (j *job) show(label string, total int64) (moved func(bytes int), stop func()) {
	f, isFile := j.ErrWriter.(*os.File)
	if j.Bool("quiet") || !isFile || !term.IsTerminal(int(f.Fd())) {
		return func(int) {}, func() {}
	}
	bar := newBar(f, label, total)
	return func(bytes int) { _ = bar.Add(bytes) }, func() { _ = bar.Clear() } // the errors of a progress bar don't matter
}

// newBar returns a progress bar or, if the total is unknown, a spinner. The spinner turns only when
// it is updated, because one that turns automatically would never stop.
func newBar(out io.Writer, label string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(cmp.Or(total, 1), progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionThrottle(barInterval))
}

// contentText returns how much a version holds, as text.
func contentText(v versions.Version) string {
	return fmt.Sprintf("%s in %s", versions.SizeText(v.Size), english.Plural(v.Files, "file", ""))
}

// noteDisplaced prints which versions were permanently deleted, even with --quiet.
func (s *session) noteDisplaced(displaced []string) {
	for _, d := range displaced {
		fmt.Fprintf(s.ErrWriter, "deleted to make room: %s\n", plain(d))
	}
}

// report prints what a transfer did, over all connections.
func (s *session) report(v versions.Version, moved string) {
	s.say("%s %s: version %d, %s, %s %s in %.1f s", s.Name, plain(v.Name), v.Number, contentText(v), versions.SizeText(s.bytes), moved, time.Since(s.begin).Seconds())
}

// A profile is the stored result of a login: the server's address, and the identity of this machine
// there.
type profile struct {
	home string // the folder for data kept between commands

	Server      string `json:"server"`
	Fingerprint string `json:"fingerprint"` // fingerprint of the server's certificate, in hex
	User        string `json:"user"`
	Token       string `json:"token"`
	Machine     string `json:"machine"`
}

// openProfile reads the profile with the given name, which is empty if there was no login. home is
// the folder of logins; "" = the default one.
func openProfile(home, name string) (p profile, err error) {
	if home == "" {
		if home, err = os.UserConfigDir(); err != nil {
			return p, fmt.Errorf("no folder for the login: %w: set $SAVEGAME_HOME", err)
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

// loggedOut returns the error for the named profile, which has no login. It lists the profiles that
// have one.
func (p *profile) loggedOut(name string) error {
	who, home := "not logged in", p.home
	if name != "" {
		who, home = fmt.Sprintf("not logged in as --profile %s", name), filepath.Dir(p.home)
	}
	const paste = "paste the line that savegame serve printed (savegame login HOST:PORT CODE)"
	if others := logins(home); len(others) > 0 {
		return fail(exitDenied, "%s; there is a login %s, or %s", who, strings.Join(others, ", "), paste)
	}
	return fail(exitDenied, "%s: %s", who, paste)
}

// logins returns the flags that select the profiles in a folder that have a login, for no more than
// about ten of them.
func logins(home string) (names []string) {
	if _, err := os.Stat(filepath.Join(home, profileFile)); err == nil {
		names = append(names, "without --profile")
	}
	named, _ := fs.Glob(os.DirFS(home), "*/"+profileFile) // none if the folder can't be read
	for _, file := range named[:min(10, len(named))] {
		names = append(names, "with --profile "+filepath.Dir(file))
	}
	return names
}

const profileFile = "profile.json"

func (p *profile) file() string { return filepath.Join(p.home, profileFile) }

// machineName returns this machine's name as versions show it.
func machineName() string {
	if host, err := os.Hostname(); err == nil && users.CheckName(host) == nil {
		return host
	}
	return "machine"
}

// A sighting records the content that a place of this machine had when it equaled a version. Each
// place has its own, because somebody who saw a version in another folder hasn't agreed to lose it
// from this one.
type sighting struct {
	Ref  versions.Ref
	Data cdc.Digest // digest of the data in the manifest
	Time int64      // time of the save's first entry in the manifest

	Exclude []string `json:",omitempty"` // patterns of files that puts leave out
}

func (p *profile) seenFile() string { return filepath.Join(p.home, "seen.json") }

// key returns the key of a sighting. A place is the set of paths that were put, or the path that
// was got, with all links in their folders resolved. Links that are the last elements of the paths
// aren't resolved, because they identify the place and may lead elsewhere tomorrow. Without a
// place, key returns the prefix of all keys of the save.
func (p *profile) key(name string, place ...string) string {
	key, paths := p.Fingerprint[:min(16, len(p.Fingerprint))]+"/"+name+"\n", make([]string, len(place))
	for i, at := range place {
		at, _ = filepath.Abs(at) // if this fails, nothing can be read or written either
		if folder, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
			at = filepath.Join(folder, filepath.Base(at))
		}
		paths[i] = at
	}
	for _, at := range slices.Sorted(slices.Values(paths)) { // their order doesn't matter
		key += at + "\n"
	}
	return key
}

// seen returns all sightings, of saves on all servers.
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

// remember records that a place has a version and, unless exclude is nil, the patterns of files
// that its puts leave out.
func (p *profile) remember(v versions.Version, m *manifest.Manifest, exclude []string, place ...string) error {
	return p.edit(func(sightings map[string]sighting) {
		here := p.key(v.Name, place...)
		if exclude == nil {
			exclude = sightings[here].Exclude
		}
		sightings[here] = sighting{v.Ref(), m.Data(), m.Entries[0].Time, exclude}
	})
}

// forget records that a save has been erased, so that no version has the content of its places.
func (p *profile) forget(name string) error {
	return p.edit(func(sightings map[string]sighting) {
		for key, s := range sightings {
			if strings.HasPrefix(key, p.key(name)) {
				sightings[key] = sighting{Exclude: s.Exclude}
			}
		}
	})
}

// edit changes the sightings under a lock. It is called after a command succeeded, so its errors
// don't wrap their causes: that of a full disk, for example, would look as if the command had
// failed.
func (p *profile) edit(change func(sightings map[string]sighting)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("command succeeded, but its result cannot be recorded here: %v", err)
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

// readJSON reads a file if it exists.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w: move the file away", path, err)
	}
	return nil
}

// writeJSON replaces a file that only its owner can read.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return files.Replace(path, b)
}
