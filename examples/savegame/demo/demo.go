// Package demo runs a savegame server and its clients in one process, over an emulated link if
// requested. It measures how long an upload and a download of a save take, how they delay a game's
// calls, and how evenly several clients share the link.
package demo

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/tree"
)

// Options configure a demo.
type Options struct {
	Size    int64         // bytes of the generated save
	File    string        // a file or folder to upload instead of it
	Way     netsim.Config // the emulated link, each way; without delay, jitter, loss and rate = the loopback
	Clients int           // clients that transfer at once
	Backend stream.Backend
	QUIC    bool          // use QUIC's datagrams, not sealed packets
	Quiet   time.Duration // how long the gameplay is measured without transfers
	News    io.Writer     // receives lines about progress
}

// Run runs a demo in a temporary folder, which it removes.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	s := &stage{Options: o, game: newGameplay()}
	if s.dir, err = os.MkdirTemp("", "savegame-demo-"); err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { return os.RemoveAll(s.dir) })
	defer func() {
		for _, end := range slices.Backward(s.ends) {
			err = errors.Join(err, end())
		}
	}()
	for _, step := range []func(context.Context) error{s.scan, s.invite, s.serve, s.play} {
		if err := step(ctx); errors.Is(err, desk.ErrFull) || errors.Is(err, syscall.ENOSPC) {
			return nil, fmt.Errorf("%w (the demo runs in %s: make room there, or set $TMPDIR to a folder on another disk)", err, s.dir)
		} else if err != nil {
			return nil, err
		}
	}
	return s.report(), nil
}

// A stage is the server and the clients of a demo, and their measurements.
type stage struct {
	Options
	dir         string
	ends        []func() error // cleanup functions, called in reverse order
	source      *tree.Source
	server      net.PacketConn
	hub         *netsim.Hub // the emulated network of the server's socket; nil = the loopback
	fingerprint string
	game        *gameplay
	players     []*player // if several clients transfer, the last player only plays
}

// path returns the path of a file in the demo's folder.
func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// scan finds or generates what is uploaded.
func (s *stage) scan(ctx context.Context) (err error) {
	if s.File == "" {
		s.File = s.path("generated")
		if err = s.checkRoom(s.Size, 1+2*int64(s.Clients)); err != nil {
			return err
		}
		if err = generate(s.File, s.Size, s.Way.Seed); err != nil {
			return err
		}
	}
	if s.source, err = tree.Scan(ctx, []string{s.File}, tree.ScanOptions{}); err != nil {
		return err
	}
	s.ends = append(s.ends, s.source.Close)
	_, size := s.source.Manifest.Count()
	return s.checkRoom(size, 2*int64(s.Clients))
}

// checkRoom returns an error if the disk has no room for the given number of copies of a save. Each
// client has one at the server, and one that it downloads.
func (s *stage) checkRoom(bytes, times int64) error {
	if free, err := files.Free(s.dir); err == nil && free/times < bytes {
		return fmt.Errorf("save of %s is written %d times, but only %s are free: %w", versions.SizeText(bytes), times, versions.SizeText(free), syscall.ENOSPC)
	}
	return nil
}

// invite makes the players. Each is a different user, so each sends everything, because users share
// nothing at the server.
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
	if s.server, err = s.listen(); err != nil {
		return err
	}
	s.ends = append(s.ends, s.server.Close)
	s.fingerprint = cert.Fingerprint(certificate)
	listener, err := rpc.ListenPacket(s.server, &tls.Config{Certificates: []tls.Certificate{certificate}}, server.World())
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.World().Run(context.Background()) })
	s.ends = append(s.ends, listener.Close, func() error {
		defer running.Wait()
		return server.Close(context.Background(), "demo has ended")
	})
	return nil
}

// listen opens the server's socket, which is on the loopback if the link would change nothing.
func (s *stage) listen() (net.PacketConn, error) {
	if s.Way.Delay > 0 || s.Way.Jitter > 0 || s.Way.Loss > 0 || s.Way.Rate > 0 {
		s.hub = netsim.NewHub(s.Way)
		return s.hub.PacketConn, nil
	}
	return loopback()
}

func loopback() (net.PacketConn, error) { return net.ListenPacket("udp4", "127.0.0.1:0") }

// socket opens the socket of one more client.
func (s *stage) socket() (net.PacketConn, error) {
	if s.hub == nil {
		return loopback()
	}
	return s.hub.Join(), nil
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

// alone measures a player's calls in both directions without a transfer.
func (s *stage) alone(ctx context.Context, p *player) error {
	quiet, cancel := context.WithTimeout(ctx, s.Quiet)
	defer cancel()
	return s.game.beside(ctx, map[caller]series{p.up(): unloaded, p.down(): unloaded}, func() error {
		<-quiet.Done()
		return context.Cause(ctx)
	})
}

// transfer runs the transfers of all clients at once, along with calls of all players in the same
// direction.
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

// generate makes a save of exactly size bytes, which depends only on size and seed. Like a real
// save, it consists of records, which compress well, and terrain, which doesn't. Most of it is
// terrain, so that about size bytes are sent.
func generate(path string, size int64, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	records := strings.Repeat("a chest at 17 42 with 1 lantern\n", int(min(size, 1<<30)/512)) // a sixteenth
	var seeds [32]byte
	binary.LittleEndian.PutUint64(seeds[:], seed)
	_, err = io.CopyN(f, io.MultiReader(strings.NewReader(records), rand.NewChaCha8(seeds)), size)
	return errors.Join(err, f.Close())
}

// ParseRate parses a rate in bits per second, such as 0, 10mbit or 512kbit/s.
func ParseRate(s string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), "/s"), "bit"))
	if err != nil || n > 1e12 || n > 0 && n < 1e3 {
		return 0, errors.New("must be a rate from 1kbit to 1000gbit, such as 512kbit or 10mbit, or 0 for no limit")
	}
	return int64(n), nil
}

// ParseLoss parses a share such as 1%, 0.5% or 0.01.
func ParseLoss(s string) (loss float64, err error) {
	number, percent := strings.CutSuffix(s, "%")
	if loss, err = strconv.ParseFloat(number, 64); percent {
		loss /= 100
	}
	if err != nil || !(loss >= 0 && loss < 1) {
		return 0, errors.New("must be a share below 100%, such as 1%")
	}
	return loss, nil
}
