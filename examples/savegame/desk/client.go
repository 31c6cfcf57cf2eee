package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
	"github.com/quivernet/quiver/stream/tree"
)

// closeTime is how long a client waits until its last packets have arrived.
const closeTime = 3 * time.Second

// ClientConfig configures a client.
type ClientConfig struct {
	// Connect connects the client's world, for example by rpc.Dial. It may first bind more classes
	// to the world.
	Connect func(ctx context.Context, w *rpc.World) (*rpc.Conn, error)
	Token   string         // a token, or the result of users.ByCode
	Backend stream.Backend // nil: the stream package's default
	QUIC    bool           // send everything in QUIC's datagrams, not in sealed packets
	Rate    int            // bytes of chunks a second, in either direction; 0 = no limit
	Logger  *slog.Logger

	// Watch, if not nil, is called for each put and get with the number of bytes, in unpacked
	// chunks, that are to be sent or received. The client calls moved with the bytes sent or
	// received since its last call, and stop at the end of the transfer.
	Watch func(label string, bytes int64) (moved func(bytes int), stop func())
}

// Client is a client of a server. Its methods are safe for concurrent use.
type Client struct {
	config  ClientConfig
	world   *rpc.World
	streams *stream.Streams
	conn    *rpc.Conn
	desk    *rpc.Actor
	numbers atomic.Uint32
	run     sync.WaitGroup
	stop    context.CancelFunc
}

