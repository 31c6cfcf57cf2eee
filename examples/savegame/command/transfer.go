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

// standard stands for standard input in a put and for standard output in a get.
const standard = "-"

// transferCommands declares the commands that transfer saves.
func transferCommands() []*cli.Command {
	put := client("put", "PATH…", "store a save as its next version", put,
		&cli.StringFlag{Name: "to", Usage: "`NAME` of the save (default: the last element of PATH)"},
		&cli.StringSliceFlag{Name: "exclude", Usage: "leave out what matches `PATTERN`, a name or a path below PATH; later puts of PATH do so too unless they have other patterns ('' for none)"},
		&cli.BoolFlag{Name: "force", Usage: "replace the newest version even if PATH did not hold it last"},
		&cli.BoolFlag{Name: "keep-both", Usage: "if PATH did not hold the newest version last, put it under another name"})
	put.Description = "PATH is a file or a folder; several become one save, under their own names. PATH - is standard input, which is first copied\nto a temporary file. " +
		"Files that were only touched make a version too, because a version keeps their times, but their content is not sent.\n" +
		"Files that cannot be read, or that a save cannot hold, such as pipes, are named and left out, as by restic. The exit code is then 10,\nunless --exclude leaves them out."
	get := client("get", "NAME[@VERSION] [PATH]", "fetch a save", get,
		&cli.BoolFlag{Name: "force", Usage: "replace PATH even if it has changes that no version has; they are lost"})
	get.Description = "PATH (default: NAME) is replaced in one step when everything has arrived, so it must not contain the current folder. A save of one file is\nwritten into PATH if that is a folder. Content that PATH already has is not sent. PATH - is standard output, for a save of one file."
	return []*cli.Command{put, get}
}

const (
	// maxScans is how often a put scans files that change between a scan and their transfer. A scan
	// keeps the content of recently written files in memory, up to heldBytes in all, so changes of
	// these need no other scan.
	maxScans  = 5
	heldBytes = 16 << 20
)

// A putting is a put from the command line.
type putting struct {
	*session
	paths   []string
	request versions.Request
	exclude []string     // patterns; never nil
	piped   bool         // the save is read from standard input
	last    sighting     // what the paths held last
	source  *tree.Source // nil until it is scanned
	scans   int
	spooled string // the temporary copy of standard input; "" = none
	left    int    // number of files left out although nobody excluded them: unreadable ones, and ones that no save can hold
}

