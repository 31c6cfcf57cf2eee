package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpAndDown(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 3<<20+17)

	require.Contains(t, s.run("put", path).stdout, "put world.sav: 3.0 MiB in ")
	require.Contains(t, s.run("put", path).stdout, "the server had it already")
	require.Contains(t, s.run("put", path, "Other one").stdout, "the server had it already")
	require.Regexp(t, `(?m)^Other one +3145745 .*\nworld.sav +3145745 `, s.run("ls").stdout)

	copied := filepath.Join(t.TempDir(), "copy.sav")
	require.Contains(t, s.run("get", "Other one", copied).stdout, "get Other one: 3.0 MiB in ")
	requireContent(t, copied, content)
	require.Contains(t, s.run("get", "world.sav", copied).stdout, "has it already")

	require.Equal(t, "removed world.sav\n", s.run("rm", "world.sav").stdout)
	require.NotContains(t, s.run("ls").stdout, "world.sav")
	require.Zero(t, s.stop())
}

func TestEmptySave(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, 0)
	s.run("put", path)
	copied := filepath.Join(t.TempDir(), "copy.sav")
	s.run("get", "world.sav", copied)
	requireContent(t, copied, nil)
}

func TestPutReplaces(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first, _ := newFile(t, 10_000)
	second, content := newFile(t, 20_000)
	s.run("put", first, "x")
	s.run("put", second, "x")
	copied := filepath.Join(t.TempDir(), "copy.sav")
	s.run("get", "x", copied)
	requireContent(t, copied, content)
}

func TestPutAndGetBySlices(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 300_000)
	s.run("put", "-backend", "slices", path, "x")
	copied := filepath.Join(t.TempDir(), "copy.sav")
	s.run("get", "-backend", "slices", "x", copied)
	requireContent(t, copied, content)
	s.run("put", "-carrier", "quic", path, "y")
	s.run("get", "--carrier", "quic", "-backend", "slices", "y", copied)
	requireContent(t, copied, content)
	s.fails([]string{"get", "-backend", "frob", "x"}, "frob")
	s.fails([]string{"get", "-carrier", "pigeon", "x"}, "pigeon")
}

func TestGetIntoAFolder(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 5000)
	s.run("put", path)
	dir := t.TempDir()
	s.run("get", "world.sav", dir)
	requireContent(t, filepath.Join(dir, "world.sav"), content)
}

func TestTokensHaveSavesOfTheirOwn(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("alpha-0123456789\nbeta-0123456789ab\n"), 0o600))
	s := startServer(t, "-token-file", tokens)
	path, _ := newFile(t, 1000)

	s.token = "alpha-0123456789"
	s.run("put", path)
	s.token = "beta-0123456789ab"
	require.Empty(t, s.run("ls").stdout)
	s.fails([]string{"get", "world.sav", filepath.Join(t.TempDir(), "x")}, "world.sav", "no such save")

	require.NoError(t, os.WriteFile(tokens, []byte("gamma-0123456789"), 0o600))
	s.fails([]string{"ls"}, s.addr, "does not accept the token")
	s.token = "gamma-0123456789"
	s.run("ls")

	t.Log("# without its token file the server lets nobody in, and does not tell where the file was")
	require.NoError(t, os.Remove(tokens))
	s.fails([]string{"ls"}, "can not check tokens")
	require.NotContains(t, runProgram(context.Background(), s.flags("ls")...).stderr, tokens)
}

func TestTokenFromFileAndEnvironment(t *testing.T) {
	s := startServer(t)
	r := runProgram(t.Context(), "ls", "-server", s.addr, "-fingerprint", s.fingerprint, "-token-file", filepath.Join(s.dir, "tokens.txt"))
	require.Zero(t, r.code, r.stderr)
	t.Setenv(tokenVariable, s.token)
	t.Setenv("QUIVER_FINGERPRINT", s.fingerprint)
	t.Setenv("QUIVER_SERVER", s.addr)
	r = runProgram(t.Context(), "ls")
	require.Zero(t, r.code, r.stderr)
}

