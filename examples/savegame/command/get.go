package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	path   string // where it goes; empty: to the save's name
	prints bool   // it goes on to standard output

	changed error // unless nil says what became of changes that came too late to keep the save from its place
}

// get fetches a save.
func get(ctx context.Context, s *session) (err error) {
	g := &getting{session: s, path: s.args[1]}
	if g.name, g.number, err = parseSave(s.args[0]); err != nil {
		return err
	}
	if g.path == standard {
		return g.print(ctx)
	}
	g.kept = "; what has arrived waits beside the place: run the same command again to go on"
	return g.reach(ctx, g.fetch)
}

// print fetches a file by way of a temporary folder, and leaves standard output to its content.
func (g *getting) print(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "savegame-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := g.Writer
	g.path, g.prints, g.Writer = filepath.Join(dir, g.name), true, g.ErrWriter
	if err := g.reach(ctx, g.fetch); err != nil {
		return err
	}
	f, err := os.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
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
	return client.Get(ctx, g.name, g.number, func(d *desk.Download) error { return g.use(ctx, d) })
}

func (g *getting) use(ctx context.Context, d *desk.Download) error {
	g.number = d.Version.Number
	if g.prints && d.Manifest.Entries[0].Kind != manifest.File {
		return usage("the save is a folder, which standard output cannot take: give a PATH")
	}
	path := g.target(d.Manifest)
	local, err := g.look(ctx, path, d.Manifest)
	if err != nil {
		return err
	}
	defer local.Close()
	if local != nil && local.Manifest.Digest() == d.Version.Content {
		g.say("get %s: version %d, %s has it already", g.name, g.number, path)
	} else if err := g.restore(ctx, d, path, local); err != nil {
		return err
	}
	if g.prints {
		path = os.Stdout.Name()
	}
	return cmp.Or(g.remember(d.Version, d.Manifest, nil, path), g.changed)
}

// target returns where the save goes: a file into a folder, which is there or is meant by a slash.
func (g *getting) target(m *manifest.Manifest) string {
	if g.path == "" {
		return g.name
	}
	info, err := os.Stat(g.path)
	folder := err == nil && info.IsDir() || os.IsPathSeparator(g.path[len(g.path)-1])
	if folder && m.Entries[0].Kind == manifest.File {
		return filepath.Join(g.path, g.name)
	}
	return g.path
}

// look scans what is at the target, nil when nothing is, and refuses to lose it when no version that this machine saw has it.
func (g *getting) look(ctx context.Context, path string, m *manifest.Manifest) (*tree.Source, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	local, err := g.scan(ctx, []string{path})
	if err != nil || g.Bool("force") {
		return local, err
	}
	known, err := g.knows(local, m)
	if err == nil && !known {
		err = fail(exitConflict, "%s has changes that no version has, or files that a put left out: put it, get into another PATH, or lose them with --force", path)
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// knows reports whether a version has what is local: m, or one that this machine saw. Nothing is in all of them. What no save can hold is
// in none, and stays where the rest is m already.
func (g *getting) knows(local *tree.Source, m *manifest.Manifest) (bool, error) {
	entries, data := local.Manifest.Entries, dataOf(local.Manifest)
	if slices.ContainsFunc(local.Notes, func(n tree.Note) bool { return n.Left }) {
		return local.Manifest.Digest() == m.Digest(), nil
	}
	if len(entries) == 1 && entries[0].Kind == manifest.Dir {
		return true, nil
	}
	sightings, err := g.seen()
	held := slices.ContainsFunc(slices.Collect(maps.Values(sightings)), func(s sighting) bool { return s.Data == data })
	return held || data == dataOf(m), err
}

// restore makes a path of this machine hold the version.
func (g *getting) restore(ctx context.Context, d *desk.Download, path string, local *tree.Source) error {
	begin, received := time.Now(), int64(0)
	look := func(ctx context.Context, path string) error { // the game may have saved meanwhile
		again, err := g.look(ctx, path, d.Manifest)
		return errors.Join(err, again.Close())
	}
	r, err := tree.NewRestore(ctx, d.Manifest, path, tree.RestoreOptions{Local: local, Look: look})
	if err != nil {
		return err
	}
	defer r.Close()
	if lacks := r.Lacks(); len(lacks) > 0 {
		err = d.Fetch(lacks, func(c manifest.Chunk, packed []byte) error {
			received += int64(len(packed))
			return r.Put(c, packed)
		})
	}
	if err != nil {
		return err
	}
	err = r.Commit(ctx)
	if errors.As(err, new(*tree.Kept)) {
		g.changed, err = fail(exitConflict, "%w", err), nil
	}
	if err == nil {
		g.report(d.Version, received, "received", begin)
	}
	return err
}
