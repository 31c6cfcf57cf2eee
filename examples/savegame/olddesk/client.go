package desk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

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
	// wordTime is how long a client whose stream failed waits for the server to say why in full.
	wordTime = 2 * time.Second
	// waitingTime is after how long without an answer a put seems to wait for others.
	waitingTime = 3 * time.Second
)

// ErrRefused wraps what the server says when it does not do what was asked.
var ErrRefused = errors.New("refused by the server")

// ClientConfig says where a client goes.
type ClientConfig struct {
	Server   string // host:port
	TLS      *tls.Config
	Token    string
	Socket   net.PacketConn // of the caller; nil: one is made
	Backend  stream.Backend // nil: the stream package's default
	QUIC     bool           // all travels in QUIC's datagrams, not in sealed packets
	Logger   *slog.Logger
	LogLevel *slog.LevelVar
	Trace    Trace

	// Setup, unless nil, may bind more classes to the world before it connects.
	Setup func(*rpc.World)
	// Waiting, unless nil, is called when a put waits for other puts with the same token.
	Waiting func()
	// Watch, unless nil, is shown each transfer, and before that the hashing of the file; stop is called when it is over.
	Watch func(name string, t Tracker) (stop func())
}

// Tracker is a transfer, or the hashing of a file, to be watched.
type Tracker interface {
	Progress() stream.Progress
}

// Client is a client at its desk. Its methods are for one goroutine at a time.
type Client struct {
	config  ClientConfig
	world   *rpc.World
	streams *stream.Streams
	conn    *rpc.Conn
	desk    *rpc.Actor
	store   swapStore
	run     sync.WaitGroup
	stop    context.CancelFunc

	mu       sync.Mutex
	request  uint32
	sends    map[uint32]chan struct{} // puts whose content is not here, by number
	contents map[uint32]chan *stream.IncomingBlob
	lists    chan *stream.IncomingArray[Entry]
}

// Dial connects, and returns when the desk is open.
func Dial(ctx context.Context, config ClientConfig) (*Client, error) {
	c := &Client{
		config:   config,
		sends:    make(map[uint32]chan struct{}),
		contents: make(map[uint32]chan *stream.IncomingBlob),
		lists:    make(chan *stream.IncomingArray[Entry], 1),
	}
	opened := make(chan *rpc.Actor, 1)
	if err := c.build(opened); err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.run.Go(func() { _ = c.world.Run(running) })
	select {
	case c.desk = <-opened:
		return c, nil
	case <-c.conn.Done():
		err := c.conn.Err()
		c.Close()
		return nil, err
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	}
}

// build makes the world.
func (c *Client) build(opened chan<- *rpc.Actor) (err error) {
	c.world, err = rpc.NewWorld(rpc.Config{
		Token:       []byte(c.config.Token),
		Sealed:      !c.config.QUIC,
		IdleTimeout: idleTimeout,
		KeepAlive:   keepAlive,
		RequestTime: -1, // a put waits for its turn, and for all of its content
		Logger:      c.config.Logger,
		LogLevel:    c.config.LogLevel,
	})
	if err != nil {
		return err
	}
	c.streams, err = stream.Install(c.world, stream.Config{Backend: c.config.Backend, MaxBytes: -1, Store: &c.store})
	if err != nil {
		return err
	}
	b := rpc.Bind(c.world, Class, func(a *rpc.Actor) *Client {
		select {
		case opened <- a:
		default: // a server that opens more than one gets no use of them
		}
		return c
	})
	rpc.On(b, callSend, (*Client).onSend)
	content.Handle(c.streams, c.onContent)
	entries.Handle(c.streams, c.onList)
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

// onSend runs on the world's goroutine. What nobody waits for is dropped.
func (c *Client) onSend(_ *rpc.Call, a sendArgs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.sends[a.Request] <- struct{}{}:
	default:
	}
}

func (c *Client) onContent(in *stream.IncomingBlob) {
	request, _ := requestOf(in.Name())
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.contents[request] <- in:
	default:
		in.Reject(errors.New("nobody asked for it"))
	}
}

func (c *Client) onList(in *stream.IncomingArray[Entry]) {
	select {
	case c.lists <- in:
	default:
		in.Reject(errors.New("nobody asked for it"))
	}
}

// number returns one that names the stream of a request.
func (c *Client) number() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request++
	return c.request
}

// ask asks the desk. A refusal is an ErrRefused.
func ask[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], a A) (R, error) {
	answer, err := r.Ask(ctx, c.desk, a)
	var closed *rpc.CloseError
	var refusal *rpc.RequestError
	switch {
	case errors.As(err, &closed):
		return answer, closed
	case err != nil && ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case errors.As(err, &refusal) && refusal.Refused:
		return answer, fmt.Errorf("%w: %s", ErrRefused, refusal.Text)
	}
	return answer, err
}
