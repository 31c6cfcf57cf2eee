package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/quivernet/quiver/bench/report"
	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

// sceneOptions are the options of the command line after "scenes".
type sceneOptions struct {
	rows  string
	seeds scene.Seeds
	out   string
	json  string
	plots []string
	own   *scenes.Scene // -path; nil = rows of the table
}

func parseScenes(args []string) (o sceneOptions, err error) {
	flags := flag.NewFlagSet("bench scenes", flag.ContinueOnError)
	flags.StringVar(&o.rows, "rows", "*", "play the rows whose family and name contain this, '*' for all, '' for none")
	flags.IntVar(&o.seeds.Count, "seeds", 3, "over how many seeds the figures are medians")
	flags.Uint64Var(&o.seeds.First, "first", 1, "the first of these seeds; the others follow it")
	flags.StringVar(&o.out, "out", "", "put the table and the pictures in that folder; the table goes to standard output without, and without -json")
	flags.StringVar(&o.json, "json", "", "write the figures there, with bounds and the value of each seed; compressed when the name ends with .gz")
	path := flags.String("path", "", "play a path of your own, as in '"+pathForm+"': rate, round trip, random loss each way,\nand queue in bandwidth-delay products; prints the figures of each kind of flow")
	flows := flags.String("flows", flowsForm, "with -path: the flows, of ours, reno, cubic and bbr; all are endless and begin together")
	span := flags.Duration("for", time.Minute, "with -path: for how long")
	flags.Func("plot", "draw the first row whose family and name contain this, with the first seed; may be given again", func(part string) error {
		if len(scene.Rows(part)) == 0 {
			return errors.New("no such row")
		}
		o.plots = append(o.plots, part)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.seeds.Count < 1:
		return o, fmt.Errorf("-seeds %d, at least 1", o.seeds.Count)
	case len(o.plots) > 0 && o.out == "":
		return o, errors.New("-plot needs -out")
	case o.rows != "" && len(scene.Rows(o.rows)) == 0:
		return o, fmt.Errorf("-rows %q: no row has that in its family and name, as in \"crowd: 2 together\"", o.rows)
	}
	if *path != "" {
		return o, o.setOwn(flags, *path, *flows, *span)
	}
	return o, nil
}

// setOwn sets the scene of -path, beside which options for rows of the table mean nothing.
func (o *sceneOptions) setOwn(flags *flag.FlagSet, path, flows string, span time.Duration) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "rows" || f.Name == "out" || f.Name == "json" || f.Name == "plot" {
			err = fmt.Errorf("-path and -%s", f.Name)
		}
	})
	s, wrong := ownScene(path, flows, span)
	o.own = &s
	return errors.Join(err, wrong)
}

// runScenes plays rows of internal/scenes, and writes the results.
func runScenes(ctx context.Context, args []string) error {
	o, err := parseScenes(args)
	if err != nil {
		return err
	}
	if o.own != nil {
		return playOwn(ctx, os.Stdout, *o.own, o.seeds)
	}
	if err := prepare(options{json: o.json}); err != nil {
		return err
	}
	if o.out != "" { // before the rows are played, which takes minutes
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	s := report.NewScenes(time.Now(), o.seeds)
	rows, done := scene.Rows(o.rows), 0
	s.Outcomes, err = scene.Play(ctx, rows, o.seeds, func(out scene.Outcome) {
		done++
		fmt.Fprintf(os.Stderr, "%4d of %d: %s\n", done, len(rows), report.Told(out))
	})
	return errors.Join(err, writeScenes(o, s))
}

func writeScenes(o sceneOptions, s *report.Scenes) error {
	if o.json != "" {
		if err := toFile(o.json, s.WriteJSON); err != nil {
			return err
		}
	}
	if o.out == "" {
		if o.json != "" {
			return nil
		}
		return s.WriteMarkdown(os.Stdout)
	}
	for _, part := range o.plots {
		row := scene.Rows(part)[0]
		name := fileName(row.Name()) + ".svg"
		if err := toFile(filepath.Join(o.out, name), func(w io.Writer) error { return s.Draw(w, row) }); err != nil {
			return err
		}
		s.Pictures = append(s.Pictures, report.File{Title: row.Name() + ", " + s.Stamp(), Name: name})
	}
	if len(s.Outcomes) == 0 {
		return nil
	}
	return toFile(filepath.Join(o.out, "table.md"), s.WriteMarkdown)
}

var unfit = regexp.MustCompile(`[^a-z0-9.]+`)

// fileName returns a row's name as the name of a file.
func fileName(name string) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
