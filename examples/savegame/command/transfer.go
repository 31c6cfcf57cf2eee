package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/tree"
)

// standard is standard input to put and standard output to get.
const standard = "-"

// transferCommands declares the commands that transfer saves.
func transferCommands() []*cli.Command {
	put := client("put", "PATH…", "hand a save in, as its next version", put,
		&cli.StringFlag{Name: "to", Usage: "`NAME` of the save (default: the last element of PATH)"},
		&cli.StringSliceFlag{Name: "exclude", Usage: "leave out what `PATTERN` fits, a name or a path below PATH; the next puts of PATH do so too, until they say otherwise ('' for nothing)"},
		&cli.BoolFlag{Name: "force", Usage: "put it over a version that is not the one that PATH held last"},
		&cli.BoolFlag{Name: "keep-both", Usage: "put it beside a version that is not the one that PATH held last, under a name of its own"})
	put.Description = "PATH is a file or a folder; several become one save, under their own names. PATH - is standard input, which is kept in\na temporary file meanwhile. " +
		"Files that were only touched make a version too, as it keeps their times; their content does not travel.\n" +
		"What cannot be read is named and left out, as restic does, and so is what no save can hold, as a pipe: the exit code is 10 then, unless\n--exclude has it left out."
	get := client("get", "NAME[@VERSION] [PATH]", "fetch a save", get,
		&cli.BoolFlag{Name: "force", Usage: "replace a PATH with changes that no version has: they are lost"})
	get.Description = "PATH (default: NAME) is replaced in one step, once all is there, so it may not hold the current folder; a save of one file goes into a PATH that\nis a folder. What is at PATH already does not travel. PATH - is standard output, for a save of one file."
	return []*cli.Command{put, get}
}

const (
	// mostScans is how often a put scans what is written to between a scan and
	// the send. What a scan holds in memory needs no other scan: files that
	// were written to right before it, of at most heldBytes in all.
	mostScans = 5
	heldBytes = 16 << 20
)

// A putting is a put from the command line.
type putting struct {
	*session
	paths   []string
	request versions.Request
	exclude []string     // patterns; never nil
	piped   bool         // it is read from standard input
	last    sighting     // what the paths held last time
	source  *tree.Source // nil until it is scanned
	scans   int
	spooled string // the file that holds standard input; "" = none
	left    int    // how many things the save lacks that nobody excluded: no save can hold them, or they cannot be read
}

// put sends a save to the server.
func put(ctx context.Context, s *session) (err error) {
	defer func() {
		switch {
		case errors.Is(err, tree.ErrChanged):
			err = fmt.Errorf("%w; what is always written to, as a log, --exclude leaves out", err)
		case errors.Is(err, tree.ErrNames):
			err = usage("%w", err)
		}
	}()
	p := &putting{session: s, paths: s.Args().Slice()}
	p.request.Machine = s.Machine
	p.kept = "; what has arrived stays at the server for a day: run the same command again to go on"
	if err := p.choose(); err != nil {
		return err
	}
	defer p.close()
	if err := p.recall(); err != nil {
		return err
	}
	if !p.piped { // standard input is read once the server is connected
		if err := p.scan(ctx, p.paths); err != nil {
			return err
		}
	}
	return p.reach(ctx, p.send)
}

// choose determines the save's name, and what happens on a conflict.
func (p *putting) choose() error {
	name := p.String("to")
	if p.piped = p.paths[0] == standard; p.piped {
		p.paths[0] = os.Stdin.Name() // the same in every folder
	}
	switch {
	case slices.Contains(p.paths, ""):
		return usage("an empty PATH, which would be this folder: say . for that")
	case p.piped && len(p.paths) > 1:
		return usage("standard input is a save of its own, and no PATH can be beside it")
	case p.piped && noInput(p.Reader):
		return usage("standard input is closed or %s: nothing to put; a save of an empty file can be put from a file", os.DevNull)
	case name == "" && (len(p.paths) > 1 || p.piped):
		return usage("several paths, or standard input, need a name for the save: --to NAME")
	case p.Bool("force") && p.Bool("keep-both"):
		return usage("it cannot be both, --force and --keep-both")
	case p.Bool("force"):
		p.request.Mode = versions.Force
	case p.Bool("keep-both"):
		p.request.Mode = versions.KeepBoth
	}
	if name == "" {
		path, _ := filepath.Abs(p.paths[0])
		name = filepath.Base(path) // no name if this folder is gone
	}
	p.request.Name, p.what = name, "put "+name
	if err := users.CheckName(name); err != nil {
		return usage("%w; say --to NAME", err)
	}
	return nil
}

