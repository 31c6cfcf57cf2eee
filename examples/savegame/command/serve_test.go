package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// uploading starts a put of standard input, and returns once the server knows the client.
func (m *machine) uploading(name string, flags ...string) (p *program, stdin *io.PipeWriter) {
	m.t.Helper()
	in, out := io.Pipe()
	p = start(m.t, in, m.args(append([]string{"put", "-", "--to", name}, flags...)...)...)
	m.t.Cleanup(func() { _ = out.Close() })
	_, err := out.Write([]byte("begin ")) // is read when the connection is there
	require.NoError(m.t, err)
	return p, out
}

func TestPutGoesOnAtARestartedServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--drain", "1ms")
	m := newMachine(t, server.paste)
	content := noise(3<<20, 1)
	put := start(t, nil, m.args("put", m.write("world", content), "--bwlimit", "1MB")...)
	require.Eventually(t, func() bool { return len(chunksIn(t, server.dir)) > 4 }, time.Minute, time.Millisecond)
	require.Zero(t, server.stop())
	require.Contains(t, put.stderr.line("connection lost"), "trying again for ")
	had := len(chunksIn(t, server.dir))

	startServerIn(t, server.dir, server.addr)
	require.Zero(t, put.wait(), put.stderr)
	require.Contains(t, put.stdout.String(), "put world: version 1, 3.1 MB in 1 file, ")
	require.NotContains(t, put.stdout.String(), ", 3.1 MB sent", "%d chunks were there", had)
	m.ok("get", "world", m.path("copy"))
	m.holds("copy", content)
}

func TestDrain(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	put := start(t, nil, m.args("put", m.write("world", noise(1<<20, 1)), "--bwlimit", "1MB")...)
	require.Eventually(t, func() bool { return len(chunksIn(t, server.dir)) > 0 }, time.Minute, time.Millisecond)
	require.Zero(t, server.stop())
	require.Contains(t, server.stderr.String(), "stopping")
	require.Zero(t, put.wait(), put.stderr) // it was over before the server
	startServerIn(t, server.dir, server.addr)
	require.Regexp(t, `^world +1 `, m.ok("ls"))
}

// chunksIn returns the files of chunks in a server's folder.
func chunksIn(t *testing.T, dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, "chunks") && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil // what goes meanwhile
	})
	return paths
}

func TestInterruptedPut(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	put, _ := m.uploading("x")
	put.interrupt()
	require.Equal(t, exitInterrupted, put.wait())
	require.Contains(t, put.stderr.String(), "savegame: put x: interrupted; the server keeps what has arrived for a day: run the same command again to continue")
	require.Empty(t, m.ok("ls"))
}

