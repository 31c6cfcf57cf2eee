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

// measure runs the jobs, adds the results to doc, and prints progress. It writes CPU profiles of
// the jobs to the folder profiles, unless that is "".
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
	doc.EndSitting(time.Since(begin))
	return err
}

// read returns the document of an earlier run.
func read(path string) (*report.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, packed) {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	doc, err := report.ReadJSON(r)
	if err == nil && len(doc.Sittings) == 0 {
		err = errors.New("not written by -json")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// packed is the extension of compressed files.
const packed = ".gz"

// prepare checks that the results can be written, before hours of measuring, and makes the folder
// for profiles.
func prepare(o options) error {
	for _, path := range []string{o.json, o.html, o.md} {
		if path == "" {
			continue
		}
		if err := checkWritable(path); err != nil {
			return err
		}
	}
	if o.profile == "" {
		return nil
	}
	return os.MkdirAll(o.profile, 0o755)
}

// checkWritable returns an error if a file can't be written. It doesn't change the file.
func checkWritable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		return errors.Join(f.Close(), os.Remove(path))
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if f, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return err
	}
	return f.Close()
}

// write writes the document to the files in the options or, if there are none, as Markdown to
// standard output.
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