// noInput reports whether there is no standard input: if it is closed, Go opens
// the null device in its place.
func noInput(r io.Reader) bool {
	f, is := r.(*os.File)
	if !is {
		return false
	}
	null, _ := os.Stat(os.DevNull) // if there is none nothing is the same
	has, err := f.Stat()
	return err != nil || null != nil && os.SameFile(has, null)
}

// recall looks up what the paths held last, before they are read, and decides
// what to leave out: what the command line says, or else what it said last.
func (p *putting) recall() (err error) {
	sightings, err := p.seen()
	p.last = sightings[p.key(p.request.Name, p.paths...)]
	p.request.Seen = p.last.Ref
	p.exclude = append([]string{}, p.last.Exclude...)
	if p.IsSet("exclude") {
		p.exclude = slices.DeleteFunc(p.StringSlice("exclude"), func(pattern string) bool { return pattern == "" })
	} else if len(p.exclude) > 0 {
		p.note("leaving out, as before: %s", strings.Join(p.exclude, ", "))
	}
	return err
}

// scan reads what is at the paths, and prints what the save will lack, unless
// it has printed that before.
func (p *putting) scan(ctx context.Context, paths []string) error {
	source, err := p.job.scan(ctx, paths, p.exclude...)
	if err != nil {
		return err
	}
	before := p.source
	p.source, p.scans = source, p.scans+1
	if before.Close(); before != nil && slices.Equal(before.Notes, source.Notes) {
		return nil
	}
	p.left = 0
	for _, n := range source.Notes {
		if n.LeftOut {
			p.left++
			fmt.Fprintf(p.ErrWriter, "left out: %s\n", plain(n.String()))
		} else {
			p.note("%v", n)
		}
	}
	return nil
}

// scan reads what is at paths of this machine, however large it is: the server
// decides what it accepts.
func (j *job) scan(ctx context.Context, paths []string, exclude ...string) (*tree.Source, error) {
	read, stop := j.show("reading "+paths[0], -1)
	defer stop()
	return tree.Scan(ctx, paths, tree.ScanOptions{Exclude: exclude, Read: read, Hold: heldBytes, SkipUnreadable: true})
}

