package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// RestoreOptions say how a save is restored.
type RestoreOptions struct {
	Local *Source // whose chunks need no fetching, most often a scan of the target; not used once NewRestore has returned; nil: none

	// Look, unless nil, is called with the target right before Commit replaces it, when all else is done: its error ends the commit. It is
	// called again with what was replaced, as somebody may have written to that in between: its error is a [*Kept].
	Look func(ctx context.Context, path string) error
}

// Restore is a save on its way to its place. What has arrived waits in a work folder beside the target, and goes on to
// wait there when the restore is closed, or the process killed. One goroutine at a time may use it.
type Restore struct {
	manifest *manifest.Manifest
	target   string // absolute, behind links
	work     *workFolder
	look     func(ctx context.Context, path string) error
	lacks    map[manifest.Digest][]place // where a chunk that is not there belongs
	buffer   []byte                      // of a chunk
	kept     error                       // what a commit before had replaced, a [*Kept], or nil
}

// place is where a chunk belongs.
type place struct {
	entry  int
	offset int64
}

// ErrBusy means that another process restores to the same place.
var ErrBusy = errors.New("another process restores there")

// NewRestore prepares to make target, which m describes: a manifest that keeps its rules. What stands there goes, once the
// save is there; the folder that the target is in must be there. It fails with [ErrNames] and [ErrBusy]. It looks at what an
// earlier restore of the same target has staged, and takes from options.Local what that has; the caller closes the restore.
func NewRestore(ctx context.Context, m *manifest.Manifest, target string, o RestoreOptions) (*Restore, error) {
	if o.Look == nil {
		o.Look = func(context.Context, string) error { return nil }
	}
	target, err := resolve(target)
	if err != nil {
		return nil, err
	}
	work, err := openWork(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	r := &Restore{m, target, work, o.Look, make(map[manifest.Digest][]place), make([]byte, manifest.MaxChunk), nil}
	if err := r.begin(ctx, o.Local); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// resolve follows links to what is there, or to the folder where it will be.
func resolve(target string) (string, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	if there, err := filepath.EvalSymlinks(target); err == nil {
		return there, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(target))
	return filepath.Join(dir, filepath.Base(target)), err
}

func (r *Restore) begin(ctx context.Context, local *Source) error {
	var err error
	if r.kept, err = r.work.recover(ctx, r.target, r.look); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		if err := checkNames(r.manifest); err != nil {
			return err
		}
	}
	kept, err := r.unseal()
	if err != nil {
		return err
	}
	for i := range r.manifest.Entries {
		if err := r.failed(i, r.stage(ctx, i, kept[r.staged(i)])); err != nil {
			return err
		}
	}
	return r.take(ctx, local)
}

// failed says which entry an error is about. Where something exists already, and nothing did by that name, the file system
// takes two names for one: for upper and lower case, or for two ways to write an ä.
func (r *Restore) failed(i int, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: another one is the same here", ErrNames)
	}
	return fmt.Errorf("file %s: %w", filepath.Join(r.target, filepath.FromSlash(r.manifest.Entries[i].Path)), reason(err))
}

// staged returns where an entry is staged, in the work folder.
func (r *Restore) staged(i int) string { return path.Join(workNew, r.manifest.Entries[i].Path) }

// unseal removes what is staged and does not belong there, and links, which come last, and makes the rest one's own to
// write, which an earlier commit may have given its modes. It returns what is kept.
func (r *Restore) unseal() (kept map[string]bool, err error) {
	kept, kinds := make(map[string]bool), make(map[string]manifest.Kind)
	for i := range r.manifest.Entries {
		kinds[r.staged(i)] = r.manifest.Entries[i].Kind
	}
	root := r.work.root
	return kept, fs.WalkDir(root.FS(), workNew, func(name string, d fs.DirEntry, err error) error {
		switch kind := kinds[name]; {
		case name == workNew && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("work folder %s: %w", r.work.path, err)
		case kind == manifest.Dir && d.IsDir():
			kept[name] = true
			return r.work.chmod(name, 0o700) // it is read after this
		case kind == manifest.File && d.Type() == 0:
			kept[name] = true
			return r.work.chmod(name, 0o600)
		case d.IsDir():
			return cmp.Or(r.work.remove(name), fs.SkipDir)
		}
		return root.Remove(name)
	})
}

// stage makes an entry as far as it is not there, and notes which of its chunks are lacking.
func (r *Restore) stage(ctx context.Context, i int, kept bool) error {
	e, at := &r.manifest.Entries[i], place{entry: i}
	flag := os.O_RDWR
	switch {
	case e.Kind == manifest.Link, e.Kind == manifest.Dir && kept:
		return nil
	case e.Kind == manifest.Dir:
		return r.work.root.Mkdir(r.staged(i), 0o700)
	case !kept:
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := r.work.root.OpenFile(r.staged(i), flag, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, c := range e.Chunks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data := r.buffer[:c.Size]
		if _, err := f.ReadAt(data, at.offset); err != nil || manifest.Sum(data) != c.Digest {
			r.lacks[c.Digest] = append(r.lacks[c.Digest], at)
		}
		at.offset += int64(c.Size)
	}
	return f.Truncate(e.Size)
}

// take takes from local what that has. What has changed there is fetched instead.
func (r *Restore) take(ctx context.Context, local *Source) error {
	if local == nil {
		return nil
	}
	for _, c := range local.Manifest.Chunks() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(r.lacks[c.Digest]) == 0 {
			continue
		}
		if data, err := local.Chunk(r.buffer, c); err == nil {
			if err := r.fill(c, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lacks returns which of the manifest's Chunks() are to be fetched, in order.
func (r *Restore) Lacks() (lacks []int) {
	for i, c := range r.manifest.Chunks() {
		if _, lacking := r.lacks[c.Digest]; lacking {
			lacks = append(lacks, i)
		}
	}
	return lacks
}

// Put writes a chunk, which packed holds as [manifest.Pack] packs it, wherever it belongs, and keeps nothing of packed. It
// fails with [manifest.ErrChunk] when that is not the chunk. A chunk that is there already is no error.
func (r *Restore) Put(c manifest.Chunk, packed []byte) error {
	data, err := manifest.Unpack(r.buffer, packed, c)
	if err != nil {
		return err
	}
	return r.fill(c, data)
}

// fill writes a chunk's bytes wherever they belong.
func (r *Restore) fill(c manifest.Chunk, data []byte) error {
	for _, at := range r.lacks[c.Digest] {
		f, err := r.work.root.OpenFile(r.staged(at.entry), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt(data, at.offset)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return r.failed(at.entry, err)
		}
	}
	delete(r.lacks, c.Digest)
	return nil
}

// Close ends the restore. What has arrived waits for the next one. It does nothing after a commit.
func (r *Restore) Close() error { return r.work.close() }