func TestInterruptedScan(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received")) // as signal.NotifyContext says it
	var stderr bytes.Buffer
	require.Equal(t, exitInterrupted, Run(ctx, m.args("put", m.write("world", "1")), nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "put world: interrupted; the server keeps what has arrived")
}

// A get that fills the disk says what it leaves there.
func TestWhatIsKeptIsSaid(t *testing.T) {
	j := &job{what: "get x", kept: "; what has arrived waits"}
	err := j.ended(t.Context(), &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	require.EqualError(t, err, "get x: write x: no space left on device: make room there; what has arrived waits")
	require.Equal(t, exitFull, exitCode(err))
	require.NoError(t, j.ended(t.Context(), nil))
}

func TestRevokedTokenEndsAConnection(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--user", "ann")
	tokens := func(args ...string) result {
		return runProgram("", append(append([]string{"token"}, args...), "--dir", server.dir)...)
	}
	added := tokens("add", "ann")
	line := pasted(t, added.stdout)
	token, _, _ := strings.Cut(line[2], ".")
	other := newMachine(t, server.paste)
	m := newMachine(t, []string{"login", server.addr, line[2]})
	put, stdin := m.uploading("x", "--log", "info")
	require.Regexp(t, `^ann \S{4}… of no machine.*\nann `+token[:4]+`…\nann \S{4}… login of .+, \d{4}-\d\d-\d\d \d\d:\d\d\n$`, tokens("ls").stdout)
	require.Equal(t, "revoked 1 token of ann\n", tokens("revoke", "ann", token[:8]+"…").stdout, "as token ls shows it")
	require.NotEmpty(t, put.stderr.line("the token was revoked"), "the connection ends though nothing is asked")
	require.NoError(t, stdin.Close())
	require.Equal(t, exitDenied, put.wait())
	require.Contains(t, put.stderr.line("savegame: "), "does not accept the token")
	m.fails(exitDenied, []string{"ls"}, "does not accept the token", "log in again")
	other.ok("ls")
	requireFailure(t, tokens("revoke", "nobody"), exitUsage, "nobody")
	requireFailure(t, tokens("add", "../x"), exitUsage, "../x")
}

func TestLoginCodes(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--user", "ann", "--user", "bob")
	first := runProgram("", "token", "ls", "--dir", server.dir)
	require.Regexp(t, `^ann \S{4}… of no machine, but it makes ann a user\n$`, first.stdout, "nobody asked for another user")
	ann := newMachine(t, server.paste)
	stranger := &machine{t, filepath.Join(t.TempDir(), "home"), t.TempDir()}
	stranger.fails(exitDenied, server.paste, "login", "used, expired")
	stranger.fails(exitUsage, []string{"login", server.addr, "ABCD"}, `"ABCD"`, "paste the whole line")
	code, pin, _ := strings.Cut(server.paste[2], ".")
	stranger.fails(exitDenied, []string{"login", server.addr, code + "." + strings.Repeat("A", len(pin))}, server.addr, "different fingerprint")
	require.Equal(t, 2, strings.Count(server.stdout.String(), "savegame login"))

	t.Log("# users do not see each other's saves")
	lines := strings.Split(strings.TrimSpace(server.stdout.String()), "\n")
	bob := newMachine(t, pasted(t, lines[1]))
	ann.ok("put", ann.write("world", "Ann's"))
	require.Empty(t, bob.ok("ls"))
	bob.fails(exitMissing, []string{"get", "world", bob.path("world")}, "no such save")
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	m := &machine{t, filepath.Join(t.TempDir(), "home"), t.TempDir()}
	m.loggedIn("elsewhere:1", strings.Repeat("ab", 32))
	m.fails(exitUnreached, []string{"ls", "--server", silent.LocalAddr().String(), "--patience", "1ms"},
		"ls: server "+silent.LocalAddr().String()+": no answer", "--patience 1ms")
}

func TestQuota(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t, "--quota", "1MB", "--max-size", "2MB").paste)
	m.ok("put", m.write("small", noise(100_000, 1)))
	m.fails(exitFull, []string{"put", m.write("large", noise(1_500_000, 1))}, "put large", "quota", "1.0 MB")
	m.fails(exitFull, []string{"put", m.write("huge", noise(2_500_000, 1))}, "put huge", "--max-size")
	require.Regexp(t, `^small +1 [^\n]+\n$`, m.ok("ls"))
	m.ok("put", m.write("world", noise(300_000, 2)))
	m.ok("put", m.write("world", noise(300_000, 3)))
	r := m.run("", "put", "--quiet", m.write("world", noise(300_000, 4)))
	require.Zero(t, r.code)
	require.Equal(t, "deleted to make room: world@1\n", r.stderr)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	r := runProgram("", "serve", "--dir", server.dir, "--addr", "127.0.0.1:0")
	requireFailure(t, r, exitInUse, server.dir, "by another process: pid ")
	dir := filepath.Join(t.TempDir(), "new")
	requireFailure(t, runProgram("", "serve", "--dir", dir, "--addr", server.addr), exitFailed, "--addr")
	require.NoDirExists(t, dir, "a server that cannot begin leaves nothing behind")
	requireFailure(t, runProgram("", "serve", "--dir", dir, "--quota", "much"), exitUsage, "-quota", "much", "64MiB")
	requireFailure(t, runProgram("", "serve", "--dir", dir, "--keep", "0"), exitUsage, "-keep", "at least 1")
	requireFailure(t, runProgram("", "serve", "--dir", dir, "--drain", "-1s"), exitUsage, "-drain", "at least 0s")
	requireFailure(t, runProgram("", "ls", "--patience", "-1s"), exitUsage, "-patience", "at least 0s")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	m.ok("put", m.write("world", noise(100_000, 1)))
	check := func(flags ...string) result {
		return runProgram("", append([]string{"check", "--dir", server.dir}, flags...)...)
	}
	requireFailure(t, check(), exitInUse, server.dir)
	require.Zero(t, server.stop())
	r := check()
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `^sound: 1 version of 1 user, \d+ kB in \d+ objects\n$`, r.stdout)

	chunk := chunksIn(t, server.dir)[0]
	b, err := os.ReadFile(chunk)
	require.NoError(t, err)
	b[len(b)/2]++
	require.NoError(t, os.WriteFile(chunk, b, 0o600))
	r = check()
	require.Contains(t, r.stdout, "incomplete: world@1 of player")
	requireFailure(t, r, exitUnsound, server.dir, "--repair")
	r = check("--repair")
	require.Regexp(t, `(?m)^damaged: \S+: .*; deleted$`, r.stdout)
	requireFailure(t, r, exitUnsound, "put incomplete saves again")
	require.NotContains(t, r.stderr, "--repair")

	t.Log("# a put of the same content makes it whole")
	again := startServerIn(t, server.dir, server.addr)
	require.Regexp(t, `^put world: version 1 was damaged and is complete again, 100 kB sent\n`, m.ok("put", m.path("world")))
	require.Contains(t, m.ok("put", m.path("world")), "version 1 already has everything")
	require.Zero(t, again.stop())
	require.Zero(t, check().code)

	t.Log("# a damaged record has no time to show, and goes with a repair")
	require.NoError(t, os.WriteFile(filepath.Join(server.dir, "store/objects/users/_player/names/_world/00000001"), []byte("{}"), 0o600))
	again = startServerIn(t, server.dir, server.addr)
	require.Regexp(t, `^world +1 +damaged *\n$`, m.ok("history", "world"))
	require.Zero(t, again.stop())
	requireFailure(t, check(), exitUnsound, "--repair")
	require.Regexp(t, `(?m)^incomplete: world@1 of player: .*record; deleted$`, check("--repair").stdout)
	require.Zero(t, check().code)

	none := filepath.Join(t.TempDir(), "none")
	requireFailure(t, runProgram("", "check", "--dir", none), exitUsage, none+" is not the folder of a server", "--dir FOLDER")
	requireFailure(t, runProgram("", "check", "--dir", filepath.Dir(none)), exitUsage, "is not the folder of a server")
	requireFailure(t, runProgram("", "token", "add", "ann", "--dir", none), exitUsage, "token add ann: "+none+" is not the folder of a server", "--dir FOLDER")
	requireFailure(t, runProgram("", "token", "add", "ann", "--dir", filepath.Dir(none)), exitUsage, "is not the folder of a server")
	requireFailure(t, runProgram("", "token", "revoke", "ann", "--dir", none), exitUsage, "token revoke ann: "+none+" is not the folder of a server", "--dir FOLDER")
	requireFailure(t, runProgram("", "token", "ls", "--dir", none), exitUsage, "token ls: "+none+" is not the folder of a server", "--dir FOLDER")
	entries, err := os.ReadDir(filepath.Dir(none))
	require.NoError(t, err)
	require.Empty(t, entries, "nobody made a folder")
}

