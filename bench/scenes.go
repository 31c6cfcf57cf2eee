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
	own   *scenes.Scene // the scene of -path; nil = rows of the table
}

func parseScenes(args []string) (o sceneOptions, err error) {
	flags := flag.NewFlagSet("bench scenes", flag.ContinueOnError)
	flags.StringVar(&o.rows, "rows", "*", "play the rows whose family and name contain this text, '*' for all, '' for none")
	flags.IntVar(&o.seeds.Count, "seeds", 3, "number of seeds; the figures are medians over them")
	flags.Uint64Var(&o.seeds.First, "first", 1, "first seed; the others follow it")
	flags.StringVar(&o.out, "out", "", "write the table and the pictures to this folder; without it and -json, the table goes to standard output")
	flags.StringVar(&o.json, "json", "", "write the figures, with bounds and the value for each seed, to this file, compressed if its name ends with .gz")
	path := flags.String("path", "", "play a path with this rate, round trip, random loss each way, and queue in bandwidth-delay products,\nsuch as '"+pathForm+"', and print the figures of each kind of flow")
	flows := flags.String("flows", flowsForm, "with -path: the flows, of kinds ours, reno, cubic and bbr; all are endless and begin together")
	span := flags.Duration("for", time.Minute, "with -path: duration")
	flags.Func("plot", "draw the first row whose family and name contain this text, with the first seed; may be repeated", func(part string) error {
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
		return o, fmt.Errorf("-seeds is %d; must be at least 1", o.seeds.Count)
	case len(o.plots) > 0 && o.out == "":
		return o, errors.New("-plot needs -out")
	case o.rows != "" && len(scene.Rows(o.rows)) == 0:
		return o, fmt.Errorf("-rows %q: no row has this text in its family and name, such as \"crowd: 2 together\"", o.rows)
	}
	if *path != "" {
		return o, o.setOwn(flags, *path, *flows, *span)
	}
	return o, nil
}

// setOwn sets the scene of -path, which can't be combined with options for rows of the table.
func (o *sceneOptions) setOwn(flags *flag.FlagSet, path, flows string, span time.Duration) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "rows" || f.Name == "out" || f.Name == "json" || f.Name == "plot" {
			err = fmt.Errorf("-path excludes -%s", f.Name)
		}
	})
	s, sceneErr := ownScene(path, flows, span)
	o.own = &s
	return errors.Join(err, sceneErr)
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
	if o.out != "" { // before playing the rows, which takes minutes
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	s := report.NewScenes(time.Now(), o.seeds)
	rows, done := scene.Rows(o.rows), 0
	s.Outcomes, err = scene.Play(ctx, rows, o.seeds, func(out scene.Outcome) {
		done++
		fmt.Fprintf(os.Stderr, "%4d of %d: %s\n", done, len(rows), report.Line(out))
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

// unfit matches characters that aren't used in names of files.
var unfit = regexp.MustCompile(`[^a-z0-9.]+`)

// fileName turns a row's name into the name of a file.
func fileName(name string) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
