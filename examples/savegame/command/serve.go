package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
)

const (
	// storeFolder and tokenFile are in a server's folder, beside the certificate.
	storeFolder, tokenFile = "store", "tokens.txt"
	// firstUser is the user of a new server if --user does not name one.
	firstUser = "player"
	// closeTime is how long a server waits until its last packets have arrived.
	closeTime = 10 * time.Second
	// watchInterval is how often the server looks at the token file, and
	// collectInterval how often it deletes what is outdated.
	watchInterval, collectInterval = time.Second, time.Hour
)

// serveFlags returns the flags of serve alone.
func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Value: ":7777", Usage: "`HOST:PORT` to listen on, with UDP"},
		&cli.StringSliceFlag{Name: "user", Usage: "print a line for `NAME`, who may be new (default: the first of the token file)"},
		sizeFlag("max-size", "", "`BYTES` of one save, like 10GB (default: what the disk has)"),
		sizeFlag("quota", "", "`BYTES` of the store for each user, where old versions make room for new ones (default: the disk, but for its last 256 MiB)"),
		sizeFlag("total-quota", "", "`BYTES` of the store for all users (default: the disk)"),
		&cli.IntFlag{Name: "keep", Value: 10, Usage: "`VERSIONS` of a save that stay however old they are", Validator: atLeast(1)},
		&cli.DurationFlag{Name: "keep-for", Value: 7 * 24 * time.Hour, Usage: "`TIME` for which all versions stay, and removed saves", Validator: atLeast[time.Duration](1)},
		&cli.DurationFlag{Name: "drain", Value: 30 * time.Second, Usage: "`TIME` that running puts and gets have at the end"},
		oneOf("log", "`LEVEL` of the log: off, debug, info, warn or error", "info", "off", "debug", "warn", "error"),
	}
}

// A server is a running serve.
type server struct {
	*job
	*desk.Server
	config   desk.ServerConfig
	listener *rpc.Listener
}

// serve runs a server until it is interrupted.
func serve(ctx context.Context, j *job) (err error) {
	s := &server{job: j, config: desk.ServerConfig{Logger: j.logger()}}
	config := versions.Config{Keep: j.Int("keep"), KeepFor: j.Duration("keep-for"), Quota: j.size("quota"), TotalQuota: j.size("total-quota"),
		MaxSize: j.size("max-size")}
	for _, name := range j.StringSlice("user") {
		if err := users.CheckName(name); err != nil {
			return err
		}
	}
	socket, err := net.ListenPacket("udp", j.String("addr")) // first, so that a server that cannot start leaves nothing behind
	if _, malformed := errors.AsType[*net.AddrError](err); malformed {
		return usage("%w; choose another --addr", err)
	} else if err != nil {
		return fmt.Errorf("%w; choose another --addr", err)
	}
	defer socket.Close()
	folder, err := store.Open(filepath.Join(j.String("dir"), storeFolder))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if s.config.Versions, err = versions.Open(ctx, folder, config); err != nil {
		return err
	}
	if err := s.open(socket); err != nil {
		return err
	}
	return s.run(ctx)
}

// open accepts clients, and prints the lines that log them in.
func (s *server) open(socket net.PacketConn) error {
	names, err := s.openUsers(s.tokens())
	if err != nil {
		return err
	}
	certificate, err := cert.Load(s.String("dir"))
	if err != nil {
		return err
	}
	if s.Server, err = desk.NewServer(s.config); err != nil {
		return err
	}
	if s.listener, err = rpc.ListenPacket(socket, &tls.Config{Certificates: []tls.Certificate{certificate}}, s.World()); err != nil {
		return err
	}
	if room, err := s.config.Versions.Room(context.Background()); err == nil && room <= 0 {
		fmt.Fprintf(s.ErrWriter, "no room: the disk of %s lacks %s of its reserve: for a put old versions are deleted, or it is refused\n", s.String("dir"), versions.SizeText(-room))
	}
	for _, name := range names {
		code, err := s.config.Users.Invite(name, time.Now())
		if err != nil {
			return err
		}
		s.note("serving %s; paste this line on a machine of %s within 10 minutes:", s.String("dir"), name)
		s.say("%s", pasteLine(reachable(s.listener.Addr()), code, cert.Fingerprint(certificate)))
	}
	return nil
}

// openUsers opens the token file, which has at least one user, and returns the
// users for whom a line is printed.
func (s *server) openUsers(path string) (names []string, err error) {
	all, err := users.List(path)
	if errors.Is(err, os.ErrNotExist) {
		first := append(s.StringSlice("user"), firstUser)[0]
		_, err = users.Add(path, first, "of no machine, but it makes "+first+" a user")
	}
	if err != nil {
		return nil, err
	}
	if s.config.Users, err = users.Open(path); err != nil {
		return nil, err
	}
	if names = s.StringSlice("user"); len(names) == 0 {
		names = []string{append(all, users.Token{User: firstUser})[0].User}
	}
	return names, err
}

// reachable returns the address at which clients reach a server that listens on
// addr: one of this machine's addresses if addr names none.
func reachable(addr net.Addr) string {
	at, ok := addr.(*net.UDPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return addr.String()
	}
	host := net.IPv4(127, 0, 0, 1)
	locals, _ := net.InterfaceAddrs() // without them the server is only reachable from this machine
	for _, local := range locals {
		if n, ok := local.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			host = n.IP
			break
		}
	}
	return (&net.UDPAddr{IP: host, Port: at.Port}).String()
}

