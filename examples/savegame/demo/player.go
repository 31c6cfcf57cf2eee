package demo

import (
	"context"
	"errors"
	"time"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream/tree"
)

// A player is a client that plays while it uploads and downloads a save.
type player struct {
	stage      *stage
	token      string
	target     string // where its download is written
	client     *desk.Client
	here, away *rpc.Actor // the gameplay's actors, in its world and in the server's

	stored desk.Stored
	took   times
	same   bool // the download is equal to the upload
}

func (p *player) up() caller   { return caller{callUp, p.here} }
func (p *player) down() caller { return caller{callDown, p.away} }

// join connects the player. Only one player at a time may join.
func (p *player) join(ctx context.Context) error {
	s, opened := p.stage, make(chan *rpc.Actor, 1)
	pin, err := cert.Pinned(s.fingerprint)
	if err != nil {
		return err
	}
	socket, err := s.socket()
	if err != nil {
		return err
	}
	s.ends = append(s.ends, socket.Close)
	p.client, err = desk.Dial(ctx, desk.ClientConfig{
		Token: p.token, Backend: s.Backend, QUIC: s.QUIC,
		Connect: func(ctx context.Context, w *rpc.World) (*rpc.Conn, error) {
			s.game.bind(w, opened, callDown)
			return rpc.DialPacket(ctx, socket, s.server.LocalAddr(), pin, w)
		},
	})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { p.client.Close(); return nil })
	for range 2 {
		select {
		case p.here = <-opened:
		case p.away = <-s.game.opened:
		case <-p.client.Conn().Done():
			return p.client.Conn().Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *player) upload(ctx context.Context) (err error) {
	began := time.Now()
	p.stored, err = p.client.Put(ctx, p.stage.source, versions.Request{Name: "world", Machine: "demo"})
	p.took.Upload = time.Since(began).Seconds()
	return err
}

// download fetches what the player uploaded, as if it had none of it.
func (p *player) download(ctx context.Context) error {
	return p.client.Get(ctx, "world", 0, func(d *desk.Download) error { return p.fetch(ctx, d) })
}

func (p *player) fetch(ctx context.Context, d *desk.Download) error {
	restore, err := tree.NewRestore(ctx, d.Manifest, p.target, tree.RestoreOptions{})
	if err != nil {
		return err
	}
	began := time.Now()
	err = d.Fetch(restore.Lacks(), restore.Put) // Put verifies each chunk
	p.took.Download = time.Since(began).Seconds()
	p.same = len(restore.Lacks()) == 0 && d.Manifest.Digest() == p.stage.source.Manifest.Digest()
	return errors.Join(err, restore.Close())
}
