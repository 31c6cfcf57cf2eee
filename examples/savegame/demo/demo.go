// Package demo runs a server of saves and its clients in one process, over an emulated link if one is asked for, and measures
// how long a save takes up and down, what the game beside feels of it, and how several clients share.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/stream"
)

// Options say what a demo does.
type Options struct {
	Size    int64         // of the generated save
	File    string        // or folder, instead of it
	Way     netsim.Config // of the emulated link, each way; what does nothing is the loopback
	Clients int           // that transfer at once
	Backend stream.Backend
	QUIC    bool          // and not sealed packets
	Quiet   time.Duration // how long the gameplay is measured without transfers
	News    io.Writer     // what goes on
}

// Run plays in a temporary folder, and clears it.
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
			return nil, fmt.Errorf("%w (the demo plays in %s: make room there, or set $TMPDIR to a folder on another disk)", err, s.dir)
		} else if err != nil {
			return nil, err
		}
	}
	return s.report(), nil
}