func TestCertificateOutlivesTheServer(t *testing.T) {
	t.Parallel()
	first := startServer(t)
	require.Regexp(t, "^[0-9a-f]{64}$", first.fingerprint)
	path, content := newFile(t, 1000)
	first.run("put", path)
	require.Zero(t, first.stop())

	second := startServerIn(t, first.dir)
	require.Equal(t, first.fingerprint, second.fingerprint)
	require.Equal(t, first.token, second.token)
	copied := filepath.Join(t.TempDir(), "copy")
	second.run("get", "world.sav", copied)
	requireContent(t, copied, content)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := startServer(t, "-max-size", "64KiB", "-quota", "96KiB")
	path, _ := newFile(t, 60_000)
	large, _ := newFile(t, 64<<10+1)
	missing := filepath.Join(t.TempDir(), "none.sav")
	file := filepath.Join(path, "below")

	s.fails([]string{"put", missing}, missing, "no such file")
	s.fails([]string{"put", t.TempDir(), "x"}, "it is a folder, not a regular file")
	s.fails([]string{"put", "."}, "file .: it is a folder")
	for _, bad := range []string{"../x", "", "a/b", strings.Repeat("x", 101)} {
		s.fails([]string{"put", path, bad}, "bad name")
		s.fails([]string{"get", bad, missing}, "bad name")
		s.fails([]string{"rm", bad}, "bad name")
	}
	s.fails([]string{"put", large, "large"}, "put large", "65537 bytes", "65536")
	s.run("put", path, "first")
	more, _ := newFile(t, 50_000)
	s.fails([]string{"put", more, "second"}, "put second", "quota", "98304")
	s.fails([]string{"get", "none", missing}, "get none", "no such save")
	s.fails([]string{"rm", "none"}, "rm none", "no such save")
	s.fails([]string{"get", "first", file}, path, "can not be written")
	require.NoFileExists(t, missing)
	require.Regexp(t, `^first +60000 [^\n]*\n$`, s.run("ls").stdout)
}

func TestWrongServer(t *testing.T) {
	s := startServer(t)
	right := s.fingerprint
	s.fingerprint = strings.Repeat("0", 64)
	s.fails([]string{"ls"}, s.addr, "wrong fingerprint", right)
	s.fingerprint = "abc"
	s.fails([]string{"ls"}, "abc", "64 hex digits")
	s.fingerprint = ""
	s.fails([]string{"ls"}, "no fingerprint", "$"+fingerprintVariable)
	s.fingerprint, s.token = right, "wrong"
	s.fails([]string{"ls"}, s.addr, "token")
	t.Setenv(tokenVariable, "")
	s.token = ""
	s.fails([]string{"ls"}, "no token", tokenVariable)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	file, _ := newFile(t, 10)
	ctx := context.Background()
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", filepath.Join(file, "x")), file)
	dir := t.TempDir()
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", dir, "-token-file", filepath.Join(dir, "none")), filepath.Join(dir, "none"))
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", dir, "-max-size", "lots"), "lots")
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", dir, "-quota", "-1"), "-1")
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", dir, "-log", "loud"), "loud")
	s := startServer(t)
	fresh := filepath.Join(t.TempDir(), "fresh")
	requireFailure(t, runProgram(ctx, "serve", "-dir", fresh, "-addr", s.addr), s.addr, "in use")
	require.NoDirExists(t, fresh, "nothing is made for a server that does not begin")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "certificate.pem"), []byte("damaged"), 0o600))
	requireFailure(t, runProgram(ctx, "serve", "-addr", "127.0.0.1:0", "-dir", dir), "certificate.pem")
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"frob", "frob"},
		{"demo x", `"x"`},
		{"demo -size none", "none"},
		{"demo -loss 100%", "100%"},
		{"demo -rtt -5ms", "-5ms"},
		{"demo -backend frob", "frob"},
		{"demo -lanes 33", "33"},
		{"demo -bogus", "--bogus"},
		{"demo --bogus", "--bogus"},
		{"put -token", "--token"},
		{"demo -lanes x", "--lanes"},
		{"put", "FILE"},
		{"put a b c", "one file"},
		{"put a main.go", `--name "main.go"`},
		{"put -name x a b", "one file"},
		{"put -", "NAME"},
		{"get", "NAME"},
		{"rm", "NAME"},
		{"ls x", `"x"`},
	} {
		requireFailure(t, runProgram(context.Background(), strings.Fields(c.args)...), c.want)
	}
}
