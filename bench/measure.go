package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/pool"
	"github.com/quivernet/quiver/bench/report"
)

// measure does the jobs, files them in doc, and says how far it is. Their CPU profiles go to a folder, if any.
func measure(ctx context.Context, doc *report.Document, jobs []job.Job, profiles string) error {
	begin, done := time.Now(), 0
	p, err := pool.New(func(r job.Result, running int) {
		done++
		doc.Add(r)
		fmt.Fprintf(os.Stderr, "%6s %4d of %d, %d running: %s: %s\n",
			time.Since(begin).Round(time.Second), done, len(jobs), running, r.Job, report.Brief(r))
	})
	if err != nil {
		return err
	}
	p.Profile = profiles
	err = p.Run(ctx, jobs)
	doc.Rise(time.Since(begin))
	return err
}

// read returns an earlier run's document.
func read(path string) (*report.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return new(report.Document), err
	}
	defer f.Close()
	if !strings.HasSuffix(path, packed) {
		return report.ReadJSON(f)
	}
	r, err := gzip.NewReader(f)
	if err != nil {
		return new(report.Document), err
	}
	return report.ReadJSON(r)
}

// packed is how the names of compressed files end.
const packed = ".gz"

// write files the document as asked.
func write(o options, doc *report.Document) error {
	for _, out := range []struct {
		path  string
		write func(w io.Writer) error
	}{
		{o.json, doc.WriteJSON}, {o.html, doc.WriteHTML}, {o.md, doc.WriteMarkdown},
	} {
		if out.path == "" {
			continue
		}
		if err := toFile(out.path, out.write); err != nil {
			return err
		}
	}
	if o.json == "" && o.html == "" && o.md == "" {
		return doc.WriteMarkdown(os.Stdout)
	}
	return nil
}

func toFile(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(path, packed) {
		return errors.Join(write(f), f.Close())
	}
	z := gzip.NewWriter(f)
	return errors.Join(write(z), z.Close(), f.Close())
}
