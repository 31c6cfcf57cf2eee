// Command bench measures Quiver and what people would use instead of it.
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
	flags.BoolVar(&o.quick, "quick", false, "every contender and every scenario once, some minutes; longer on a busy machine")
	flags.BoolVar(&o.list, "list", false, "print the jobs and do none")
	flags.IntVar(&o.runs, "runs", 3, "runs of each cell; three times as many of start, five times as many of 256 KiB in virtual time; 1 of emulator, of blobs over time,\nof the largest blobs through the relay, and of everything with -quick")
	flags.StringVar(&o.from, "from", "", "measure nothing, but report what an earlier -json wrote there")
	flags.BoolVar(&o.resume, "resume", false, "add to what is in the file of -json, and measure only what it lacks")
	flags.StringVar(&o.json, "json", "", "write every raw sample there; compressed when the name ends with .gz")
	flags.StringVar(&o.html, "html", "", "write the report there")
	flags.StringVar(&o.md, "md", "", "write the tables as Markdown there; standard output without any of the three")
	flags.StringVar(&o.profile, "profile", "", "put a CPU profile of each job in that folder")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "bench [flags], or bench scenes [flags]; README.md has examples")
		flags.PrintDefaults()
	}
	only := flags.String("only", "", "only jobs whose name (scenario/clock/peer/row) matches this regular expression")
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
		return o, fmt.Errorf("-runs %d, at least 1", o.runs)
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
	if jobs = plan.Only(jobs, o.only); len(jobs) == 0 {
		return fmt.Errorf("no job's name matches %q: -list prints them", o.only)
	}
	doc := report.New(time.Now())
	if o.resume {
		if doc, err = read(o.json); err != nil {
			return err
		}
		doc.Sit(time.Now())
		jobs = doc.Lacks(jobs)
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