// put sends a save to the server.
func put(ctx context.Context, s *session) (err error) {
	defer func() {
		switch {
		case errors.Is(err, tree.ErrChanged):
			err = fmt.Errorf("%w; leave out files that are always written to, such as logs, with --exclude", err)
		case errors.Is(err, tree.ErrNames):
			err = usage("%w", err)
		}
	}()
	p := &putting{session: s, paths: s.Args().Slice()}
	p.request.Machine = s.Machine
	p.kept = "; the server keeps what has arrived for a day: run the same command again to continue"
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

// choose determines the name of the save, and what to do on a conflict.
func (p *putting) choose() error {
	name := p.String("to")
	if p.piped = p.paths[0] == standard; p.piped {
		p.paths[0] = os.Stdin.Name() // the same in every folder
	}
	switch {
	case slices.Contains(p.paths, ""):
		return usage("PATH is empty: use . for the current folder")
	case p.piped && len(p.paths) > 1:
		return usage("standard input cannot be combined with another PATH")
	case p.piped && noInput(p.Reader):
		return usage("standard input is closed or %s, so there is nothing to put; to put an empty file, name it as PATH", os.DevNull)
	case name == "" && (len(p.paths) > 1 || p.piped):
		return usage("a save of several paths or of standard input needs a name: use --to NAME")
	case p.Bool("force") && p.Bool("keep-both"):
		return usage("--force and --keep-both exclude each other")
	case p.Bool("force"):
		p.request.Mode = versions.Force
	case p.Bool("keep-both"):
		p.request.Mode = versions.KeepBoth
	}
	if name == "" {
		path, _ := filepath.Abs(p.paths[0])
		name = filepath.Base(path) // empty if the current folder has been deleted
	}
	p.request.Name, p.what = name, "put "+name
	if err := users.CheckName(name); err != nil {
		return usage("%w: use --to NAME", err)
	}
	return nil
}

// noInput reports whether there is no standard input. If it is closed, Go opens the null device in
// its place.
func noInput(r io.Reader) bool {
	f, isFile := r.(*os.File)
	if !isFile {
		return false
	}
	null, _ := os.Stat(os.DevNull) // nil if there is no such device
	info, err := f.Stat()
	return err != nil || null != nil && os.SameFile(info, null)
}

// recall looks up what the paths held last, before they are read, and determines the patterns of
// files to leave out, which are those of the command line or, without any, those of the previous
// put.
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

// scan reads the files at the paths, and prints what the save will lack unless that is the same as
// in the previous scan.
func (p *putting) scan(ctx context.Context, paths []string) error {
	source, err := p.job.scan(ctx, paths, p.exclude...)
	if err != nil {
		return err
	}
	before := p.source
	p.source, p.scans = source, p.scans+1
	_ = before.Close() // it was only read
	if before != nil && slices.Equal(before.Notes, source.Notes) {
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

// scan reads the files at paths of this machine, of any size, because it is the server that limits
// sizes.
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
	go func() { // in a goroutine, because a read from a terminal can't be interrupted
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
	_ = os.Remove(p.spooled) // fails if there is none
}

// send puts the save over one connection.
func (p *putting) send(ctx context.Context, client *desk.Client) (err error) {
	if p.source == nil {
		if err := p.spool(ctx); err != nil {
			return err
		}
	}
	if p.piped && p.last.Data == p.source.Manifest.Data() {
		p.source.Manifest.Entries[0].Time = p.last.Time // not that of the temporary file
	}
	stored, err := client.Put(ctx, p.source, p.request)
	p.bytes += stored.Bytes
	if errors.Is(err, tree.ErrChanged) && p.scans < maxScans && !p.piped {
		if err = p.scan(ctx, p.paths); err == nil {
			return p.send(ctx, client)
		}
	}
	if errors.Is(err, manifest.ErrManifest) { // a scanned manifest can be wrong only by exceeding the server's limits
		return fail(exitFull, "%w (see serve --max-size)", err)
	}
	if errors.Is(err, versions.ErrConflict) {
		p.noteElsewhere()
		return fail(exitConflict, "%w; use --keep-both to keep both, or --force to make yours the newest; %s", err, shown(p.request.Name))
	}
	if err != nil {
		return err
	}
	p.noteDisplaced(stored.Displaced)
	p.reportPut(stored)
	if err := p.remember(stored.Version, p.source.Manifest, p.exclude, p.paths...); err != nil {
		return err
	}
	if p.left > 0 {
		return fail(exitPartly, "version %d lacks %s that could not be put; see above", stored.Version.Number, english.Plural(p.left, "file", ""))
	}
	return nil
}

// reportPut prints what the put did.
func (p *putting) reportPut(stored desk.Stored) {
	switch {
	case stored.Outcome == versions.Mended:
		p.say("put %s: version %d was damaged and is complete again, %s sent", p.request.Name, stored.Version.Number, versions.SizeText(p.bytes))
	case stored.Version.Ref() == p.request.Seen:
		p.say("put %s: version %d already has everything", p.request.Name, stored.Version.Number)
	default:
		p.report(stored.Version, "sent")
	}
	if stored.Outcome == versions.Undeleted {
		p.note("%s was in the trash; this version brings it back", p.request.Name)
	}
}

// noteElsewhere explains the refusal to a person who put or got the newest version at another place
// of this machine.
func (p *putting) noteElsewhere() {
	if last, err := p.seenLast(p.request.Name); err == nil && last.Number > p.request.Seen.Number {
		p.note("another place of this machine has seen version %d, but each place only counts the versions that it held itself", last.Number)
	}
}

// A getting is a get from the command line.
type getting struct {
	*session
	name   string
	number int    // 0 = the newest; set on the first connection, so that reconnecting gets the same version
	path   string // where the save is written; "" = the save's name
	prints bool   // write the content to standard output

	history func() ([]versions.Version, error) // returns the versions of the save, which it requests only once

	// changed is the error that tells what happened to changes made too late to prevent the
	// replacement, or nil.
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

// print fetches a file into a temporary folder, and writes only its content to standard output.
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
	_ = os.RemoveAll(dir) // now, because the process is killed if its reader exits; systems that keep open files need the deferred call
	_, err = io.Copy(out, f)
	return err
}

// parseSave returns the name and the number of NAME@NUMBER; the number is 0 if there is none.
func parseSave(text string) (name string, number int, err error) {
	name, version, numbered := strings.Cut(text, "@")
	if numbered {
		if number, err = strconv.Atoi(version); err != nil || number < 1 {
			return "", 0, usage("%q: a version must be a number of at least 1, as in %s@3 (see savegame history)", text, name)
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
		return usage("the save is a folder, which cannot be written to standard output: give a PATH")
	}
	path := g.target(d.Manifest)
	local, err := g.look(ctx, path, d.Manifest)
	if err != nil {
		return err
	}
	defer local.Close()
	if local != nil && local.Manifest.Digest() == d.Version.Content {
		g.say("get %s: version %d, %s already has it", g.name, g.number, path)
		// A get that was killed may have left the files that it replaced.
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

// target returns where the save is written. A file is written into the path if that is a folder or
// ends with a slash.
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

// look scans what is at the target, and returns nil if nothing is. It fails if replacing it would
// lose something, because no version that this machine has seen has it. A dangling link counts as
// something, because its target may be on a disk that isn't mounted now.
func (g *getting) look(ctx context.Context, path string, m *manifest.Manifest) (*tree.Source, error) {
	local, err := g.scan(ctx, []string{path})
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(path); gone == nil && !g.Bool("force") {
			return nil, fail(exitConflict, "%w: get into another PATH, or replace it with --force", err)
		}
		return nil, nil
	}
	if err != nil || g.Bool("force") {
		return local, err
	}
	known, err := g.knows(local, m)
	if err == nil && !known {
		err = fail(exitConflict, "%s has changes that no existing version has, or files that a put leaves out: "+
			"put it, get into another PATH, or discard them with --force", path)
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// knows reports whether a version has the local content. The version is m, or one that this machine
// has seen and that the server still has. Every version counts as having an empty folder, and none
// has files that can't be read or that no save can hold; those stay if everything else already
// equals m.
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

// follows reports whether the save still has the version that this machine has seen, or newer ones
// that followed it. It hasn't if the server was restored from an older backup, or if the save was
// erased and begun again.
func (g *getting) follows(seen versions.Ref) (bool, error) {
	all, err := g.history()
	at := slices.IndexFunc(all, func(v versions.Version) bool { return v.Number >= seen.Number })
	return at >= 0 && (all[at].Number > seen.Number || all[at].Ref() == seen), err
}

// restore writes the version to a path of this machine.
func (g *getting) restore(ctx context.Context, d *desk.Download, path string, local *tree.Source) (err error) {
	if local != nil && containsCurrent(path) {
		return usage("%s contains the current folder, which get would replace: run it in another folder, or get into another PATH", path)
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
				g.kept = "; what has arrived is kept beside PATH: run the same command again to continue"
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

// containsCurrent reports whether path is, or contains, the current folder.
func containsCurrent(path string) bool {
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

// lookAgain returns a function that checks a path as look does, because the game may have saved in
// the meantime.
func (g *getting) lookAgain(d *desk.Download) func(ctx context.Context, path string) error {
	return func(ctx context.Context, path string) error {
		again, err := g.look(ctx, path, d.Manifest)
		return errors.Join(err, again.Close())
	}
}

// noteKept stores a [*tree.KeptError] in changed, which is returned at the end, and returns other
// errors.
func (g *getting) noteKept(err error) error {
	if errors.As(err, new(*tree.KeptError)) {
		g.changed, err = fail(exitConflict, "%w", err), nil
	}
	return err
}
