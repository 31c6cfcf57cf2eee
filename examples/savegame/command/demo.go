package command

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/demo"
	"github.com/quivernet/quiver/stream"
)

// demoCommand declares the command that measures transfers.
func demoCommand() *cli.Command {
	o := demo.Options{Quiet: 2 * time.Second}
	return command("demo", "", "measure an upload and a download during gameplay, over an emulated link", func(ctx context.Context, j *job) error {
		return measure(ctx, j, o) // the flags below set o
	},
		sizeFlag("size", "16MiB", "`BYTES` of the generated save"),
		&cli.StringFlag{Name: "file", Usage: "upload `FILE`, which may be a folder, instead of a generated save", Destination: &o.File},
		&cli.DurationFlag{Name: "rtt", Usage: "emulated round trip `TIME`", Validator: atLeast[time.Duration](0)},
		&cli.DurationFlag{Name: "jitter", Usage: "emulated jitter, up to `TIME` each way", Validator: atLeast[time.Duration](0), Destination: &o.Way.Jitter},
		checked("loss", "", "emulated `LOSS` in each direction, such as 1%", func(s string) (err error) { o.Way.Loss, err = demo.ParseLoss(s); return err }),
		checked("rate", "", "emulated `RATE` of all clients in each direction, such as 10mbit", func(s string) (err error) { o.Way.Rate, err = demo.ParseRate(s); return err }),
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the save and of the emulated link", Destination: &o.Way.Seed},
		&cli.IntFlag{Name: "clients", Value: 1, Usage: "`NUMBER` of clients that transfer at once; with several, one more only plays", Validator: atLeast(1), Destination: &o.Clients},
		oneOf("backend", "`BACKEND` that carries the save: a window of reliable bunches, or slices", "window", "slices"),
		carrierFlag(),
		&cli.IntFlag{Name: "lanes", Usage: "channels of one transfer, 1 to 32 (default: as many as the path needs)", Validator: atLeast(0)},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON object and nothing else"})
}

// measure runs the demo and prints the results.
func measure(ctx context.Context, j *job, o demo.Options) error {
	o.Size, o.Way.Delay, o.QUIC, o.News = j.size("size"), j.Duration("rtt")/2, j.String("carrier") == "quic", j.ErrWriter
	if o.Backend = (stream.Window{Lanes: j.Int("lanes")}); j.String("backend") == "slices" {
		o.Backend = stream.Slices{}
	}
	if j.Bool("json") || j.Bool("quiet") {
		o.News = io.Discard
	}
	r, err := demo.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := r.Write(j.Writer, j.Bool("json")); err != nil || r.DigestOK {
		return err
	}
	return errors.New("downloaded save differs from the uploaded one")
}