// run serves until ctx ends, and then until the requests that run have ended, or their time has.
func (s *server) run(ctx context.Context) error {
	living, die := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { s.config.Users.Watch(living, s.World(), desk.Revoked, watchInterval, s.config.Logger) })
	work.Go(func() { s.collect(living) })
	ended := make(chan error, 1)
	go func() { ended <- s.World().Run(living) }()
	<-ctx.Done()
	s.note("stopping: puts and gets that run have %v; a second signal stops at once", s.Duration("drain"))
	draining, cancel := context.WithTimeout(living, s.Duration("drain"))
	defer cancel()
	s.Drain(draining)
	closing, cancel := context.WithTimeout(living, closeTime)
	defer cancel()
	err := errors.Join(s.Close(closing, "the server shuts down"), s.listener.Close())
	if runErr := <-ended; !errors.Is(runErr, rpc.ErrClosed) {
		err = errors.Join(err, runErr)
	}
	die()
	work.Wait()
	return err
}

// collect deletes what is outdated, every collectInterval.
func (s *server) collect(ctx context.Context) {
	for ctx.Err() == nil {
		did, err := s.config.Versions.Collect(ctx)
		if ctx.Err() == nil && (err != nil || did.Objects > 0) {
			s.config.Logger.Info("deleted what has had its time", "versions", did.Versions, "objects", did.Objects, "bytes", did.Bytes, "error", err)
		}
		select {
		case <-time.After(collectInterval):
		case <-ctx.Done():
		}
	}
}

// serverCommands declares the commands that run where the server's folder is.
func serverCommands() []*cli.Command {
	command := func(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
		return command(name, args, summary, do, append(flags,
			checked("dir", "savegame-data", "`FOLDER` of the certificate, the saves and "+tokenFile+", which has a line user:token for each login", notEmpty))...)
	}
	serve := command("serve", "", "keep saves in a folder, for who logs in", serve, serveFlags()...)
	serve.Description = "The line that it prints logs one machine in; there savegame invite prints the line for the next one.\nAfter a signal it takes nothing new, and ends when running puts and gets have; after a second one at once."
	return []*cli.Command{
		serve,
		command("check", "", "read all that a stopped server keeps, and verify it", check,
			&cli.BoolFlag{Name: "repair", Usage: "delete what is damaged, so that a put of the same content brings it back, and versions whose record is damaged, for good"}),
		group("token", "say who may come in, while the server runs or not",
			command("add", "USER", "give a user a new token, and print the line that logs a machine in by it", addToken),
			command("revoke", "USER [PREFIX]", "take a user's tokens away, or those that begin with PREFIX", revokeTokens),
			command("ls", "", "list the tokens, each by its first letters, which login printed, and its note", listTokens)),
	}
}

// tokens returns the path of the token file.
func (j *job) tokens() string { return filepath.Join(j.String("dir"), tokenFile) }

// noServer turns an error that something is missing into one that says what a server's folder has.
func noServer(j *job, err error, has string) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return usage("%s is no server's folder, which has %s; say --dir FOLDER, as serve was told", j.String("dir"), has)
}

// check verifies a server's folder.
func check(ctx context.Context, j *job) (err error) {
	path := filepath.Join(j.String("dir"), storeFolder)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return noServer(j, os.ErrNotExist, "a folder "+storeFolder)
	}
	folder, err := store.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	all, err := versions.Open(ctx, folder, versions.Config{})
	if err != nil {
		return err
	}
	r, err := all.Check(ctx, j.Bool("repair"))
	for _, f := range r.Findings {
		j.say("%s", oneLine(f))
	}
	switch {
	case err != nil:
		return err
	case !r.Sound() && j.Bool("repair"):
		return fail(exitUnsound, "the store in %s was unsound; put again what is incomplete", j.String("dir"))
	case !r.Sound():
		return fail(exitUnsound, "the store in %s is unsound; after check --repair, put again what is incomplete", j.String("dir"))
	}
	j.say("sound: %s of %s, %s in %s", english.Plural(r.Versions, "version", ""), english.Plural(r.Users, "user", ""),
		versions.SizeText(r.Bytes), english.Plural(r.Objects, "object", ""))
	return nil
}

func addToken(_ context.Context, j *job) error {
	if _, err := users.List(j.tokens()); err != nil { // Add would make one, also in a folder that was named by mistake
		return noServer(j, err, "a file "+tokenFile)
	}
	certificate, err := cert.Load(j.String("dir"))
	if err != nil {
		return err
	}
	token, err := users.Add(j.tokens(), j.args[0])
	if err == nil {
		j.note("this logs a machine in, with where the server is:")
		err = j.say("%s", pasteLine("HOST:PORT", token, cert.Fingerprint(certificate)))
	}
	return err
}

func revokeTokens(_ context.Context, j *job) error {
	n, err := users.Revoke(j.tokens(), j.args[0], strings.TrimRight(j.args[1], "…"))
	if err == nil {
		j.say("revoked %s of %s", english.Plural(n, "token", ""), j.args[0])
	}
	return noServer(j, err, "a file "+tokenFile)
}

func listTokens(_ context.Context, j *job) error {
	tokens, err := users.List(j.tokens())
	for _, t := range tokens {
		err = cmp.Or(err, j.say("%s", strings.TrimSpace(plain(fmt.Sprintf("%s %s… %s", t.User, t.Shown(), t.Note)))))
	}
	return noServer(j, err, "a file "+tokenFile)
}
