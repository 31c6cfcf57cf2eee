// Package demo runs a server of saves and its clients in one process, over an emulated link if one is asked for, and measures
// how long a save takes up and down, what the game beside feels of it, and how several clients share.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/stream"
)

// options says what a demo does.
type options struct {
	size    int64
	file    string        // or folder, instead of a generated save
	way     netsim.Config // of the emulated link, each way
	clients int
	backend stream.Backend
	quic    bool          // not sealed
	quiet   time.Duration // how long the gameplay is measured without transfers
	news    io.Writer     // what goes on
}

// Command returns the command demo. It prints what it measured to stdout, and what goes on meanwhile to stderr.
func Command(stdout, stderr io.Writer) *cli.Command {
	o := options{quiet: 2 * time.Second, news: stderr}
	text := func(name, value, usage string, set func(string) error) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage, Validator: set, ValidateDefaults: true}
	}
	return &cli.Command{
		Name:  "demo",
		Usage: "measure an upload and a download beside gameplay, over an emulated link",
		Flags: []cli.Flag{
			text("size", "16MiB", "`BYTES` of the generated save", o.setSize),
			&cli.StringFlag{Name: "file", Usage: "upload `FILE`, which may be a folder, instead of a generated save", Destination: &o.file},
			&cli.DurationFlag{Name: "rtt", Usage: "emulated round trip `TIME`", Validator: atLeast[time.Duration](0)},
			&cli.DurationFlag{Name: "jitter", Usage: "emulated jitter, up to `TIME` each way", Validator: atLeast[time.Duration](0), Destination: &o.way.Jitter},
			text("loss", "0", "emulated loss in each direction, like `1%`", o.setLoss),
			text("rate", "0", "emulated bottleneck of all clients in each direction, like `10mbit`", o.setRate),
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the save and of the emulated link", Destination: &o.way.Seed},
			&cli.IntFlag{Name: "clients", Value: 1, Usage: "`NUMBER` of clients that transfer at once; beside several one more only plays", Validator: atLeast(1), Destination: &o.clients},
			&cli.StringFlag{Name: "backend", Value: "window", Usage: "how the save travels: `window` of reliable bunches, or slices", Validator: oneOf("window", "slices")},
			&cli.StringFlag{Name: "carrier", Value: "sealed", Usage: "what moves all datagrams: `sealed` packets beside QUIC's, or quic", Validator: oneOf("sealed", "quic")},
			&cli.IntFlag{Name: "lanes", Usage: "channels of one transfer, 1 to 32 (default: as many as the path needs)"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object and nothing else"},
		},
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error { return err }, // the caller may set another
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return c.OnUsageError(ctx, c, fmt.Errorf("unknown argument %q", c.Args().First()), false)
			}
			o.way.Delay, o.quic = c.Duration("rtt")/2, c.String("carrier") == "quic"
			if o.backend = (stream.Window{Lanes: c.Int("lanes")}); c.String("backend") == "slices" {
				o.backend = stream.Slices{}
			}
			if c.Bool("json") || c.Bool("quiet") { // that is the program's
				o.news = io.Discard
			}
			r, err := run(ctx, o)
			if err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			if err := r.write(stdout, c.Bool("json")); err != nil || r.DigestOK {
				return err
			}
			return errors.New("demo: what came down is not what went up")
		},
	}
}

func (o *options) setSize(s string) error {
	n, err := humanize.ParseBytes(s)
	if o.size = int64(n); err != nil || o.size < 0 {
		return errors.New("it is a size like 500KB, 64MiB or 1.5GB")
	}
	return nil
}

// setRate takes bits a second, which have the units of bytes: 0, 10mbit, 512kbit/s and the like.
func (o *options) setRate(s string) error {
	n, err := humanize.ParseBytes(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), "/s"), "bit"))
	if o.way.Rate = int64(n); err != nil || n > 1e12 {
		return errors.New("it is a rate like 512kbit or 10mbit, up to 1000gbit")
	}
	return nil
}

// setLoss takes 1%, 0.5%, or 0.01.
func (o *options) setLoss(s string) (err error) {
	number, percent := strings.CutSuffix(s, "%")
	if o.way.Loss, err = strconv.ParseFloat(number, 64); percent {
		o.way.Loss /= 100
	}
	if err != nil || !(o.way.Loss >= 0 && o.way.Loss < 1) {
		return errors.New("it is a share like 1%, below 100%")
	}
	return nil
}

func atLeast[T cmp.Ordered](least T) func(T) error {
	return func(n T) error {
		if n < least {
			return fmt.Errorf("it is at least %v", least)
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}
