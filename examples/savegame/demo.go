package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
)

// demoName is the save's name in a demo.
const demoName = "world.sav"

// demoOptions says what a demo does.
type demoOptions struct {
	size    int64
	file    string // instead of a generated save
	link    impairment
	backend stream.Backend
	quic    bool                                             // not sealed
	watch   func(label string, t desk.Tracker) (stop func()) // nil: nobody
	say     func(line string)                                // what goes on; nil: nobody
}

// demo runs the embedded server, an upload and a download.
func (a *app) demo(ctx context.Context, c *cli.Command) error {
	if _, err := arguments(c, 0, 0); err != nil {
		return err
	}
	o, err := demoOptionsOf(c)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		o.watch = newDisplay(a.stderr).watch
		o.say = func(line string) { fmt.Fprintln(a.stderr, line) }
	}
	r, err := runDemo(ctx, o)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	write := r.writeTable
	if c.Bool("json") {
		write = r.writeJSON
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	if !r.DigestOK {
		return errors.New("demo: what came down is not what went up")
	}
	return nil
}

func demoOptionsOf(c *cli.Command) (o demoOptions, err error) {
	o.file, o.link.rtt, o.link.seed = c.String("file"), c.Duration("rtt"), c.Uint64("seed")
	if o.size, err = parseSize(c.String("size")); err != nil {
		return o, err
	}
	if o.link.loss, err = parseShare(c.String("loss")); err != nil {
		return o, err
	}
	if o.link.rate, err = parseRate(c.String("rate")); err != nil {
		return o, err
	}
	lanes := c.Int("lanes")
	switch {
	case o.link.rtt < 0:
		return o, fmt.Errorf("rtt %v is negative", o.link.rtt)
	case lanes < 1 || lanes > 32:
		return o, fmt.Errorf("lanes %d is not 1 to 32", lanes)
	}
	if o.quic, err = isQUIC(c.String("carrier")); err != nil {
		return o, err
	}
	o.backend, err = backendOf(c.String("backend"), lanes)
	return o, err
}

// stage is a demo's server and client, and what is measured of them.
type stage struct {
	options demoOptions
	dir     string
	path    *path
	probe   *probe
	peaks   peaks
	times   stopwatch
	label   string // of the transfer that goes on

	server      *desk.Server
	listener    *rpc.Listener
	fingerprint string
	token       string
	client      *desk.Client // nil: none is connected
	run         sync.WaitGroup
}

// runDemo sets the stage, plays, and clears it.
func runDemo(ctx context.Context, o demoOptions) (r *report, err error) {
	dir, err := os.MkdirTemp("", "savegame-demo-")
	if err != nil {
		return nil, err
	}
	s := &stage{options: o, dir: dir, probe: newProbe()}
	defer func() { err = errors.Join(err, s.clear()) }()
	src, err := s.source()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if s.path, err = newPath(s.options.link); err != nil {
		return nil, err
	}
	if err := s.serve(); err != nil {
		return nil, err
	}
	return s.play(ctx, src)
}

// source returns the file to upload.
func (s *stage) source() (*vault.Source, error) {
	if s.options.file != "" {
		return vault.OpenSource(s.options.file)
	}
	path := filepath.Join(s.dir, "generated.sav")
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(generateWorld(f, s.options.size, s.options.link.seed), f.Close())
	}
	if err != nil {
		return nil, err
	}
	return vault.OpenSource(path)
}

// connect connects a client, in place of the one before: each transfer has a connection of its own, as with the
// commands.
func (s *stage) connect(ctx context.Context) error {
	s.disconnect()
	socket, err := s.path.client()
	if err != nil {
		return err
	}
	config := desk.ClientConfig{
		Server: s.path.target, TLS: cert.Pinned(s.fingerprint), Token: s.token, Socket: socket,
		Backend: s.options.backend, QUIC: s.options.quic, Watch: s.watch, Trace: s.times.trace(),
		Setup: func(w *rpc.World) {
			s.probe.onClient(w)
			s.peaks.follow(w)
		},
	}
	if s.client, err = desk.Dial(ctx, config); err != nil {
		return err
	}
	return s.probe.await(ctx)
}

func (s *stage) disconnect() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// watch shows the transfer that goes on.
func (s *stage) watch(_ string, t desk.Tracker) (stop func()) {
	if s.options.watch == nil {
		return func() {}
	}
	return s.options.watch(s.label, t)
}

