// Command bench measures Quiver and its alternatives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	_ "github.com/quivernet/quiver/bench/peer/all"
	"github.com/quivernet/quiver/bench/plan"
	"github.com/quivernet/quiver/bench/report"
	"github.com/quivernet/quiver/bench/worker"
)

func main() {
	if worker.Is() {
		worker.Main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	quick          bool
	list           bool
	only           *regexp.Regexp
	runs           int
	from           string
	resume         bool
	json, html, md string
	profile        string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "run every contender and every scenario once, which takes some minutes, or longer on a busy machine")
	flags.BoolVar(&o.list, "list", false, "print the jobs without running them")
	flags.IntVar(&o.runs, "runs", 3, "runs of each cell; start has three times as many, and blobs of 256 KiB in virtual time have five times as many;\nemulator, blobs over time, the largest blobs through the relay, and everything with -quick run once")
	flags.StringVar(&o.from, "from", "", "measure nothing, but report the results in this file, which an earlier -json wrote")
	flags.BoolVar(&o.resume, "resume", false, "measure only what the file of -json lacks, and add it")
	flags.StringVar(&o.json, "json", "", "write every raw sample to this file, compressed if its name ends with .gz")
	flags.StringVar(&o.html, "html", "", "write the report to this file")
	flags.StringVar(&o.md, "md", "", "write the tables as Markdown to this file; without any of the three, to standard output")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of each job to this folder")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "bench [flags], or bench scenes [flags]; README.md has examples")
		flags.PrintDefaults()
	}
	only := flags.String("only", "", "run only jobs whose name (scenario/clock/peer/row) matches this regular expression")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.resume && o.json == "" {
		return o, errors.New("-resume needs -json")
	}
	if o.runs < 1 {
		return o, fmt.Errorf("-runs is %d; must be at least 1", o.runs)
	}
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "scenes" {
		return runScenes(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.from != "" {
		doc, err := read(o.from)
		if err != nil {
			return err
		}
		return write(o, doc)
	}
	jobs := plan.Full(o.runs)
	if o.quick {
		jobs = plan.Quick()
	}
	jobs = plan.Only(jobs, o.only)
	if len(jobs) == 0 {
		return fmt.Errorf("no job has a name that matches %q; use -list to print them", o.only)
	}
	doc := report.New(time.Now())
	if o.resume {
		if doc, err = read(o.json); err != nil {
			return err
		}
		doc.BeginSitting(time.Now())
		jobs = doc.Missing(jobs)
	}
	if o.list {
		for _, j := range jobs {
			fmt.Println(j)
		}
		return nil
	}
	if err := prepare(o); err != nil {
		return err
	}
	err = measure(ctx, doc, jobs, o.profile)
	return errors.Join(err, write(o, doc))
}
