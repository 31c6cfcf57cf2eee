// Putget puts files on a server and gets them back. It is an example to learn from. Interrupted
// transfers continue where they stopped.
//
//	putget serve DIR TOKEN ADDR                 prints the address and the certificate's fingerprint
//	putget put ADDR FINGERPRINT TOKEN FILE
//	putget get ADDR FINGERPRINT TOKEN NAME      into the current folder
package main

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// Both ends declare the same class Desk, the requests that a client makes to its desk, and the
// blobs that either end sends. The server spawns one desk for each client.
var (
	Desk  = rpc.NewClass("Desk")
	Keep  = rpc.ServerRequest[File, rpc.None](Desk, "Keep")       // name the file that I sent
	Fetch = rpc.ServerRequest[File, stream.Digest](Desk, "Fetch") // send me the file with this name
	Files = stream.NewBlob("files")
)

// A File is a file's name and the digest of its content.
type File struct {
	Name   string `quiver:"max=255"`
	Digest stream.Digest
}

// Validate runs on both ends before any handler.
func (f File) Validate() error {
	if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) || f.Name[0] == '.' {
		return fmt.Errorf("%q is not a valid file name", f.Name)
	}
	return nil
}

// A place is the server or a client. It has a folder, and a world that streams.
type place struct {
	dir     string
	parts   *disk.Store // files being received, and files that have no name yet
	world   *rpc.World
	streams *stream.Streams
}

// maxServed is the maximum size of a file that the server accepts, and of all files together that
// it keeps in parts.
const maxServed = 1 << 30

// maxAtOnce is how many files the server reads for one client at a time, even if the client asks
// for more or no longer waits for them.
const maxAtOnce = 4

// newPlace returns a place that accepts files of up to limit bytes each, and keeps up to limit
// bytes in parts; negative = no limit.
func newPlace(dir string, limit int64, config rpc.Config) (*place, error) {
	p := &place{dir: dir, parts: disk.New(filepath.Join(dir, ".parts"))}
	p.parts.MaxBytes = limit
	p.parts.MaxIdentityBytes = limit
	// Use sealed packets if the peer has them too, because random loss hardly slows them down.
	config.Sealed = true
	world, err := rpc.NewWorld(config)
	if err != nil {
		return nil, err
	}
	p.world = world
	// MaxBytes rejects files that are larger than the store, because the store itself rejects no
	// transfer but just doesn't keep the content. MaxQueued is small because each file that waits
	// to be sent is open.
	p.streams, err = stream.Install(p.world, stream.Config{Store: p.parts, MaxBytes: limit, MaxQueued: maxAtOnce})
	return p, err
}

// send starts to send a file. The digest is the transfer's key, so what arrived before a connection
// was lost isn't sent again.
func (p *place) send(to *rpc.Conn, path string) (t *stream.Transfer, digest stream.Digest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, digest, err
	}
	hash := stream.BLAKE3.New()
	size, err := io.Copy(hash, file)
	if err == nil {
		digest = hash.Digest()
		t, err = Files.Start(p.streams.Peer(to), io.NewSectionReader(file, 0, size), size,
			stream.Key(digest.String()), stream.Hash(stream.BLAKE3))
	}
	if err != nil {
		return nil, digest, errors.Join(err, file.Close())
	}
	go func() { <-t.Done(); file.Close() }()
	return t, digest, nil
}

// serve lets clients that have the token put and get the files of dir, until ctx ends. It
// calls ready with the address that it listens on and the certificate's fingerprint.
func serve(ctx context.Context, dir, token, addr string, ready func(addr, fingerprint string)) error {
	p, err := newPlace(dir, maxServed, rpc.Config{
		MaxRequests: maxAtOnce,
		Authenticate: func(_ context.Context, got []byte) (identity string, err error) {
			if subtle.ConstantTimeCompare(got, []byte(token)) != 1 {
				err = errors.New("wrong token")
			}
			return "", err
		},
		OnConnect: func(w *rpc.World, c *rpc.Conn) {
			_, _ = w.Spawn(Desk, c) // fails only if the connection has ended
		},
	})
	if err != nil {
		return err
	}
	Files.Handle(p.streams, func(in *stream.IncomingBlob) { go io.Copy(io.Discard, in) }) // the store keeps it
	p.bindDesks()
	certificate, err := cert.Load(filepath.Join(dir, ".certificate")) // created on the first start
	if err != nil {
		return err
	}
	listener, err := rpc.Listen(addr, &tls.Config{Certificates: []tls.Certificate{certificate}}, p.world)
	if err != nil {
		return err
	}
	defer listener.Close()
	ready(listener.Addr().String(), cert.Fingerprint(certificate))
	return p.world.Run(ctx)
}

