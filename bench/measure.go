package main

import (
	"context"
	"fmt"
	"os"
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
	return report.ReadJSON(f)
}

// write files the document as asked.
func write(o options, doc *report.Document) error {
	for _, out := range []struct {
		path  string
		write func(f *os.File) error
	}{
		{o.json, func(f *os.File) error { return doc.WriteJSON(f) }},
		{o.html, func(f *os.File) error { return doc.WriteHTML(f) }},
		{o.md, func(f *os.File) error { return doc.WriteMarkdown(f) }},
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

func toFile(path string, write func(f *os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
