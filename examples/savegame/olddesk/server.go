package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// maxJobs is how many requests of one client go on at once.
const maxJobs = 8

// ServerConfig says what a server serves.
type ServerConfig struct {
	Vault    *vault.Vault
	Guard    *vault.Guard
	Backend  stream.Backend // nil: the stream package's default
	Logger   *slog.Logger
	LogLevel *slog.LevelVar
	Trace    Trace
}

// Server is the desks of all clients.
type Server struct {
	config  ServerConfig
	parts   stream.Store
	world   *rpc.World
	streams *stream.Streams
	log     *slog.Logger

	ctx  context.Context // of all jobs
	stop context.CancelCauseFunc
	jobs sync.WaitGroup

	turns turns

	// Owned by the world's goroutine.
	clerks map[*rpc.Conn]*clerk
}

// NewServer returns a server without connections. The caller drives its world.
func NewServer(config ServerConfig) (*Server, error) { return newServer(config, config.Vault.Parts()) }

// newServer takes the vault's store of what is on its way by itself, for tests of a full disk.
func newServer(config ServerConfig, parts stream.Store) (*Server, error) {
	s := &Server{config: config, parts: parts, log: config.Logger, clerks: make(map[*rpc.Conn]*clerk)}
	s.turns.has = make(map[turn]*putJob)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	world, err := rpc.NewWorld(rpc.Config{
		Authenticate:    s.authenticate,
		ExplainMismatch: true, // the classes are in this repository
		Sealed:          true, // for the clients that have it too
		IdleTimeout:     idleTimeout,
		KeepAlive:       keepAlive,
		Logger:          config.Logger,
		LogLevel:        config.LogLevel,
	})
	if err != nil {
		return nil, err
	}
	most := config.Vault.Limits().MaxBytes
	if most <= 0 {
		most = -1
	}
	streams, err := stream.Install(world, stream.Config{Backend: config.Backend, MaxBytes: most, Store: parts})
	if err != nil {
		return nil, err
	}
	s.world, s.streams = world, streams
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.bind()
	return s, nil
}

// authenticate returns the identity of a token. Who is not let in learns nothing of the server's files.
func (s *Server) authenticate(_ context.Context, token []byte) (identity string, err error) {
	identity, err = s.config.Guard.Identify(token)
	if err != nil && !errors.Is(err, vault.ErrToken) {
		s.log.Error("tokens can not be checked", "error", err)
		return "", errors.New("the server can not check tokens now")
	}
	return identity, err
}

// World returns the world, for the caller to drive.
func (s *Server) World() *rpc.World { return s.world }

// Close closes all connections and returns when no job is left, or with the cause of ctx. The world must be driven.
func (s *Server) Close(ctx context.Context, reason string) error {
	s.stop(errStops)
	err := s.world.Close(ctx, rpc.HostClosedConnection, reason)
	ended := make(chan struct{})
	go func() {
		s.jobs.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}

func (s *Server) bind() {
	b := rpc.Bind(s.world, Class, s.newClerk)
	rpc.OnRequest(b, AskList, (*clerk).list)
	rpc.OnRequest(b, askRemove, (*clerk).remove)
	rpc.OnRequest(b, askPut, (*clerk).put)
	rpc.OnRequest(b, askGet, (*clerk).get)
	rpc.OnRequest(b, askFetch, (*clerk).fetch)
	content.Handle(s.streams, s.receive)
	s.world.OnConnect(func(c *rpc.Conn) {
		if _, err := s.world.Spawn(Class, c); err != nil {
			c.Close(rpc.ServerFull, err.Error())
		}
	})
	s.world.OnDisconnect(func(c *rpc.Conn, _ error) {
		if k := s.clerks[c]; k != nil {
			delete(s.clerks, c)
			k.leave()
		}
	})
}

// receive gives the stream of a content to the put that it belongs to.
func (s *Server) receive(in *stream.IncomingBlob) {
	var j *putJob
	if k := s.clerks[in.Conn()]; k != nil {
		if request, ok := requestOf(in.Name()); ok {
			j = k.puts[request]
		}
	}
	if j == nil || !j.take(in) {
		in.Reject(errors.New("nobody asked for it"))
		return
	}
	s.work(func() { j.receive(in) })
}

// work runs fn, which may wait for a disk, on a goroutine of its own.
func (s *Server) work(fn func()) { s.jobs.Go(fn) }

// post runs fn on the world's goroutine, unless the server closes: then nobody is left to care.
func (s *Server) post(fn func()) {
	if s.ctx.Err() == nil {
		s.world.Post(fn)
	}
}

// clerk serves one client. It belongs to the world's goroutine.
type clerk struct {
	server *Server
	actor  *rpc.Actor
	conn   *rpc.Conn
	folder *vault.Folder
	log    *slog.Logger
	ctx    context.Context // of the client's jobs
	gone   context.CancelCauseFunc

	puts   map[uint32]*putJob
	offers map[uint32]*offer
	active int // jobs
}

func (s *Server) newClerk(a *rpc.Actor) *clerk {
	k := &clerk{
		server: s, actor: a, conn: a.Conn(),
		folder: s.config.Vault.Folder(a.Conn().Identity()),
		log:    s.log.With("conn", a.Conn()),
		puts:   make(map[uint32]*putJob),
		offers: make(map[uint32]*offer),
	}
	k.ctx, k.gone = context.WithCancelCause(s.ctx)
	s.clerks[k.conn] = k
	return k
}

var (
	errLeft  = errors.New("the client left")
	errStops = errors.New("the server stops")
)

// leave ends what the client leaves behind.
func (k *clerk) leave() {
	k.gone(errLeft)
	for _, j := range k.puts {
		j.cancel(errLeft)
	}
	for request, o := range k.offers {
		delete(k.offers, request)
		_ = o.file.Close()
	}
}

// begin starts a job for a request, which then answers, unless too many go on.
func begin[A, R any](k *clerk, r *rpc.Request[A, R], call *rpc.Call, job func(reply func(R, error))) (none R, err error) {
	if k.active >= maxJobs {
		return none, fmt.Errorf("%d requests go on already", k.active)
	}
	k.active++
	reply := r.Later(call)
	k.server.work(func() {
		job(reply)
		k.server.post(func() { k.active-- })
	})
	return none, nil
}
