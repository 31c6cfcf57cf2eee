// Package demo runs a server of saves and its clients in one process, over an emulated link if one is asked for, and measures
// how long a save takes up and down, what the game beside feels of it, and how several clients share.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/stream"
)

// exitUsage is the exit code of flags that cannot be.
const exitUsage = 2

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
	return &cli.Command{
		Name:  "demo",
		Usage: "measure an upload and a download beside gameplay, over an emulated link",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "size", Value: "16MiB", Usage: "`BYTES` of the generated save"},
			&cli.StringFlag{Name: "file", Usage: "upload `FILE`, which may be a folder, instead of a generated save"},
			&cli.DurationFlag{Name: "rtt", Usage: "emulated round trip `TIME`"},
			&cli.DurationFlag{Name: "jitter", Usage: "emulated jitter, up to `TIME` each way"},
			&cli.StringFlag{Name: "loss", Value: "0", Usage: "emulated loss in each direction, like `1%`"},
			&cli.StringFlag{Name: "rate", Value: "0", Usage: "emulated bottleneck of all clients in each direction, like `10mbit`"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the save and of the emulated link"},
			&cli.IntFlag{Name: "clients", Value: 1, Usage: "`NUMBER` of clients that transfer at once, 1 to 64; beside several one more only plays"},
			&cli.StringFlag{Name: "backend", Value: "window", Usage: "how the save travels: `window` of reliable bunches, or slices"},
			&cli.StringFlag{Name: "carrier", Value: "sealed", Usage: "what moves all datagrams: `sealed` packets beside QUIC's, or quic"},
			&cli.IntFlag{Name: "lanes", Value: 1, Usage: "channels of one transfer, 1 to 32"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object and nothing else"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			o, err := parse(c)
			if err != nil {
				return cli.Exit(err, exitUsage)
			}
			if o.news = stderr; c.Bool("json") || c.Bool("quiet") { // that is the program's
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

func parse(c *cli.Command) (options, error) {
	text := c.String
	size, sizeErr := humanize.ParseBytes(text("size"))
	// Bits come in the units of bytes.
	rate, rateErr := humanize.ParseBytes(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(text("rate")), "/s"), "bit"))
	loss, lossErr := parseShare(text("loss"))
	backends := map[string]stream.Backend{"window": stream.Window{Lanes: c.Int("lanes")}, "slices": stream.Slices{}}
	o := options{
		size: int64(size), file: text("file"), clients: c.Int("clients"), quiet: 2 * time.Second,
		way:     netsim.Config{Delay: c.Duration("rtt") / 2, Jitter: c.Duration("jitter"), Loss: loss, Rate: int64(rate), Seed: c.Uint64("seed")},
		backend: backends[text("backend")], quic: text("carrier") == "quic",
	}
	switch {
	case sizeErr != nil || o.size < 0:
		return o, fmt.Errorf("size %q is not like 16MiB", text("size"))
	case rateErr != nil:
		return o, fmt.Errorf("rate %q is not like 10mbit", text("rate"))
	case lossErr != nil || !(loss >= 0 && loss < 1):
		return o, fmt.Errorf("loss %q is not like 1%%, from 0 to below 100%%", text("loss"))
	case min(c.Duration("rtt"), c.Duration("jitter")) < 0:
		return o, fmt.Errorf("rtt %v or jitter %v is negative", c.Duration("rtt"), c.Duration("jitter"))
	case o.clients < 1 || o.clients > 64:
		return o, fmt.Errorf("clients %d is not 1 to 64", o.clients)
	case o.backend == nil:
		return o, fmt.Errorf("backend %q is none of window and slices", text("backend"))
	case !o.quic && text("carrier") != "sealed":
		return o, fmt.Errorf("carrier %q is none of sealed and quic", text("carrier"))
	case c.Args().Present():
		return o, fmt.Errorf("unknown argument %q (see savegame demo --help)", c.Args().First())
	}
	return o, o.way.Validate()
}

// parseShare reads 1%, 0.5%, or 0.01.
func parseShare(s string) (float64, error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		return percent / 100, err
	}
	return strconv.ParseFloat(s, 64)
}
