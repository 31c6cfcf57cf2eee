package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
)

const (
	// Revoked is the code with which a connection is closed when its token is revoked.
	Revoked rpc.Code = 1024
	// maxJobs is how many requests of one client run at once.
	maxJobs = 16
	// maxConns is how many connections one user may have. It is an eighth of what the server
	// accepts, so that one token and a few addresses aren't enough to keep all others out. A
	// machine has one connection for each running command.
	maxConns = 128
)

// ServerConfig configures a server.
type ServerConfig struct {
	Versions *versions.Versions
	Users    *users.Users
	Backend  stream.Backend // nil: the stream package's default
	Logger   *slog.Logger
}

// Server serves the desks of all clients.
type Server struct {
	config  ServerConfig
	world   *rpc.World
	streams *stream.Streams
	log     *slog.Logger
	memory  memory
	conns   int // limit of connections for each user

	draining atomic.Bool // refuse new requests; set by Drain
}

// NewServer returns a server without connections. The caller must drive its world.
func NewServer(config ServerConfig) (*Server, error) {
	s := &Server{
		config: config, log: cmp.Or(config.Logger, slog.New(slog.DiscardHandler)),
		memory: memory{buffers: userChunks, of: make(map[string]*share)}, conns: maxConns,
	}
	var err error
	s.world, s.streams, err = newWorld(config.Backend, rpc.Config{
		Authenticate:    config.Users.Authenticator(s.log),
		ExplainMismatch: true, // the classes are public in this repository
		Sealed:          true, // for clients that have it too
		MaxRequests:     maxJobs,
		Logger:          config.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.bind()
	return s, nil
}

func (s *Server) bind() {
	b := rpc.Bind(s.world, Class, s.newClerk)
	onUsers(b, askPut, (*clerk).put)
	onUsers(b, askGet, (*clerk).get)
	onUsers(b, askList, (*clerk).list)
	onUsers(b, Restore, (*clerk).restore)
	onUsers(b, Remove, (*clerk).remove)
	onUsers(b, Erase, (*clerk).erase)
	onUsers(b, Invite, (*clerk).invite)
	onUsers(b, User, (*clerk).whose)
	s.world.OnConnect(s.welcome)
}

// welcome opens a desk for a new client. If the server is stopping, or if the user has too many
// connections, it closes the connection with an error that tells the client to try again.
func (s *Server) welcome(c *rpc.Conn) {
	if s.draining.Load() {
		c.Close(rpc.HostClosedConnection, ErrStopping.Error())
		return
	}
	user := users.UserOf(c.Identity())
	others := func(c *rpc.Conn) bool { return users.UserOf(c.Identity()) != user }
	if has := len(slices.DeleteFunc(s.world.Conns(), others)); has > s.conns {
		c.Close(rpc.ServerFull, fmt.Sprintf("%s has %d connections; the limit is %d (maxConns)", user, has, s.conns))
		return
	}
	if _, err := s.world.Spawn(Class, c); err != nil {
		c.Close(rpc.ServerFull, err.Error())
	}
}

// World returns the world, for the caller to drive.
func (s *Server) World() *rpc.World { return s.world }

// Drain refuses new requests, and returns when the running ones have ended or when ctx ends. The
// world must be driven.
func (s *Server) Drain(ctx context.Context) {
	s.draining.Store(true)
	_ = s.world.WaitHandlers(ctx)
}

// Close closes all connections, and returns when no job is running, or with the cause of ctx. The
// world must be driven.
func (s *Server) Close(ctx context.Context, reason string) error {
	err := s.world.Close(ctx, rpc.HostClosedConnection, reason)
	return errors.Join(err, s.world.WaitHandlers(ctx))
}

// idleLines is how many of a user's log lines about requests that changed nothing are written at
// once. After that, one line per second is written, which tells how many were omitted.
const idleLines = 20

// A clerk serves one client.
type clerk struct {
	server *Server
	conn   *rpc.Conn
	user   string
	share  *share
	log    *slog.Logger
}

func (s *Server) newClerk(a *rpc.Actor) *clerk {
	k := &clerk{server: s, conn: a.Conn(), user: users.UserOf(a.Conn().Identity())}
	k.share = s.memory.share(k.user)
	k.log = s.log.With("conn", k.conn, "user", k.user)
	return k
}

// talk returns the exchange of a request's blobs.
func (k *clerk) talk(n number, perSecond int) *pieces.Talk {
	t := n.talk(k.server.streams.Peer(k.conn), perSecond)
	t.Memory = k.share.buffers
	return t
}

// onUsers registers job to run for each request, unless the server is stopping. The job may wait
// for the store, and its result is the answer. Its context ends when the client no longer waits for
// the answer.
func onUsers[A, R any](b *rpc.Binding[*clerk], r *rpc.Request[A, R], job func(k *clerk, ctx context.Context, u *versions.User, a A) (R, error)) {
	rpc.OnRequest(b, r, func(k *clerk, call *rpc.Call, a A) (none R, err error) {
		if k.server.draining.Load() {
			return none, ErrStopping
		}
		r.Go(call, func(ctx context.Context) (result R, err error) {
			u, err := k.server.config.Versions.User(ctx, k.user)
			if err == nil {
				result, err = job(k, ctx, u, a)
			}
			if err != nil {
				err = k.refuse(ctx, r.String(), err)
			}
			return result, err
		})
		return none, nil
	})
}

// idle returns a logger for requests that changed nothing, such as refused ones or puts of existing
// content. It discards the line if there have been too many.
func (k *clerk) idle() *slog.Logger {
	if !k.share.idle.Allow() {
		k.share.hidden.Add(1)
		return slog.New(slog.DiscardHandler)
	}
	if hidden := k.share.hidden.Swap(0); hidden > 0 {
		return k.log.With("more", hidden)
	}
	return k.log
}

// refuse logs why a request failed, and returns the error for the client.
func (k *clerk) refuse(ctx context.Context, request string, err error) error {
	log := k.idle().With("request", request)
	told := refuse(err)
	interrupted := []error{io.ErrUnexpectedEOF, stream.ErrCanceled, stream.ErrRejected, stream.ErrClosed}
	switch {
	case ctx.Err() != nil, slices.ContainsFunc(interrupted, func(end error) bool { return errors.Is(err, end) }):
		log.Info("interrupted", "cause", err)
	case told == errOther:
		log.Error("failed", "error", err)
	default:
		log.Warn("refused", "error", err)
	}
	return told
}

// list returns a page of a list.
func (k *clerk) list(ctx context.Context, u *versions.User, a listArgs) (page listPage, err error) {
	if a.Name == "" {
		page.Versions, err = u.List(ctx, a.Behind, pageSize)
	} else {
		page.Versions, err = u.History(ctx, a.Name, a.Above, pageSize)
	}
	return page, err
}

func (k *clerk) restore(ctx context.Context, u *versions.User, a Edit) (Made, error) {
	v, o, err := u.Restore(ctx, a.Name, a.Version, a.Machine)
	return k.made("restored", u, Made{Version: v, Outcome: o}, err)
}

func (k *clerk) remove(ctx context.Context, u *versions.User, a Edit) (versions.Version, error) {
	v, err := u.Remove(ctx, a.Name, a.Machine, a.Seen)
	return v, k.did("removed", true, v, err)
}

func (k *clerk) erase(ctx context.Context, u *versions.User, a Edit) (none rpc.None, err error) {
	err = u.Erase(ctx, a.Name, a.Machine, a.Seen, a.Force)
	return none, k.did("erased", true, versions.Version{Name: a.Name, Machine: a.Machine}, err)
}

// made logs that a version was made, and adds what was deleted to make room for it.
func (k *clerk) made(what string, u *versions.User, m Made, err error) (Made, error) {
	if m.Outcome != versions.Added {
		what += ": " + string(m.Outcome)
	}
	if err = k.did(what, m.Outcome != versions.Unchanged, m.Version, err); err != nil {
		return m, err
	}
	m.Displaced = u.Displaced()
	for _, d := range m.Displaced {
		k.log.Info("displaced", "for", m.Version.Name, "what", d)
	}
	if more := len(m.Displaced) - maxDisplaced; more > 0 {
		m.Displaced = append(m.Displaced[:maxDisplaced], fmt.Sprintf("versions of %d other saves", more))
	}
	return m, nil
}

// did logs what was done to a save, unless err says that it failed, and returns err.
func (k *clerk) did(what string, changed bool, v versions.Version, err error) error {
	if err != nil {
		return err
	}
	log := k.log
	if !changed {
		log = k.idle()
	}
	log.Info(what, "save", v.Name, "version", v.Number, "bytes", v.Size, "machine", v.Machine)
	return nil
}

func (k *clerk) invite(context.Context, *versions.User, rpc.None) (code string, err error) {
	return k.server.config.Users.Invite(k.conn.Identity(), time.Now())
}

// whose returns the user that the client is logged in as.
func (k *clerk) whose(context.Context, *versions.User, rpc.None) (user string, err error) {
	return k.user, nil
}

const (
	// verifiers is how many chunks of one put are verified and passed to the store at once, while
	// one more is received. With more of them, a chunk would no longer be in a processor's cache
	// when its turn comes.
	verifiers = 2
	// unflushed is how many chunks of one put the store may have accepted but not flushed. That is
	// more than two of its packs have, unless files are small. These chunks aren't in memory here.
	unflushed = 512
)

// put makes a version of what the client sends. It holds the manifest in memory until the store has
// it.
func (k *clerk) put(ctx context.Context, u *versions.User, a putArgs) (Made, error) {
	p, err := u.Begin(ctx, a.Request)
	if err != nil {
		return Made{}, err
	}
	defer p.Abandon()
	t := k.talk(a.Number, 0)
	in, err := t.TakeBlob(ctx, pieces.Manifest, maxManifest)
	if errors.Is(err, pieces.ErrViolation) {
		err = fmt.Errorf("%w: %w", manifest.ErrManifest, err)
	}
	if err != nil {
		return Made{}, err
	}
	if err := k.server.memory.take(k.user, in.Size()); err != nil {
		return Made{}, err
	}
	defer k.server.memory.give(k.user, in.Size())
	if err := k.receive(ctx, t, in, p); err != nil {
		return Made{}, err
	}
	v, o, err := p.Commit(ctx)
	return k.made("put", u, Made{Version: v, Outcome: o}, err)
}

// receive reads the manifest, tells the client which chunks are missing, and stores those.
func (k *clerk) receive(ctx context.Context, t *pieces.Talk, in io.Reader, p *versions.Put) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	lacks, err := p.Lacks(ctx, b)
	if err != nil {
		return err
	}
	verifying, ctx := errgroup.WithContext(ctx)
	verifying.SetLimit(verifiers)
	storing, ctx := errgroup.WithContext(ctx)
	storing.SetLimit(unflushed)
	err = t.Fetch(ctx, lacks, func(index int, packed []byte, free func()) error {
		verifying.Go(func() error {
			defer free()
			if err := k.share.verifying.Acquire(ctx, 1); err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			stored, err := p.Chunk(ctx, index, packed)
			k.share.verifying.Release(1)
			free() // before waiting until the chunk is flushed
			if err == nil {
				storing.Go(stored)
			}
			return err
		})
		return context.Cause(ctx)
	})
	err = cmp.Or(verifying.Wait(), err)
	return cmp.Or(storing.Wait(), err) // the store's error ends the others
}

// get sends a version, its manifest, and the chunks that the client requests.
func (k *clerk) get(ctx context.Context, u *versions.User, a getArgs) (none rpc.None, err error) {
	c, err := u.Open(ctx, a.Name, a.Version)
	if err != nil {
		return none, err
	}
	defer c.Close()
	size := c.ManifestSize()
	if err := k.server.memory.take(k.user, size); err != nil {
		return none, err
	}
	defer k.server.memory.give(k.user, size)
	b, err := c.Manifest(ctx)
	if err != nil {
		return none, err
	}
	t := k.talk(a.Number, a.Rate)
	text, _ := json.Marshal(c.Version) // can't fail, because there are only strings, numbers and a time
	if err := t.SendBlob(ctx, versionBlob, text); err != nil {
		return none, err
	}
	lacks, err := t.Offer(ctx, b, c.Chunks())
	if err != nil {
		return none, err
	}
	err = t.Send(ctx, lacks, func(buffer []byte, index int) ([]byte, error) {
		if err := k.share.verifying.Acquire(ctx, 1); err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		defer k.share.verifying.Release(1)
		packed, err := c.Chunk(ctx, index) // verifies the chunk
		return append(buffer, packed...), err
	})
	return none, k.did("got", false, c.Version, err)
}
