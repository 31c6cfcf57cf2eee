package manifest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream/cdc"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func chunk(size uint32) cdc.Chunk { return cdc.Chunk{Digest: cdc.Digest{byte(size), 1}, Size: size} }

func sample() *Manifest {
	return &Manifest{[]Entry{
		{Path: ".", Kind: Dir, Mode: 0o755, Time: 1},
		{Path: "a", Kind: Dir, Mode: 0o700, Time: -5},
		{Path: "a/empty", Kind: File, Mode: 0o600, Time: 1 << 60},
		{Path: "a/z", Kind: File, Mode: 0o644, Time: 7, Size: 30, Chunks: []cdc.Chunk{chunk(10), chunk(20)}},
		{Path: "a-b", Kind: Link, Target: "../elsewhere"},
		{Path: "ä b", Kind: File, Size: 10, Chunks: []cdc.Chunk{chunk(10)}},
	}}
}

func TestRoundTrip(t *testing.T) {
	for name, m := range map[string]*Manifest{
		"a tree":        sample(),
		"one file":      {[]Entry{{Path: ".", Kind: File, Mode: 0o644, Time: 3, Size: 1, Chunks: []cdc.Chunk{chunk(1)}}}},
		"one empty":     {[]Entry{{Path: ".", Kind: File}}},
		"an empty tree": {[]Entry{{Path: ".", Kind: Dir}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, m.Check(0))
			b := m.Append(nil)
			parsed, err := Parse(b, 0)
			require.NoError(t, err)
			require.Equal(t, m, parsed)
			for i := range b {
				_, err := Parse(b[:i], 0)
				require.ErrorIs(t, err, ErrManifest, "%d of %d bytes", i, len(b))
			}
			_, err = Parse(append(b, 0), 0)
			require.ErrorContains(t, err, "or is followed by other data")
		})
	}
}

func TestWhatAManifestHolds(t *testing.T) {
	m := sample()
	files, bytes := m.Count()
	require.Equal(t, 3, files)
	require.EqualValues(t, 40, bytes)
	require.Equal(t, []cdc.Chunk{chunk(10), chunk(20)}, m.Chunks())
	digest := m.Digest()
	m.Entries[3].Time++
	require.NotEqual(t, digest, m.Digest())
}

// Modes and times are not of the data, and all else is.
func TestData(t *testing.T) {
	data, touched := sample().Data(), sample()
	touched.Entries[2].Mode, touched.Entries[3].Time = 0o400, 8
	require.Equal(t, data, touched.Data())
	require.NotEqual(t, sample().Digest(), touched.Digest())
	require.Equal(t, os.FileMode(0o400), touched.Entries[2].Mode, "it stays as it is")
	for _, change := range []func(*Entry){
		func(e *Entry) { e.Path = "a/y" },
		func(e *Entry) { e.Chunks[0], e.Chunks[1] = e.Chunks[1], e.Chunks[0] },
		func(e *Entry) { e.Kind = Dir },
	} {
		m := sample()
		change(&m.Entries[3])
		require.NotEqual(t, data, m.Data())
	}
}

func TestNotOnWindows(t *testing.T) {
	for _, fine := range []string{"a", "a b", "comet", "LPT", "COM10", "nulls", "ä", ".dot"} {
		require.Empty(t, (&Manifest{[]Entry{{Path: Root, Kind: Dir}, {Path: "a/" + fine, Kind: File}}}).NotOnWindows(), fine)
	}
	for _, bad := range []string{"NUL", "aux.txt", "com1", "Lpt9 .x", "COM²", "conin$", "a:b", "a\\b", "what?", "a\x01", "end.", "end "} {
		require.Equal(t, []string{"a/" + bad}, (&Manifest{[]Entry{{Path: Root, Kind: Dir}, {Path: "a/" + bad, Kind: File}}}).NotOnWindows(), bad)
	}
}