// spool copies standard input to a temporary file, and scans that.
func (p *putting) spool(ctx context.Context) error {
	f, err := os.CreateTemp("", "savegame-*")
	if err != nil {
		return err
	}
	p.spooled = f.Name()
	copied := make(chan error, 1)
	go func() { // a read from a terminal cannot be interrupted
		_, err := io.Copy(f, p.Reader)
		copied <- errors.Join(err, f.Close())
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return p.scan(ctx, []string{p.spooled})
}

// close closes the source, and removes the temporary file.
func (p *putting) close() {
	_ = p.source.Close()     // it was only read
	_ = os.Remove(p.spooled) // "" = there is none
}

// send puts the save over one connection.
func (p *putting) send(ctx context.Context, client *desk.Client) (err error) {
	if p.source == nil {
		if err := p.spool(ctx); err != nil {
			return err
		}
	}
	if p.piped && p.last.Data == p.source.Manifest.Data() {
		p.source.Manifest.Entries[0].Time = p.last.Time // the temporary file's time means nothing
	}
	stored, err := client.Put(ctx, p.source, p.request)
	p.bytes += stored.Bytes
	if errors.Is(err, tree.ErrChanged) && p.scans < mostScans && !p.piped {
		if err = p.scan(ctx, p.paths); err == nil {
			return p.send(ctx, client)
		}
	}
	if errors.Is(err, manifest.ErrManifest) { // a scan makes only manifests that are right, except for the server's limits
		return fail(exitFull, "%w, which serve --max-size sets", err)
	}
	if errors.Is(err, versions.ErrConflict) {
		p.noteElsewhere()
		return fail(exitConflict, "%w; --keep-both keeps yours beside it, --force makes yours the newest, and %s", err, shown(p.request.Name))
	}
	if err != nil {
		return err
	}
	p.noteDisplaced(stored.Displaced)
	p.said(stored)
	if err := p.remember(stored.Version, p.source.Manifest, p.exclude, p.paths...); err != nil {
		return err
	}
	if p.left > 0 {
		return fail(exitPartly, "version %d is without %s, as said above", stored.Version.Number, english.Plural(p.left, "thing", ""))
	}
	return nil
}

// said prints what the put did.
func (p *putting) said(stored desk.Stored) {
	switch {
	case stored.Outcome == versions.Mended:
		p.say("put %s: version %d was damaged, and has all of it again, %s sent", p.request.Name, stored.Version.Number, versions.SizeText(p.bytes))
	case stored.Version.Ref() == p.request.Seen:
		p.say("put %s: version %d has all of it already", p.request.Name, stored.Version.Number)
	default:
		p.report(stored.Version, "sent")
	}
	if stored.Outcome == versions.Undeleted {
		p.note("%s was in the trash; this version brings it back", p.request.Name)
	}
}

// noteElsewhere explains the refusal if a person has put or got a version at
// one place, and is refused at another.
func (p *putting) noteElsewhere() {
	if last, err := p.seenLast(p.request.Name); err == nil && last.Number > p.request.Seen.Number {
		p.note("version %d is known at another place of this machine; each place has seen what it held itself", last.Number)
	}
}

// A getting is a get from the command line.
type getting struct {
	*session
	name   string
	number int    // 0 = the newest; once it is known it stays the same over all connections
	path   string // where it is written; "" = the save's name
	prints bool   // its content is written to standard output

	history func() ([]versions.Version, error) // the versions of the save, requested once

	// An error that says what happened to changes that were made too late to
	// keep the save from its place; nil = there were none.
	changed error
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
	return g.reach(ctx, g.fetch)
}

// print fetches a file by way of a temporary folder, and writes nothing but its
// content to standard output.
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
	_ = os.RemoveAll(dir) // now, because the system kills this process if its reader exits; where open files stay, it is removed at the end
	_, err = io.Copy(out, f)
	return err
}

// parseSave returns the name and the number of NAME@NUMBER; the number is 0 if there is none.
func parseSave(text string) (name string, number int, err error) {
	name, version, numbered := strings.Cut(text, "@")
	if numbered {
		if number, err = strconv.Atoi(version); err != nil || number < 1 {
			return "", 0, usage("%q: a version is a number from 1 on, as in %s@3 (see savegame history)", text, name)
		}
	}
	return name, number, users.CheckName(name)
}

// fetch gets the save over one connection.
func (g *getting) fetch(ctx context.Context, client *desk.Client) error {
	g.history = sync.OnceValues(func() ([]versions.Version, error) { return client.History(ctx, g.name) })
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
		// A get that was killed may have left what it replaced, which later versions make obsolete.
		err = g.noteKept(tree.Tidy(ctx, path, g.lookAgain(d)))
	} else {
		err = g.restore(ctx, d, path, local)
	}
	if err != nil {
		return err
	}
	if g.prints {
		path = os.Stdout.Name()
	}
	return cmp.Or(g.remember(d.Version, d.Manifest, nil, path), g.changed)
}

// target returns where the save is written. A file is written into a folder if
// there is one, or if a slash at the end says so.
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

