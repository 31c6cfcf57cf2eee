package demo

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
)

// stage is a demo's server and clients, and what is measured of them.
type stage struct {
	Options
	dir         string
	ends        []func() error // of what has begun
	source      *tree.Source
	link        *link
	fingerprint string
	game        *gameplay
	players     []*player // beside several clients that transfer the last one only plays
}

// path is of a file in the demo's folder.
func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// scan finds what is uploaded.
func (s *stage) scan(ctx context.Context) (err error) {
	if s.File == "" {
		s.File = s.path("generated")
		if err := generate(s.File, s.Size, s.Way.Seed); err != nil {
			return err
		}
	}
	if s.source, err = tree.Scan(ctx, []string{s.File}, tree.ScanOptions{}); err == nil {
		s.ends = append(s.ends, s.source.Close)
	}
	return err
}

// invite makes the players. Each is a user: users share nothing at the server, so that each sends all.
func (s *stage) invite(context.Context) (err error) {
	s.players = make([]*player, s.Clients+min(s.Clients-1, 1))
	for i := range s.players {
		name := fmt.Sprintf("player%d", i+1)
		s.players[i] = &player{stage: s, target: s.path(name)}
		if s.players[i].token, err = users.Add(s.path("tokens"), name); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the server.
func (s *stage) serve(ctx context.Context) (err error) {
	config := desk.ServerConfig{Backend: s.Backend}
	if config.Users, err = users.Open(s.path("tokens")); err != nil {
		return err
	}
	folder, err := store.Open(s.path("server"))
	if err != nil {
		return err
	}
	s.ends = append(s.ends, folder.Close)
	if config.Versions, err = versions.Open(ctx, folder, versions.Config{}); err != nil {
		return err
	}
	server, err := desk.NewServer(config)
	if err != nil {
		return err
	}
	s.game.host(server.World())
	certificate, err := cert.Development()
	if err != nil {
		return err
	}
	if s.link, err = newLink(s.Way); err != nil {
		return err
	}
	s.ends = append(s.ends, s.link.server.Close)
	s.fingerprint = cert.Fingerprint(certificate)
	listener, err := rpc.ListenPacket(s.link.server, &tls.Config{Certificates: []tls.Certificate{certificate}}, server.World())
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.World().Run(context.Background()) })
	s.ends = append(s.ends, listener.Close, func() error {
		defer running.Wait()
		return server.Close(context.Background(), "the demo is over")
	})
	return nil
}

// play measures the gameplay alone, then beside the uploads, then beside the downloads.
func (s *stage) play(ctx context.Context) error {
	for _, p := range s.players {
		if err := p.join(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.News, "gameplay alone, for", s.Quiet)
	if err := s.alone(ctx, s.players[0]); err != nil {
		return err
	}
	fmt.Fprintln(s.News, "upload")
	if err := s.transfer(ctx, (*player).up, (*player).upload); err != nil {
		return err
	}
	fmt.Fprintln(s.News, "download")
	return s.transfer(ctx, (*player).down, (*player).download)
}

// alone has a player call, and be called, without a transfer.
func (s *stage) alone(ctx context.Context, p *player) error {
	quiet, cancel := context.WithTimeout(ctx, s.Quiet)
	defer cancel()
	return s.game.beside(ctx, map[caller]series{p.up(): unloaded, p.down(): unloaded}, func() error {
		<-quiet.Done()
		return context.Cause(ctx)
	})
}

// transfer has clients transfer at once, beside calls of all players in the same direction.
func (s *stage) transfer(ctx context.Context, from func(*player) caller, do func(*player, context.Context) error) error {
	callers := map[caller]series{from(s.players[len(s.players)-1]): bystander}
	all, transferring := errgroup.WithContext(ctx)
	for _, p := range s.players[:s.Clients] {
		callers[from(p)] = loaded
	}
	return s.game.beside(ctx, callers, func() error {
		for _, p := range s.players[:s.Clients] {
			all.Go(func() error { return do(p, transferring) })
		}
		return all.Wait()
	})
}
