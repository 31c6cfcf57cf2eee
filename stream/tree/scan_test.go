package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == restoreCommand {
		restoreAndDie()
	}
	testkit.Main(m)
}

// write makes files below dir: of each path the content, a folder where the path ends
// with a slash, a link where the content begins with an arrow. All are a day old.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(p, 0o755))
		case isLink:
			require.NoError(t, os.Symlink(target, p))
		default:
			require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
			age(t, p)
		}
	}
}

func age(t testing.TB, p string) {
	t.Helper()
	day := time.Now().Add(-24 * time.Hour)
	require.NoError(t, os.Chtimes(p, day, day))
}

func scanned(t testing.TB, o ScanOptions, paths ...string) *Source {
	t.Helper()
	s, err := Scan(t.Context(), paths, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func pathsOf(s *Source) (paths []string) {
	for _, e := range s.Manifest.Entries {
		paths = append(paths, e.Path)
	}
	return paths
}

func noise(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], r.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

func TestScanFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"world/level.dat": "level", "world/empty": "", "a/": "", "a-b": "x", "link": "-> world/level.dat"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a-b"), 0o400))
	s := scanned(t, ScanOptions{}, dir)
	require.Equal(t, []string{".", "a", "a-b", "link", "world", "world/empty", "world/level.dat"}, pathsOf(s))
	require.Empty(t, s.Notes)

	info, err := os.Stat(filepath.Join(dir, "a-b"))
	require.NoError(t, err)
	c := cdc.Chunk{Digest: cdc.Sum([]byte("x")), Size: 1}
	require.Equal(t, manifest.Entry{Path: "a-b", Kind: manifest.File, Mode: 0o400, Time: info.ModTime().UnixNano(), Size: 1, Chunks: []cdc.Chunk{c}}, s.Manifest.Entries[2])
	require.Equal(t, manifest.Entry{Path: "link", Kind: manifest.Link, Target: "world/level.dat"}, s.Manifest.Entries[3])
	data, err := s.Chunk(nil, c)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	_, err = s.Chunk(nil, cdc.Chunk{Size: 1})
	require.Error(t, err)
}

// A file of the year 2300 was once restored with the year 1901, and one of
// 1601, where the times of NTFS begin, with 2185.
func TestTimesBeyondWhatAManifestHolds(t *testing.T) {
	for year, want := range map[int]int64{1601: math.MinInt64, 2300: math.MaxInt64} {
		require.Equal(t, want, nanoseconds(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)), year)
	}
	for _, at := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		require.Equal(t, at, nanoseconds(time.Unix(0, at)))
	}
}

func TestScanOfOneAndOfSeveral(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"b/in": "in", "a.sav": "a", "other/a.sav": "other", "way": "-> b"})
	at := func(name string) string { return filepath.Join(dir, name) }

	one := scanned(t, ScanOptions{}, at("a.sav"))
	require.Equal(t, []string{"."}, pathsOf(one))
	require.Equal(t, manifest.File, one.Manifest.Entries[0].Kind)

	several := scanned(t, ScanOptions{}, at("b"), at("a.sav"))
	require.Equal(t, []string{".", "a.sav", "b", "b/in"}, pathsOf(several))
	data, err := several.Chunk(nil, several.Manifest.Entries[3].Chunks[0])
	require.NoError(t, err)
	require.Equal(t, "in", string(data))

	linked := scanned(t, ScanOptions{}, at("way"))
	require.Equal(t, []string{".", "in"}, pathsOf(linked), "a path is followed")
	linked = scanned(t, ScanOptions{}, at("way"), at("a.sav"))
	require.Equal(t, []string{".", "a.sav", "way", "way/in"}, pathsOf(linked), "and keeps its name")

	for want, paths := range map[string][]string{
		"have one name":   {at("a.sav"), at("other/a.sav")},
		"no path to scan": nil,
		at("none"):        {at("none")},
	} {
		_, err := Scan(t.Context(), paths, ScanOptions{})
		require.ErrorContains(t, err, want)
	}
	_, err = Scan(t.Context(), []string{at("a.sav"), at("a.sav")}, ScanOptions{})
	require.ErrorIs(t, err, ErrNames)
	_, err = Scan(t.Context(), []string{dir}, ScanOptions{Exclude: []string{"[]a"}})
	require.ErrorContains(t, err, `exclude "[]a"`)
}

