package desk

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

const (
	// Revoked is the code with which connections end whose token was revoked.
	Revoked rpc.Code = 1024
	// maxJobs is how many requests of one client go on at once.
	maxJobs = 16
	// maxPending is how many bytes of a stream wait for a disk: enough for 100 Mbit/s at 300 ms.
	maxPending = 4 << 20
)

// ServerConfig says what a server serves.
type ServerConfig struct {
	Versions *versions.Versions
	Users    *users.Users
	Backend  stream.Backend // nil: the stream package's default
	Logger   *slog.Logger
	LogLevel *slog.LevelVar
}

// Server is the desks of all clients.
type Server struct {
	config  ServerConfig
	world   *rpc.World
	streams *stream.Streams
	log     *slog.Logger
	memory  memory
	chunks  chunks

	draining atomic.Bool          // nothing new is done
	clerks   map[*rpc.Conn]*clerk // owned by the world's goroutine
}

// NewServer returns a server without connections. The caller drives its world.
func NewServer(config ServerConfig) (*Server, error) {
	s := &Server{
		config: config, log: cmp.Or(config.Logger, slog.New(slog.DiscardHandler)), clerks: make(map[*rpc.Conn]*clerk),
		memory: memory{of: make(map[string]int64)}, chunks: chunks{most: userChunks, of: make(map[string]*semaphore.Weighted)},
	}
	var err error
	s.world, err = rpc.NewWorld(rpc.Config{
		Authenticate:    s.authenticate,
		ExplainMismatch: true, // the classes are in this repository
		Sealed:          true, // for the clients that have it too
		IdleTimeout:     idleTimeout,
		KeepAlive:       keepAlive,
		MaxRequests:     maxJobs,
		Logger:          config.Logger,
		LogLevel:        config.LogLevel,
	})
	if err != nil {
		return nil, err
	}
	if s.streams, err = stream.Install(s.world, stream.Config{Backend: config.Backend, MaxBytes: -1, MaxPending: maxPending}); err != nil {
		return nil, err
	}
	s.bind()
	return s, nil
}

// errTokens is what a client is told while the token file can not be read: that its token is wrong nobody knows.
var errTokens = errors.New("the server can not check tokens now")

// authenticate returns the identity of a token, or of who comes with a code. Who is not let in learns nothing of the server's files.
func (s *Server) authenticate(_ context.Context, token []byte) (identity string, err error) {
	identity, err = s.config.Users.Identify(token, time.Now())
	wrong := func(kind error) bool { return errors.Is(err, kind) }
	if err != nil && !slices.ContainsFunc([]error{users.ErrToken, users.ErrTokens, users.ErrCode}, wrong) {
		s.log.Error("tokens can not be checked", "error", err)
		return "", errTokens
	}
	return identity, err
}

func (s *Server) bind() {
	b := rpc.Bind(s.world, Class, s.newClerk)
	onUsers(b, askPut, (*clerk).put)
	onUsers(b, askGet, (*clerk).get)
	onUsers(b, askList, (*clerk).list)
	onUsers(b, askRestore, (*clerk).restore)
	onUsers(b, askRemove, (*clerk).remove)
	onUsers(b, askErase, (*clerk).erase)
	onUsers(b, askInvite, (*clerk).invite)
	onUsers(b, askUser, (*clerk).whose)
	talks.Handle(s.streams, s.deliver)
	s.world.OnConnect(s.welcome)
	s.world.OnDisconnect(func(c *rpc.Conn, _ error) { delete(s.clerks, c) })
}

func (s *Server) welcome(c *rpc.Conn) {
	if _, err := s.world.Spawn(Class, c); err != nil {
		c.Close(rpc.ServerFull, err.Error())
	}
}

func (s *Server) deliver(in *stream.IncomingBlob) {
	if k := s.clerks[in.Conn()]; k != nil {
		k.inbox.Deliver(in)
		return
	}
	in.Reject(errors.New("the client left"))
}

// World returns the world, for the caller to drive.
func (s *Server) World() *rpc.World { return s.world }

// Watch ends the connections of tokens that are revoked, at most an interval later, until ctx ends. While the tokens cannot
// be read nobody is sent away.
func (s *Server) Watch(ctx context.Context, interval time.Duration) {
	for ctx.Err() == nil {
		if valid, err := s.config.Users.Valid(); err == nil {
			s.world.Post(func() { s.dismiss(valid) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// dismiss ends connections that are not valid any more.
func (s *Server) dismiss(valid func(identity string) bool) {
	for c := range s.clerks {
		if !valid(c.Identity()) {
			c.Close(Revoked, "the token was revoked")
		}
	}
}

// Drain takes no request any more, and returns when none goes on, or when ctx ends. The world must be driven.
func (s *Server) Drain(ctx context.Context) {
	s.draining.Store(true)
	_ = s.world.WaitHandlers(ctx)
}

// Close closes all connections and returns when no job is left, or with the cause of ctx. The world must be driven.
func (s *Server) Close(ctx context.Context, reason string) error {
	err := s.world.Close(ctx, rpc.HostClosedConnection, reason)
	return errors.Join(err, s.world.WaitHandlers(ctx))
}