func TestReachable(t *testing.T) {
	at := func(text string) string {
		addr, err := net.ResolveUDPAddr("udp", text)
		require.NoError(t, err)
		return reachable(addr)
	}
	require.Equal(t, "192.0.2.1:7", at("192.0.2.1:7"))
	require.Equal(t, "127.0.0.1:7", at("127.0.0.1:7"))
	host, port, err := net.SplitHostPort(at("[::]:7"))
	require.NoError(t, err)
	require.Equal(t, "7", port)
	require.False(t, net.ParseIP(host).IsUnspecified())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var help output
	help.cond.L = &help.mu
	require.Zero(t, Run(context.Background(), nil, nil, &help, &help))
	require.Zero(t, Run(context.Background(), []string{"put", "--help"}, nil, &help, &help))
	require.Contains(t, help.String(), "--carrier CARRIER ")
	for _, line := range []string{"savegame serve ", "savegame login ", "savegame put ", "130 interrupted"} {
		require.Contains(t, help.String(), line)
	}
	require.Regexp(t, `^savegame version `, runProgram("", "--version").stdout)
	for line, want := range map[string]string{
		"frob":                  `unknown command "frob"`,
		"token frob":            `savegame token --help`,
		"put":                   "put expects PATH…",
		"ls x":                  "ls expects no arguments",
		"get a b c":             "savegame get --help",
		"ls --frob":             "not defined: -frob",
		"ls --quiet=x":          "-quiet",
		"serve --keep":          "needs an argument: -",
		"serve --addr nonsense": "missing port in address: choose another --addr",
	} {
		requireFailure(t, runProgram("", strings.Fields(line)...), exitUsage, want)
	}
}