// look scans what is at the target, and returns nil if nothing is there. It fails if that
// would be lost, because no version that this machine has seen has it. A link that leads
// nowhere counts as something: what it led to may be on a disk that is not mounted now.
func (g *getting) look(ctx context.Context, path string, m *manifest.Manifest) (*tree.Source, error) {
	local, err := g.scan(ctx, []string{path})
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(path); gone == nil && !g.Bool("force") {
			return nil, fail(exitConflict, "%w; get into another PATH, or have the save take its place with --force", err)
		}
		return nil, nil
	}
	if err != nil || g.Bool("force") {
		return local, err
	}
	known, err := g.knows(local, m)
	if err == nil && !known {
		err = fail(exitConflict, "%s has changes that no version has, or none any more, or things that a put leaves out: "+
			"put it, get into another PATH, or lose them with --force", path)
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// knows reports whether a version has what is local: m, or a version that this machine has
// seen, unless the server has lost that. An empty folder is in all of them. Things that no save
// can hold, or that cannot be read, are in none; they stay if the rest is equal to m already.
func (g *getting) knows(local *tree.Source, m *manifest.Manifest) (bool, error) {
	entries, data := local.Manifest.Entries, local.Manifest.Data()
	if slices.ContainsFunc(local.Notes, func(n tree.Note) bool { return n.LeftOut }) {
		return local.Manifest.Digest() == m.Digest(), nil
	}
	if len(entries) == 1 && entries[0].Kind == manifest.Dir {
		return true, nil
	}
	sightings, err := g.seen()
	held := data == m.Data()
	for key, s := range sightings {
		if held || err != nil || s.Data != data {
			continue
		}
		if held = true; strings.HasPrefix(key, g.key(g.name)) {
			held, err = g.follows(s.Ref)
		}
	}
	return held, err
}

// follows reports whether the save's versions are those that this machine has
// seen, and later ones. They are not if the server has an older state of them,
// from a backup, or if the save was begun again.
func (g *getting) follows(seen versions.Ref) (bool, error) {
	all, err := g.history()
	at := slices.IndexFunc(all, func(v versions.Version) bool { return v.Number >= seen.Number })
	return at >= 0 && (all[at].Number > seen.Number || all[at].Ref() == seen), err
}

// restore makes a path of this machine hold the version.
func (g *getting) restore(ctx context.Context, d *desk.Download, path string, local *tree.Source) (err error) {
	if local != nil && holdsUs(path) {
		return usage("%s holds the folder that this is run in, which a get would replace under it: run it elsewhere, or get into another PATH", path)
	}
	r, err := tree.NewRestore(ctx, d.Manifest, path, tree.RestoreOptions{Local: local, MayReplace: g.lookAgain(d)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.noteKept(r.Close())) }()
	if lacks := r.Lacks(); len(lacks) > 0 {
		err = d.Fetch(lacks, func(c cdc.Chunk, packed []byte) error {
			g.bytes += int64(len(packed))
			if !g.prints {
				g.kept = "; what has arrived waits beside the place: run the same command again to go on"
			}
			return r.Put(c, packed)
		})
	}
	if err != nil {
		return err
	}
	if err = g.noteKept(r.Commit(ctx)); err == nil {
		g.report(d.Version, "received")
	}
	return err
}

// holdsUs reports whether the current folder is path, or is in it.
func holdsUs(path string) bool {
	replaced, err := os.Stat(path)
	here, _ := os.Getwd() // "" is in no folder
	here, _ = filepath.EvalSymlinks(here)
	for last := ""; err == nil && here != last; here, last = filepath.Dir(here), here {
		if info, err := os.Stat(here); err == nil && os.SameFile(info, replaced) {
			return true
		}
	}
	return false
}

// lookAgain returns a function that looks at a path as look does, because the
// game may have saved meanwhile.
func (g *getting) lookAgain(d *desk.Download) func(ctx context.Context, path string) error {
	return func(ctx context.Context, path string) error {
		again, err := g.look(ctx, path, d.Manifest)
		return errors.Join(err, again.Close())
	}
}

// noteKept keeps a [*tree.KeptError] for the end of the command, and returns other errors.
func (g *getting) noteKept(err error) error {
	if errors.As(err, new(*tree.KeptError)) {
		g.changed, err = fail(exitConflict, "%w", err), nil
	}
	return err
}
