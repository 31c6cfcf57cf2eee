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
	// storeFolder and tokenFile are in the server's folder, along with the certificate.
	storeFolder, tokenFile = "store", "tokens.txt"
	// firstUser is the user of a new server if --user doesn't name one.
	firstUser = "player"
	// closeTime is how long a server waits for its last packets to arrive.
	closeTime = 10 * time.Second
	// watchInterval is how often the server checks the token file, and collectInterval is how often
	// it deletes what is outdated.
	watchInterval, collectInterval = time.Second, time.Hour
)

// serveFlags returns the flags that only serve has.
func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Value: ":7777", Usage: "`HOST:PORT` to listen on (UDP)"},
		&cli.StringSliceFlag{Name: "user", Usage: "print a login line for `NAME`, who may be new (default: the first user in the token file)"},
		sizeFlag("max-size", "", "maximum `BYTES` of one save, such as 10GB (default: the disk)"),
		sizeFlag("quota", "", "maximum `BYTES` in the store for each user, whose old versions make room for new ones (default: the disk, except for its last 256 MiB)"),
		sizeFlag("total-quota", "", "maximum `BYTES` in the store for all users (default: the disk)"),
		&cli.IntFlag{Name: "keep", Value: 10, Usage: "`VERSIONS` of a save that are kept however old they are", Validator: atLeast(1)},
		&cli.DurationFlag{Name: "keep-for", Value: 7 * 24 * time.Hour, Usage: "`TIME` for which all versions and removed saves are kept", Validator: atLeast[time.Duration](1)},
		&cli.DurationFlag{Name: "drain", Value: 30 * time.Second, Usage: "`TIME` that running puts and gets have to finish when the server stops", Validator: atLeast[time.Duration](0)},
		oneOf("log", "`LEVEL` of the log: off, debug, info, warn or error", "info", "off", "debug", "warn", "error"),
	}
}

// A server is a running serve command.
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
	socket, err := net.ListenPacket("udp", j.String("addr")) // first, so that a server that can't start leaves nothing behind
	if _, malformed := errors.AsType[*net.AddrError](err); malformed {
		return usage("%w: choose another --addr", err)
	} else if err != nil {
		return fmt.Errorf("%w: choose another --addr", err)
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

// open starts accepting clients, and prints the lines that log them in.
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
		fmt.Fprintf(s.ErrWriter, "disk of %s is full: it lacks %s of its reserve, so puts delete old versions or are refused\n", s.String("dir"), versions.SizeText(-room))
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

// openUsers opens the token file, to which it adds a user if it doesn't exist. It returns the users
// for whom to print a line.
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

// reachable returns the address at which clients reach a server that listens on addr. If addr has
// no IP address, that is one of this machine.
func reachable(addr net.Addr) string {
	at, ok := addr.(*net.UDPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return addr.String()
	}
	host := net.IPv4(127, 0, 0, 1)
	locals, _ := net.InterfaceAddrs() // without any, the server is reachable only from this machine
	for _, local := range locals {
		if n, ok := local.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			host = n.IP
			break
		}
	}
	return (&net.UDPAddr{IP: host, Port: at.Port}).String()
}

// run serves until ctx ends. Then it waits for running requests for as long as --drain allows.
func (s *server) run(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { s.config.Users.Watch(running, s.World(), desk.Revoked, watchInterval, s.config.Logger) })
	work.Go(func() { s.collect(running) })
	ended := make(chan error, 1)
	go func() { ended <- s.World().Run(running) }()
	<-ctx.Done()
	s.note("stopping: running puts and gets have %v to finish; a second signal stops immediately", s.Duration("drain"))
	draining, cancel := context.WithTimeout(running, s.Duration("drain"))
	defer cancel()
	s.Drain(draining)
	closing, cancel := context.WithTimeout(running, closeTime)
	defer cancel()
	err := errors.Join(s.Close(closing, "server is shutting down"), s.listener.Close())
	if runErr := <-ended; !errors.Is(runErr, rpc.ErrClosed) {
		err = errors.Join(err, runErr)
	}
	stop()
	work.Wait()
	return err
}

// collect deletes what is outdated every collectInterval.
func (s *server) collect(ctx context.Context) {
	for ctx.Err() == nil {
		did, err := s.config.Versions.Collect(ctx)
		if ctx.Err() == nil && (err != nil || did.Objects > 0) {
			s.config.Logger.Info("deleted outdated versions and objects", "versions", did.Versions, "objects", did.Objects, "bytes", did.Bytes, "error", err)
		}
		select {
		case <-time.After(collectInterval):
		case <-ctx.Done():
		}
	}
}

// serverCommands declares the commands that run on the machine with the server's folder.
func serverCommands() []*cli.Command {
	command := func(name, args, summary string, do func(context.Context, *job) error, flags ...cli.Flag) *cli.Command {
		return command(name, args, summary, do, append(flags,
			checked("dir", "savegame-data", "`FOLDER` of the certificate, the saves and "+tokenFile+", which has a line user:token for each login", notEmpty))...)
	}
	serve := command("serve", "", "keep saves in a folder for users who log in", serve, serveFlags()...)
	serve.Description = "The line that it prints logs one machine in, on which savegame invite prints the line for the next one.\nAfter a signal it accepts nothing new, and ends when running puts and gets have finished; after a second signal it ends immediately."
	return []*cli.Command{
		serve,
		command("check", "", "read and verify everything that a stopped server keeps", check,
			&cli.BoolFlag{Name: "repair", Usage: "delete damaged content, so that a put of the same content brings it back, and permanently delete versions whose records are damaged"}),
		group("token", "manage who may log in, whether the server is running or not",
			command("add", "USER", "give a user a new token, and print the line that logs a machine in with it", addToken),
			command("revoke", "USER [PREFIX]", "revoke a user's tokens, or those that begin with PREFIX", revokeTokens),
			command("ls", "", "list the tokens by their first letters, which login printed, with their notes", listTokens)),
	}
}

// tokens returns the path of the token file.
func (j *job) tokens() string { return filepath.Join(j.String("dir"), tokenFile) }

// noServer turns an error that a file is missing into one that tells what a server's folder
// contains.
func noServer(j *job, err error, has string) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return usage("%s is not the folder of a server, because it lacks %s: use the same --dir FOLDER as serve", j.String("dir"), has)
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
		return fail(exitUnsound, "the store in %s was damaged: put incomplete saves again", j.String("dir"))
	case !r.Sound():
		return fail(exitUnsound, "the store in %s is damaged: run check --repair, then put incomplete saves again", j.String("dir"))
	}
	j.say("sound: %s of %s, %s in %s", english.Plural(r.Versions, "version", ""), english.Plural(r.Users, "user", ""),
		versions.SizeText(r.Bytes), english.Plural(r.Objects, "object", ""))
	return nil
}

func addToken(_ context.Context, j *job) error {
	if _, err := users.List(j.tokens()); err != nil { // Add would create it, even in a wrong folder
		return noServer(j, err, "a file "+tokenFile)
	}
	certificate, err := cert.Load(j.String("dir"))
	if err != nil {
		return err
	}
	token, err := users.Add(j.tokens(), j.args[0])
	if err == nil {
		j.note("this line logs a machine in; replace HOST:PORT by the server's address:")
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
