package desk

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

const (
	// idleTimeout is after how much silence an end takes the other for gone.
	idleTimeout = 10 * time.Second
	// keepAlive is how often an end that has nothing to say shows that it is there.
	keepAlive = 3 * time.Second
	// closeTime is how long an end waits for its last words to arrive.
	closeTime = 3 * time.Second
)

// ClientConfig says where a client goes.
type ClientConfig struct {
	Server   string // host:port
	TLS      *tls.Config
	Token    string         // or what users.ByCode has made
	Socket   net.PacketConn // of the caller; nil: one is made
	Backend  stream.Backend // nil: the stream package's default
	QUIC     bool           // all travels in QUIC's datagrams, not in sealed packets
	Rate     int            // bytes of chunks a second, either way; 0: no limit
	Logger   *slog.Logger
	LogLevel *slog.LevelVar

	// Setup, unless nil, may bind more classes to the world before it connects.
	Setup func(*rpc.World)
	// Watch, unless nil, is told how many bytes of chunks, unpacked, each put and get has to move, then what has moved again, and by stop
	// that all has, or will not.
	Watch func(label string, bytes int64) (moved func(bytes int), stop func())
}

// Client is a client at its desk. Its methods are safe for concurrent use.
type Client struct {
	config  ClientConfig
	world   *rpc.World
	streams *stream.Streams
	conn    *rpc.Conn
	desk    *rpc.Actor
	inbox   stream.Inbox
	numbers atomic.Uint32
	run     sync.WaitGroup
	stop    context.CancelFunc
}

// Dial connects, and returns when the desk is open.
func Dial(ctx context.Context, config ClientConfig) (_ *Client, err error) {
	c := &Client{config: config}
	opened := make(chan *rpc.Actor, 1)
	if err = c.build(opened); err != nil {
		return nil, err
	}
	if err = c.connect(ctx); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.run.Go(func() { _ = c.world.Run(running) })
	select {
	case c.desk = <-opened:
		return c, nil
	case <-c.conn.Done():
		err = c.conn.Err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.Close()
	return nil, err
}

// build makes the world.
func (c *Client) build(opened chan<- *rpc.Actor) (err error) {
	c.world, err = rpc.NewWorld(rpc.Config{
		Token:       []byte(c.config.Token),
		Sealed:      !c.config.QUIC,
		IdleTimeout: idleTimeout,
		KeepAlive:   keepAlive,
		RequestTime: -1, // a commit waits for all chunks
		Logger:      c.config.Logger,
		LogLevel:    c.config.LogLevel,
	})
	if err != nil {
		return err
	}
	c.streams, err = stream.Install(c.world, stream.Config{Backend: c.config.Backend, MaxBytes: -1, MaxPending: maxPending})
	if err != nil {
		return err
	}
	rpc.Bind(c.world, Class, func(a *rpc.Actor) *Client {
		select {
		case opened <- a:
		default: // a server that opens more than one gets no use of them
		}
		return c
	})
	talks.Handle(c.streams, c.inbox.Deliver)
	if c.config.Setup != nil {
		c.config.Setup(c.world)
	}
	return nil
}

func (c *Client) connect(ctx context.Context) (err error) {
	if c.config.Socket == nil {
		c.conn, err = rpc.Dial(ctx, c.config.Server, c.config.TLS, c.world)
		return err
	}
	addr, err := net.ResolveUDPAddr("udp", c.config.Server)
	if err == nil {
		c.conn, err = rpc.DialPacket(ctx, c.config.Socket, addr, c.config.TLS, c.world)
	}
	return err
}

// Conn returns the connection.
func (c *Client) Conn() *rpc.Conn { return c.conn }

// World returns the world, which the client drives.
func (c *Client) World() *rpc.World { return c.world }

// Close ends the connection, at most a few seconds later.
func (c *Client) Close() { c.CloseFor("the client is done") }

// CloseFor is Close with a reason, which the server's log shows.
func (c *Client) CloseFor(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = c.world.Close(ctx, 0, reason)
	c.stop()
	c.run.Wait()
}

func (c *Client) next() number { return number(c.numbers.Add(1)) }

func (c *Client) watch(label string, all []manifest.Chunk, lacks []int) (moved func(bytes int), stop func()) {
	if c.config.Watch == nil {
		return func(int) {}, func() {}
	}
	bytes := int64(0)
	for _, i := range lacks {
		bytes += int64(all[i].Size)
	}
	return c.config.Watch(label, bytes)
}

// ask asks the desk. A refusal is a *Refusal, the connection's end wraps a *rpc.CloseError.
func ask[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], a A) (R, error) {
	answer, err := r.Ask(ctx, c.desk, a)
	switch refusal := refusalOf(err); {
	case err == nil:
		return answer, nil
	case refusal != nil:
		return answer, refusal
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case c.conn.Err() != nil:
		return answer, c.conn.Err()
	}
	return answer, fmt.Errorf("asking the server: %w", err)
}

