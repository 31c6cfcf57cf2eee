package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// What main plays, and over what.
const (
	Bots   = 16
	Uplink = 20e6 // bit/s of the server, for all its clients together
	Alone  = 10 * time.Second
	Rest   = 10 * time.Second // after the download
	Most   = time.Minute      // of the download
)

func main() {
	profile := flag.String("profile", "Bad", "of Unreal's packet emulation: Off, Average or Bad")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *profile, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "arena:", err)
		os.Exit(1)
	}
}

// arena is a match over loopback: a server and its players, each world on a goroutine of its own.
type arena struct {
	ctx     context.Context
	network rpc.Emulation // of a player
	server  *server
	address string
	trust   *tls.Config
	felt    *felt
	playing sync.WaitGroup
	players int
}

func run(ctx context.Context, profile string, out io.Writer) error {
	network, err := rpc.EmulationProfile(profile)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	a := &arena{ctx: ctx, network: network, felt: newFelt()}
	defer a.playing.Wait()
	defer stop()
	listener, err := a.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := a.play(out); err != nil {
		return err
	}
	stop()
	a.playing.Wait() // from here nobody else touches the worlds
	return a.report(out)
}

// listen starts the server. Emulation stands before its socket: what it sends shares the uplink.
func (a *arena) listen() (*rpc.Listener, error) {
	uplink := a.network
	uplink.Rate = Uplink
	seed := uint64(time.Now().UnixNano())
	var err error
	if a.server, err = newServer(rpc.Config{Sealed: true, Emulation: &uplink}, seed); err != nil {
		return nil, err
	}
	cert, err := rpc.DevelopmentCertificate("localhost")
	if err != nil {
		return nil, err
	}
	listener, err := rpc.Listen("localhost:0", &tls.Config{Certificates: []tls.Certificate{cert}}, a.server.world)
	if err != nil {
		return nil, err
	}
	a.address, a.trust = listener.Addr().String(), rpc.PinnedTLS(rpc.Fingerprint(cert))
	a.drive(a.server.world, a.server.tick)
	return listener, nil
}

// play lets the bots fight, has one more join, and waits for what it downloads.
func (a *arena) play(out io.Writer) error {
	fmt.Fprintf(out, "%d bots come\n", Bots)
	for range Bots {
		if err := a.join(others); err != nil {
			return err
		}
	}
	a.wait(settle)
	a.felt.settled()
	a.wait(Alone)
	fmt.Fprintf(out, "one more comes, and downloads %d MiB\n", LevelSize>>20)
	began := time.Now()
	if err := a.join(joiner); err != nil {
		return err
	}
	select {
	case <-a.felt.done:
	case <-time.After(Most):
		return errors.New("the download does not end")
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
	fmt.Fprintf(out, "it has them after %.1f s\n", time.Since(began).Seconds())
	a.wait(Rest)
	return a.ctx.Err()
}

// join connects one player.
func (a *arena) join(w who) error {
	a.players++
	config := rpc.Config{Sealed: true, Emulation: &a.network}
	b, err := newBot(config, fmt.Sprint("bot ", a.players), uint64(a.players), a.felt, w)
	if err != nil {
		return err
	}
	if _, err := rpc.Dial(a.ctx, a.address, a.trust, b.world); err != nil {
		return err
	}
	a.drive(b.world, b.tick)
	return nil
}

// drive ticks a world until the match is over: UE's TickDispatch, the simulation, and TickFlush.
func (a *arena) drive(w *rpc.World, tick func(now time.Time)) {
	a.playing.Go(func() {
		ticker := time.NewTicker(time.Second / TickRate)
		defer ticker.Stop()
		for a.ctx.Err() == nil {
			<-ticker.C
			now := time.Now()
			w.Dispatch(now)
			tick(now)
			w.Flush(now)
		}
	})
}

func (a *arena) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

func (a *arena) report(out io.Writer) error {
	s := a.server
	fmt.Fprintf(out, "%d shots hit of %d; a player sees %.1f of %d others\n\n", s.hits, s.shots, float64(a.felt.seen)/float64(a.felt.ticks), Bots)
	return errors.Join(a.felt.print(out), a.felt.err, s.err)
}
