package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

// getting is a get from the command line.
type getting struct {
	*session
	name   string
	number int    // 0: the newest; once it is known it stays, whatever becomes of the connection
	path   string // where it goes
	out    io.Writer
}

// get fetches a save.
func get(ctx context.Context, s *session) (err error) {
	g := &getting{session: s, path: s.args[1], out: s.stdout}
	g.kept = "; what has arrived waits beside the place: run the same command again to go on"
	if g.name, g.number, err = parseSave(s.args[0]); err != nil {
		return err
	}
	if g.path != standard {
		return g.visit(ctx, g.fetch)
	}
	dir, err := os.MkdirTemp("", "savegame-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g.path, g.out, g.kept = filepath.Join(dir, g.name), s.stderr, ""
	if err := g.visit(ctx, g.fetch); err != nil {
		return err
	}
	return g.print()
}

// parseSave returns the name and the number of NAME@NUMBER, 0 where there is none.
func parseSave(text string) (name string, number int, err error) {
	name, version, numbered := strings.Cut(text, "@")
	if numbered {
		if number, err = strconv.Atoi(version); err != nil || number < 1 {
			return "", 0, usage("%q: a version is a number from 1 on, as in %s@3 (see savegame history)", text, name)
		}
	}
	return name, number, versions.CheckName(name)
}

// fetch gets the save on one connection.
func (g *getting) fetch(ctx context.Context, client *desk.Client) error {
	d, err := client.Get(ctx, g.name, g.number)
	if err != nil {
		return err
	}
	defer d.Close()
	g.number = d.Version.Number
	if g.out != g.stdout && d.Manifest.Entries[0].Kind != manifest.File {
		return usage("the save is a folder, which standard output cannot take: give a PATH")
	}
	path := g.target(d.Manifest)
	local, err := g.look(ctx, path, d.Manifest)
	if err != nil {
		return err
	}
	defer closeSource(local)
	if local != nil && local.Manifest.Digest() == d.Version.Content {
		fmt.Fprintf(g.out, "get %s: version %d, %s has it already\n", g.name, g.number, path)
	} else if err := g.restore(ctx, d, path, local); err != nil {
		return err
	}
	return g.remember(d.Version, d.Manifest, path)
}

// target returns where the save goes.
func (g *getting) target(m *manifest.Manifest) string {
	if g.path == "" {
		return g.name
	}
	if info, err := os.Stat(g.path); err == nil && info.IsDir() && m.Entries[0].Kind == manifest.File {
		return filepath.Join(g.path, g.name)
	}
	return g.path
}

// look scans what is at the target, nil when nothing is, and refuses to lose it when no version that this machine saw has it.
func (g *getting) look(ctx context.Context, path string, m *manifest.Manifest) (*tree.Source, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	local, err := scan(ctx, []string{path})
	if err != nil || g.Bool("force") {
		return local, err
	}
	sightings, err := g.seen()
	data := dataOf(local.Manifest)
	empty := len(local.Manifest.Entries) == 1 && local.Manifest.Entries[0].Kind == manifest.Dir
	known := data == dataOf(m) || empty && len(local.Notes) == 0
	for _, s := range sightings {
		known = known || s.Data == data
	}
	if err == nil && !known {
		err = fail(exitConflict, "%s has changes that no version has, or files that a put left out: put it, get into another PATH, or lose them with --force", path)
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// restore makes a path of this machine hold the version.
func (g *getting) restore(ctx context.Context, d *desk.Download, path string, local *tree.Source) error {
	begin, received := time.Now(), int64(0)
	r, err := tree.NewRestore(ctx, d.Manifest, path, tree.RestoreOptions{Replace: true, Local: local})
	if err != nil {
		return err
	}
	defer r.Close()
	if lacks := r.Lacks(); len(lacks) > 0 {
		err = d.Fetch(ctx, lacks, func(c manifest.Chunk, packed []byte) error {
			received += int64(len(packed))
			return r.Put(c, packed)
		})
	}
	if err != nil {
		return err
	}
	again, err := g.look(ctx, path, d.Manifest) // the game may have saved meanwhile
	if err != nil {
		return err
	}
	closeSource(again)
	if err := r.Commit(ctx); errors.Is(err, tree.ErrLeftover) {
		g.note("%v", err)
	} else if err != nil {
		return err
	}
	g.report(g.out, d.Version, received, "received", begin)
	return nil
}

// print copies what was got to standard output.
func (g *getting) print() error {
	f, err := os.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(g.stdout, f)
	return err
}