// What no manifest holds is refused as soon as there is too much of it, and the
// error says where, and what the limit is.
func TestScanOfTooMany(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "", "b": ""})
	source := &Source{Manifest: &manifest.Manifest{Entries: make([]manifest.Entry, manifest.MaxEntries-1)}, chunks: make(map[cdc.Digest]piece)}
	err := (&scan{ScanOptions{}, source, t.Context()}).run([]string{dir})
	require.NoError(t, source.Close())
	require.ErrorIs(t, err, manifest.ErrManifest)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "the limit is 1048576")
}

func TestExclude(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"logs/x": "", "keep/logs.txt": "", "keep/a.tmp": "", "b.tmp": "", "cache/sub/x": "", "cache/y": "", workPrefix + "0123456789abcdef/new/x": ""})
	s := scanned(t, ScanOptions{Exclude: []string{"*.tmp", "logs", "cache/sub"}}, dir)
	require.Equal(t, []string{".", "cache", "cache/y", "keep", "keep/logs.txt"}, pathsOf(s))
}

func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	p := filepath.Join(t.TempDir(), "save")
	random := testkit.Rand(t)
	change := func(times int) ScanOptions {
		return ScanOptions{Read: func(int) {
			if times--; times >= 0 {
				require.NoError(t, os.WriteFile(p, noise(random, 1<<20+random.IntN(1<<20)), 0o600))
				at := time.Now().Add(time.Duration(times+1) * time.Minute)
				require.NoError(t, os.Chtimes(p, at, at))
			}
		}}
	}
	require.NoError(t, os.WriteFile(p, noise(random, 1<<20), 0o600))
	s := scanned(t, change(2), p)
	content, err := os.ReadFile(p)
	require.NoError(t, err)
	require.Equal(t, content, read(t, s, 0), "it is read again until it stands still")

	_, err = Scan(t.Context(), []string{p}, change(1000))
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, p+": in each of 3 reads it changed")

	s = scanned(t, ScanOptions{}, p)
	require.NoError(t, os.WriteFile(p, []byte("short"), 0o600))
	_, err = s.Chunk(nil, s.Manifest.Chunks()[0])
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, p)
}

// read returns a file's content by its chunks.
func read(t testing.TB, s *Source, entry int) (content []byte) {
	for _, c := range s.Manifest.Entries[entry].Chunks {
		data, err := s.Chunk(nil, c)
		require.NoError(t, err)
		content = append(content, data...)
	}
	return content
}

// A game may remove what a scan is about to read: a file, and a folder too.
func TestWhatVanishesIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "stays", "b/x/y": "goes", "c": "goes"})
	s := scanned(t, ScanOptions{Read: func(int) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "c")))
	}}, dir)
	require.Equal(t, []string{".", "a"}, pathsOf(s))

	_, err := Scan(t.Context(), []string{dir, filepath.Join(dir, "a")}, ScanOptions{Read: func(int) {
		require.NoError(t, os.RemoveAll(dir))
	}})
	require.ErrorIs(t, err, fs.ErrNotExist, "but not what was asked for")
}

func TestReadTellsHowFarItIs(t *testing.T) {
	p := filepath.Join(t.TempDir(), "save")
	require.NoError(t, os.WriteFile(p, noise(testkit.Rand(t), 2<<20), 0o600))
	bytes := 0
	scanned(t, ScanOptions{Read: func(n int) { bytes += n }}, p)
	require.Equal(t, 2<<20, bytes)

	broken := errors.New("the line is down")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := Scan(ctx, []string{p}, ScanOptions{Read: func(int) { cancel(broken) }})
	require.ErrorIs(t, err, broken)
}

// Read was called on a goroutine of its own, where its panic ended the process.
func TestReadIsOnTheScansGoroutine(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"file": "x"})
	require.PanicsWithValue(t, "read fails", func() {
		_, _ = Scan(t.Context(), []string{dir}, ScanOptions{Read: func(int) { panic("read fails") }})
	})
}
