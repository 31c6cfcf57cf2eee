package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell's * made put store one file under the name of another.
func TestPutOfTwoFiles(t *testing.T) {
	s := startServer(t)
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("a.sav", []byte("a"), 0o600))
	require.NoError(t, os.WriteFile("b.sav", []byte("b"), 0o600))
	require.NoError(t, os.Symlink("nowhere", "c.sav"))
	s.fails([]string{"put", "a.sav", "b.sav"}, `"b.sav" is a file here too`, "once for each", `--name "b.sav"`)
	s.fails([]string{"put", "a.sav", "c.sav"}, `"c.sav" is a file here too`)
	s.fails([]string{"put", "a.sav", "b.sav", "c.sav"}, "one file", "3 names", "once for each")
	require.Empty(t, s.run("ls").stdout)

	s.run("put", "a.sav", "-name", "b.sav")
	s.run("get", "b.sav", "copy")
	requireContent(t, "copy", []byte("a"))
	require.Regexp(t, `^b.sav +1 `, s.run("ls").stdout)
}

func TestStandardInputAndOutput(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	content := string(generate(t, 300_000, 1))
	r := runWith(context.Background(), content, s.flags("put", "-", "x")...)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "put x: 293.0 KiB")

	r = s.run("get", "x", "-")
	require.True(t, r.stdout == content, "%d bytes came", len(r.stdout))
	require.Contains(t, r.stderr, "get x: 293.0 KiB")
	require.NoFileExists(t, "-")

	r = runWith(context.Background(), "", s.flags("put", "-", "empty")...)
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, s.run("get", "empty", "-").stdout)
	s.fails([]string{"get", "none", "-"}, "no such save", "begins anew")
}

func TestInterruptedStandardInput(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	in, out, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	stderr := newOutput()
	code := make(chan int)
	go func() { code <- run(ctx, s.flags("put", "-", "x"), in, stderr, stderr) }()
	_, err = out.WriteString("half")
	require.NoError(t, err)
	cancel(errInterrupted)
	require.Equal(t, exitInterrupted, <-code)
	require.NoError(t, out.Close())
	require.Empty(t, s.run("ls").stdout)
}

// A wrong token showed only after the file was hashed.
func TestPutAsksTheServerBeforeItReads(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.token = "wrong"
	in, _, err := os.Pipe() // a read would wait for ever
	require.NoError(t, err)
	stderr := newOutput()
	require.Equal(t, 1, run(context.Background(), s.flags("put", "-", "x"), in, stderr, stderr))
	require.Contains(t, stderr.text.String(), "does not accept the token")
	path := filepath.Join(t.TempDir(), "none")
	s.fails([]string{"put", path}, path)
}