// serve starts the server, as the command does, in a folder of the demo's.
func (s *stage) serve() error {
	folder := filepath.Join(s.dir, "server")
	config := desk.ServerConfig{Backend: s.options.backend, Trace: s.times.trace()}
	var err error
	if config.Vault, err = vault.Open(folder, vault.Limits{}); err != nil {
		return err
	}
	path := filepath.Join(folder, "tokens.txt")
	if _, err := vault.MakeTokens(path); err != nil {
		return err
	}
	if config.Guard, err = vault.NewGuard(path); err != nil {
		return err
	}
	tokens, err := vault.ReadTokens(path)
	if err != nil {
		return err
	}
	certificate, err := cert.Load(folder)
	if err != nil {
		return err
	}
	if s.server, err = desk.NewServer(config); err != nil {
		return err
	}
	s.token, s.fingerprint = tokens[0], cert.Fingerprint(certificate)
	s.probe.onServer(s.server.World())
	s.peaks.follow(s.server.World())
	s.run.Go(func() { _ = s.server.World().Run(context.Background()) })
	s.listener, err = rpc.ListenPacket(s.path.server, &tls.Config{Certificates: []tls.Certificate{certificate}}, s.server.World())
	return err
}

// play measures the gameplay alone, then beside the upload, then beside the download.
func (s *stage) play(ctx context.Context, src *vault.Source) (*report, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	if err := src.Hash(ctx); err != nil { // beforehand: the gameplay is measured beside transfers only
		return nil, err
	}
	if s.options.say != nil {
		s.options.say("gameplay alone, for 2 s")
	}
	unloaded, err := s.probe.unloaded(ctx, probeUnloaded)
	if err != nil {
		return nil, err
	}
	target, err := vault.OpenTarget(filepath.Join(s.dir, "downloaded.sav"), demoName)
	if err != nil {
		return nil, err
	}
	s.label = "upload"
	loaded, err := s.probe.beside(ctx, &s.probe.up, func() error {
		_, err := s.client.Put(ctx, demoName, src)
		return err
	})
	if err != nil {
		return nil, err
	}
	upload := s.times.elapsed()
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	s.label = "download"
	more, err := s.probe.beside(ctx, &s.probe.down, func() error {
		_, _, err := s.client.Get(ctx, demoName, target)
		return err
	})
	if err != nil {
		return nil, err
	}
	download := s.times.elapsed()
	loaded = append(loaded, more...)
	same, err := target.Has(ctx, src.Digest, src.Size)
	if err != nil {
		return nil, err
	}
	r := &report{
		Bytes: src.Size, UploadSeconds: upload.Seconds(), DownloadSeconds: download.Seconds(),
		IdealSeconds:   ideal(src.Size, s.options.link.rtt, s.options.link.loss, s.options.link.rate).Seconds(),
		DigestOK:       same,
		LinkBytes:      s.path.linkBytes(),
		Carrier:        s.times.carrier(),
		RPCP99:         milliseconds(percentile(loaded, 99)),
		RPCP99Unloaded: milliseconds(percentile(unloaded, 99)),
		loaded:         loaded,
		unloaded:       unloaded,
	}
	r.PeakOutEntries, r.Slots, r.ResentBunches, r.SealedPackets = s.peaks.read()
	return r, nil
}

// clear ends what open began and removes the folder.
func (s *stage) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	var err error
	s.disconnect()
	if s.server != nil {
		err = s.server.Close(ctx, "the demo is over")
	}
	if s.listener != nil {
		err = errors.Join(err, s.listener.Close())
	}
	s.run.Wait()
	if s.path != nil {
		err = errors.Join(err, s.path.close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// stopwatch takes the time from the start of a content at its sender to its end at its receiver.
type stopwatch struct {
	mu            sync.Mutex
	started, done time.Time
	contents      []*stream.Transfer
}

func (w *stopwatch) trace() desk.Trace {
	return desk.Trace{
		Started: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.started = time.Now()
		},
		Received: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.done = time.Now()
		},
		Sending: func(t *stream.Transfer) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.contents = append(w.contents, t)
		},
	}
}

// carrier names what carried the contents: both, when that was not the same.
func (w *stopwatch) carrier() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, t := range w.contents {
		names = append(names, carrierName(t.Sealed()))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "+")
}

func carrierName(sealed bool) string {
	if sealed {
		return "sealed"
	}
	return "quic"
}

func (w *stopwatch) elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.Sub(w.started)
}