// Dial connects to a server, and returns when the client's desk is open.
func Dial(ctx context.Context, config ClientConfig) (_ *Client, err error) {
	c := &Client{config: config}
	opened := make(chan *rpc.Actor, 1)
	if err = c.build(opened); err != nil {
		return nil, err
	}
	if c.conn, err = config.Connect(ctx, c.world); err != nil {
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

// build makes the client's world, which sends the desk to opened.
func (c *Client) build(opened chan<- *rpc.Actor) (err error) {
	c.world, c.streams, err = newWorld(c.config.Backend, rpc.Config{
		Token:       []byte(c.config.Token),
		Sealed:      !c.config.QUIC,
		RequestTime: -1, // no timeout: a commit waits for all chunks
		Logger:      c.config.Logger,
	})
	if err != nil {
		return err
	}
	rpc.Bind(c.world, Class, func(a *rpc.Actor) *Client {
		select {
		case opened <- a:
		default: // ignore further desks of the server
		}
		return c
	})
	return nil
}

// Conn returns the connection.
func (c *Client) Conn() *rpc.Conn { return c.conn }

// Desk returns the actor that answers [Restore], [Remove], [Erase], [Invite] and [User].
func (c *Client) Desk() *rpc.Actor { return c.desk }

// Close ends the connection. It returns within a few seconds (closeTime).
func (c *Client) Close() { c.CloseFor("client has finished") }

// CloseFor is like Close, with a reason that the server logs.
func (c *Client) CloseFor(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = c.world.Close(ctx, 0, reason)
	c.stop()
	c.run.Wait()
}

func (c *Client) next() number { return number(c.numbers.Add(1)) }

// talk returns the exchange of a request's blobs.
func (c *Client) talk(n number) *pieces.Talk {
	return n.talk(c.streams.Peer(c.conn), c.config.Rate)
}

func (c *Client) watch(label string, all []cdc.Chunk, lacks []int) (moved func(bytes int), stop func()) {
	if c.config.Watch == nil {
		return func(int) {}, func() {}
	}
	bytes := int64(0)
	for _, i := range lacks {
		bytes += int64(all[i].Size)
	}
	return c.config.Watch(label, bytes)
}

// List returns the newest version of each of the user's saves, including those in the trash, in the
// order of their names.
func (c *Client) List(ctx context.Context) ([]versions.Version, error) { return c.list(ctx, "") }

// History returns the existing versions of a save, with the newest last.
func (c *Client) History(ctx context.Context, name string) ([]versions.Version, error) {
	if err := users.CheckName(name); err != nil {
		return nil, err // with an empty name, list would return all saves
	}
	return c.list(ctx, name)
}

// list requests pages until one isn't full.
func (c *Client) list(ctx context.Context, name string) (list []versions.Version, err error) {
	a := listArgs{Name: name}
	for {
		page, err := askList.Ask(ctx, c.desk, a)
		list = append(list, page.Versions...)
		if err != nil || len(page.Versions) < pageSize {
			return list, err
		}
		if len(list) > maxVersions {
			return nil, fmt.Errorf("%w: list has more than %d versions", manifest.ErrManifest, maxVersions)
		}
		last := list[len(list)-1]
		a.Behind, a.Above = last.Name, last.Number
	}
}

// Stored is the result of a put.
type Stored struct {
	Made
	Chunks int   // chunks of the manifest that was put
	Sent   int   // chunks that the server lacked
	Bytes  int64 // bytes of those, packed
}

// Put makes a version of the files in src, and returns when it is durable. It sets r.Content. It
// fails with an error that wraps [tree.ErrChanged] if a file is written to in the meantime, and
// with the server's errors, such as [versions.ErrConflict].
func (c *Client) Put(ctx context.Context, src *tree.Source, r versions.Request) (Stored, error) {
	b, n := src.Manifest.Append(nil), c.next()
	r.Content = cdc.Sum(b)
	p := &putting{Client: c, label: "put " + r.Name, source: src, chunks: src.Manifest.Chunks()}
	m, err := pieces.WithRequest(ctx, func(ctx context.Context) (Made, error) {
		return askPut.Ask(ctx, c.desk, putArgs{n, r})
	}, func(ctx context.Context) error {
		return p.send(ctx, c.talk(n), b)
	})
	if errors.Is(err, cdc.ErrChunk) {
		err = cmp.Or(p.changed(), err)
	}
	return Stored{m, len(p.chunks), len(p.lacks), p.packed}, err
}

// A putting is a running put at the client.
type putting struct {
	*Client
	label  string
	source *tree.Source
	chunks []cdc.Chunk
	lacks  []int
	moved  func(bytes int)
	packed int64 // bytes sent
}

// send sends the manifest and the chunks that the server lacks.
func (p *putting) send(ctx context.Context, t *pieces.Talk, encoded []byte) (err error) {
	if p.lacks, err = t.Offer(ctx, encoded, len(p.chunks)); err != nil {
		return err
	}
	moved, stop := p.watch(p.label, p.chunks, p.lacks)
	defer stop()
	p.moved = moved
	return t.Send(ctx, p.lacks, p.pack)
}

func (p *putting) pack(frame []byte, index int) ([]byte, error) {
	c, before := p.chunks[index], len(frame)
	frame = slices.Grow(frame, cdc.MaxPacked)
	data, err := p.source.ReadChunk(frame[before+1:before+1], c) // where Pack leaves it if possible; the server verifies it
	if err != nil {
		return nil, err
	}
	frame = cdc.Pack(frame, data)
	p.packed += int64(len(frame) - before)
	p.moved(len(data))
	return frame, nil
}

// changed returns an error if a file no longer has the bytes that the manifest describes.
func (p *putting) changed() (err error) {
	var buffer []byte
	for _, i := range p.lacks {
		if buffer, err = p.source.Chunk(buffer, p.chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

// Download is a version that is being fetched. The server keeps everything that it needs until the
// get ends.
type Download struct {
	Version  versions.Version
	Manifest *manifest.Manifest

	ctx    context.Context // the context of the get
	client *Client
	talk   *pieces.Talk
	asked  bool // Fetch has been called
}

// Get opens a version of a save, calls use, and closes the version when use returns. Version 0 is
// the newest. Get fails with the errors of the server and of use.
func (c *Client) Get(ctx context.Context, name string, version int, use func(d *Download) error) error {
	n, used := c.next(), false
	_, err := pieces.WithRequest(ctx, func(ctx context.Context) (rpc.None, error) {
		return askGet.Ask(ctx, c.desk, getArgs{n, name, version, c.config.Rate})
	}, func(ctx context.Context) error {
		d := &Download{ctx: ctx, client: c, talk: c.talk(n)}
		err := d.open()
		if err == nil {
			err = use(d)
		}
		used = err == nil
		if used && !d.asked {
			return d.Fetch(nil, nil)
		}
		return err
	})
	if used {
		return nil // even if the connection ended afterwards
	}
	return err
}

// open receives the version and its manifest.
func (d *Download) open() error {
	text, err := d.talk.ReadBlob(d.ctx, versionBlob, maxVersion)
	if err == nil {
		err = json.Unmarshal(text, &d.Version)
	}
	if err != nil {
		return err
	}
	b, err := d.talk.ReadBlob(d.ctx, pieces.Manifest, maxManifest)
	if err != nil {
		return err
	}
	if cdc.Sum(b) != d.Version.Content {
		return fmt.Errorf("%w: server sent one with a different digest", manifest.ErrManifest)
	}
	d.Manifest, err = manifest.Parse(b, 0)
	return err
}

// Fetch fetches chunks, given by ascending indices into Manifest.Chunks(), and passes them to each
// in this order. They are packed and not verified, because they are verified when they are
// unpacked. The bytes are valid until each returns; an error that it returns ends the fetch. Fetch
// may be called only once.
func (d *Download) Fetch(lacks []int, each func(c cdc.Chunk, packed []byte) error) error {
	d.asked = true
	all := d.Manifest.Chunks()
	moved, stop := d.client.watch("get "+d.Version.Name, all, lacks)
	defer stop()
	return d.talk.Fetch(d.ctx, lacks, func(index int, packed []byte, free func()) error {
		defer free()
		moved(int(all[index].Size))
		return each(all[index], packed)
	})
}