// byServer is how a talk ends where the answer says why.
var byServer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled}

// askAndTalk asks the desk, and talks beside, until both have ended, or one has failed, which ends the other.
func askAndTalk[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], n number, a A, talking func(t *talk) error) (answer R, err error) {
	var broken error
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		answer, err = ask(ctx, c, r, a)
		return err
	})
	both.Go(func() error {
		err := talking(&talk{ctx: ctx, peer: c.streams.Peer(c.conn), inbox: &c.inbox, number: n, rate: c.config.Rate})
		if slices.ContainsFunc(byServer, func(end error) bool { return errors.Is(err, end) }) {
			broken = err
			return nil
		}
		return err
	})
	err = both.Wait()
	return answer, cmp.Or(err, broken)
}

// List returns the newest version of each of the client's saves by name, of those in the trash as well.
func (c *Client) List(ctx context.Context) ([]versions.Version, error) { return c.list(ctx, "") }

// History returns the versions of a save that are there, the newest last.
func (c *Client) History(ctx context.Context, name string) ([]versions.Version, error) {
	if err := versions.CheckName(name); err != nil {
		return nil, err // an empty one would list all
	}
	return c.list(ctx, name)
}

// list asks for pages until one is not full.
func (c *Client) list(ctx context.Context, name string) (list []versions.Version, err error) {
	for a := (listArgs{Name: name}); ; {
		page, err := ask(ctx, c, askList, a)
		if list = append(list, page.Versions...); err != nil || len(page.Versions) < mostListed {
			return list, err
		}
		if last := list[len(list)-1]; len(list) <= maxVersions {
			a.Behind, a.Above = last.Name, last.Number
			continue
		}
		return nil, fmt.Errorf("%w: a list of more than %d versions", manifest.ErrManifest, maxVersions)
	}
}

// Restore makes a new version of what an old one holds, also of a save in the trash; version 0 is the last one that was put.
func (c *Client) Restore(ctx context.Context, name string, version int, machine string) (Stored, error) {
	m, err := ask(ctx, c, askRestore, editArgs{Name: name, Version: version, Machine: machine})
	return Stored{made: m}, err
}

// Remove puts a save into the trash: its versions stay for a while and can be restored.
func (c *Client) Remove(ctx context.Context, name, machine string) (versions.Version, error) {
	return ask(ctx, c, askRemove, editArgs{Name: name, Machine: machine})
}

// Erase deletes all versions of a save, for good. It fails with [versions.ErrConflict] when the newest one is neither the
// one seen nor in the trash, unless it is forced.
func (c *Client) Erase(ctx context.Context, name, machine string, seen versions.Ref, force bool) error {
	_, err := ask(ctx, c, askErase, editArgs{Name: name, Machine: machine, Seen: seen, Force: force})
	return err
}

// Invite returns a login code for one more machine of the client's user.
func (c *Client) Invite(ctx context.Context) (code string, err error) {
	return ask(ctx, c, askInvite, rpc.None{})
}

// User returns as whom the client is logged in.
func (c *Client) User(ctx context.Context) (string, error) { return ask(ctx, c, askUser, rpc.None{}) }