// bindDesks handles the requests of the server's clients. A handler runs in the tick, which must
// not wait for a slow disk, so each request continues on a separate goroutine.
func (p *place) bindDesks() {
	desks := rpc.Bind(p.world, Desk, func(*rpc.Actor) *place { return p })
	rpc.OnRequest(desks, Keep, func(p *place, call *rpc.Call, f File) (none rpc.None, err error) {
		Keep.Go(call, func(context.Context) (rpc.None, error) { return none, p.keep(f) })
		return none, nil
	})
	rpc.OnRequest(desks, Fetch, func(p *place, call *rpc.Call, f File) (none stream.Digest, err error) {
		conn := call.Conn
		Fetch.Go(call, func(context.Context) (stream.Digest, error) {
			_, digest, err := p.send(conn, filepath.Join(p.dir, f.Name))
			return digest, err
		})
		return none, nil
	})
}

// keep gives its name to a file that a client sent.
func (p *place) keep(f File) error {
	err := p.parts.Publish("", f.Digest, filepath.Join(p.dir, f.Name), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("content was not kept, because other puts left it no room, or another put of the same content took it")
	}
	return err
}

// visit connects to a server, waits for its desk, puts or gets the named file, and disconnects.
func visit(ctx context.Context, addr, fingerprint, token, dir, verb, name string) error {
	pin, err := cert.Pinned(fingerprint)
	if err != nil {
		return err
	}
	p, err := newPlace(dir, -1, rpc.Config{Token: []byte(token)})
	if err != nil {
		return err
	}
	desks := make(chan *rpc.Actor, 1)
	files := make(chan *stream.IncomingBlob, 1)
	// This client gets only one file.
	Files.Handle(p.streams, func(in *stream.IncomingBlob) { files <- in })
	rpc.Bind(p.world, Desk, func(a *rpc.Actor) *place { desks <- a; return p })
	go p.world.Run(ctx)
	conn, err := rpc.Dial(ctx, addr, pin, p.world)
	if err != nil {
		return err
	}
	defer func() { conn.Close(0, "done"); conn.Wait(context.Background()) }()
	select {
	case desk := <-desks:
		if verb == "put" {
			return p.put(ctx, desk, name)
		}
		return p.get(ctx, desk, name, files)
	case <-conn.Done():
		return conn.Err()
	}
}

// maxTries is how often a client sends a file. A second conflict in a row is unlikely.
const maxTries = 3

// put sends a file until the server has it under its name. It may have to try again if another
// client puts the same content, of which the store keeps only one copy.
func (p *place) put(ctx context.Context, desk *rpc.Actor, path string) error {
	for try := 1; ; try++ {
		t, digest, err := p.send(desk.Conn(), path)
		if err != nil {
			return err
		}
		if err = t.Wait(ctx); err == nil {
			_, err = Keep.Ask(ctx, desk, File{filepath.Base(path), digest})
		}
		if !errors.As(err, new(*rpc.RequestError)) || try == maxTries {
			return err
		}
	}
}

// get fetches a file, and returns when it is in the folder.
func (p *place) get(ctx context.Context, desk *rpc.Actor, name string, files <-chan *stream.IncomingBlob) error {
	digest, err := Fetch.Ask(ctx, desk, File{Name: name})
	if err != nil {
		return err
	}
	select {
	case in := <-files:
		if _, err = io.Copy(io.Discard, in); err != nil { // the store keeps it
			return err
		}
		return p.parts.Publish("", digest, filepath.Join(p.dir, name), 0o600)
	case <-desk.Conn().Done():
		return desk.Conn().Err()
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := errors.New("serve DIR TOKEN ADDR | put ADDR FINGERPRINT TOKEN FILE | get ADDR FINGERPRINT TOKEN NAME")
	switch a := os.Args[1:]; {
	case len(a) == 4 && a[0] == "serve":
		err = serve(ctx, a[1], a[2], a[3], func(addr, fingerprint string) { fmt.Println(addr, fingerprint) })
	case len(a) == 5 && (a[0] == "put" || a[0] == "get"):
		err = visit(ctx, a[1], a[2], a[3], ".", a[0], a[4])
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "putget:", err)
		os.Exit(1)
	}
}