// Fields that are not encoded, and that Check must ignore, once counted at the
// end that made the manifest, but not at the other end.
func TestFieldsOfOtherKindsDoNotCount(t *testing.T) {
	m := sample()
	m.Entries[1].Size, m.Entries[1].Chunks = 30, []cdc.Chunk{chunk(30)} // a folder
	m.Entries[4].Size, m.Entries[4].Chunks = 40, []cdc.Chunk{chunk(40)} // a link
	require.NoError(t, m.Check(0))
	parsed, err := Parse(m.Append(nil), 0)
	require.NoError(t, err)
	require.Equal(t, parsed.Chunks(), m.Chunks())
	files, bytes := parsed.Count()
	ourFiles, ourBytes := m.Count()
	require.Equal(t, []int64{int64(files), bytes}, []int64{int64(ourFiles), ourBytes})
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		change func(m *Manifest)
		want   string
	}{
		"empty":           {func(m *Manifest) { m.Entries = nil }, "first entry is not the root"},
		"no root":         {func(m *Manifest) { m.Entries = m.Entries[1:] }, "first entry is not the root"},
		"root a link":     {func(m *Manifest) { m.Entries[0] = Entry{Path: ".", Kind: Link, Target: "x"} }, "first entry is not the root"},
		"root twice":      {func(m *Manifest) { m.Entries[1] = m.Entries[0] }, "not a clean"},
		"root a file":     {func(m *Manifest) { m.Entries[0].Kind = File }, `entry 1, "a": parent "." is not a folder`},
		"up":              {func(m *Manifest) { m.Entries[5].Path = "../x" }, "not a clean"},
		"up inside":       {func(m *Manifest) { m.Entries[3].Path = "a/../x" }, "not a clean"},
		"absolute":        {func(m *Manifest) { m.Entries[5].Path = "/etc/passwd" }, "not a clean"},
		"empty element":   {func(m *Manifest) { m.Entries[3].Path = "a//z" }, "not a clean"},
		"no UTF-8":        {func(m *Manifest) { m.Entries[5].Path = "\xff" }, "not valid UTF-8"},
		"NUL":             {func(m *Manifest) { m.Entries[5].Path = "x\x00" }, "NUL"},
		"long":            {func(m *Manifest) { m.Entries[5].Path = strings.Repeat("x", MaxPath+1) }, "4097 bytes"},
		"twice":           {func(m *Manifest) { m.Entries[3].Path = "a/empty" }, "out of order after"},
		"unsorted":        {func(m *Manifest) { m.Entries[2], m.Entries[3] = m.Entries[3], m.Entries[2] }, "out of order after"},
		"no parent":       {func(m *Manifest) { m.Entries[4].Path = "b/c" }, `parent "b" is not a folder`},
		"in a file":       {func(m *Manifest) { m.Entries[3].Path = "a/empty/z" }, `parent "a/empty" is not a folder`},
		"in a link":       {func(m *Manifest) { m.Entries[5].Path = "a-b/c" }, `parent "a-b" is not a folder`},
		"setuid":          {func(m *Manifest) { m.Entries[2].Mode |= os.ModeSetuid }, "more than permission bits"},
		"unknown kind":    {func(m *Manifest) { m.Entries[2].Kind = 9 }, "unknown kind 9"},
		"link to nothing": {func(m *Manifest) { m.Entries[4].Target = "" }, "target of 0 bytes"},
		"target with NUL": {func(m *Manifest) { m.Entries[4].Target = "x\x00y" }, "target of 3 bytes"},
		"wrong size":      {func(m *Manifest) { m.Entries[5].Size = 11 }, "file has 11 bytes, but its chunks have 10"},
		"empty chunk":     {func(m *Manifest) { m.Entries[5].Chunks[0].Size = 0 }, "chunk has 0 bytes"},
		"two sizes":       {func(m *Manifest) { m.Entries[5].Chunks[0].Digest = chunk(20).Digest }, "has 20 bytes in one file and 10 in another"},
		"large chunk":     {func(m *Manifest) { m.Entries[5].Chunks[0].Size = cdc.MaxChunk + 1 }, "chunk has 524289 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := sample()
			test.change(m)
			err := m.Check(0)
			require.ErrorIs(t, err, ErrManifest)
			require.ErrorContains(t, err, test.want)
			_, err = Parse(m.Append(nil), 0)
			if name != "wrong size" { // the bytes do not have it
				require.ErrorIs(t, err, ErrManifest)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	require.ErrorContains(t, (&Manifest{Entries: make([]Entry, MaxEntries+1)}).Check(0), "the limit is 1048576")
	_, err := Parse(binary.AppendUvarint([]byte{wireVersion}, MaxEntries+1), 0)
	require.ErrorContains(t, err, "above the limit of 1048576")

	const tooLarge = "content exceeds the limit of 39 bytes"
	require.ErrorContains(t, sample().Check(39), tooLarge)
	m, err := Parse(sample().Append(nil), 39)
	require.ErrorContains(t, err, tooLarge)
	require.Nil(t, m, "what breaks a rule is of no use")
	_, err = Parse(sample().Append(nil), 40)
	require.NoError(t, err)
}

// A few bytes that announce a lot cost what a few bytes cost.
func TestParseAllocatesForWhatIsThere(t *testing.T) {
	many := func(n uint64) []byte { return binary.AppendUvarint([]byte{wireVersion}, n) }
	file := append(many(1), 1, '.', byte(File), 0, 0)
	for name, b := range map[string][]byte{
		"entries": many(MaxEntries),
		"chunks":  binary.AppendUvarint(file, 1<<24),
		"a path":  binary.AppendUvarint(many(1), MaxPath),
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, testkit.Allocated(func() {
				_, err := Parse(b, 0)
				require.ErrorIs(t, err, ErrManifest)
			}), uint64(64<<10))
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Append(nil))
	f.Add([]byte{wireVersion, 1, 1, '.', byte(File), 0, 0, 0})
	f.Add([]byte{wireVersion, 0x80, 0})
	f.Add([]byte{wireVersion, 2, 1, '.', byte(Dir), 0, 0, 2, '.', '.', byte(Link), 1, '/'})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b, 0)
		if err != nil {
			require.ErrorIs(t, err, ErrManifest)
			return
		}
		require.NoError(t, m.Check(0))
		require.True(t, bytes.Equal(b, m.Append(nil)))
	})
}

// Random changes of good bytes are refused or are another manifest's only bytes.
func TestParseOfDamaged(t *testing.T) {
	random := testkit.Rand(t)
	good := sample().Append(nil)
	for range 20_000 {
		b := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		if m, err := Parse(b, 0); err == nil {
			require.Equal(t, b, m.Append(nil))
		}
	}
}

// Each comparison cut both paths into their names, so that 32 MiB of paths of
// 2,000 names took 1.4 s to check and 500 MB of garbage, where other manifests
// of that size take a third of a second: a server checks one at a time.
func TestPathsAreComparedAsTheyStand(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	some := func() string {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = "a/-\x01\xff"[r.IntN(5)]
		}
		return string(b)
	}
	for range 100_000 {
		a, b := some(), some()
		require.Equal(t, slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")), comparePaths(a, b), "%q, %q", a, b)
	}
	a, b := strings.Repeat("a/", MaxPath/2-1)+"a", strings.Repeat("a/", MaxPath/2-1)+"b"
	require.Zero(t, testing.AllocsPerRun(10, func() { comparePaths(a, b) }))
}
