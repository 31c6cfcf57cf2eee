package command

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// asProgram is the environment variable that makes the test's binary the program.
const asProgram = "SAVEGAME_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(Signals(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	signal.Stop(notified()) // the goroutine that takes signals stays, so it is none that a test leaves
	testkit.Main(m)
}

// notified returns a channel for hangups of this process. Until it is stopped, programs
// that are started here react to them, although nohup makes this process ignore them.
func notified() chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// output is what a program writes, to be read while it runs.
type output struct {
	mu    sync.Mutex
	cond  sync.Cond
	text  bytes.Buffer
	ended bool
}

func newOutput() *output {
	o := &output{}
	o.cond.L = &o.mu
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.cond.Broadcast()
	return o.text.Write(p)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.cond.Broadcast()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// line waits for a whole line that contains text, and returns it, or "" if the
// program ends without one.
func (o *output) line(text string) string { return append(o.lines(text, 1), "")[0] }

// lines waits for so many such lines.
func (o *output) lines(text string, n int) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; ; o.cond.Wait() {
		lines = nil
		for line := range strings.Lines(o.text.String()) {
			if strings.HasSuffix(line, "\n") && strings.Contains(line, text) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if len(lines) >= n || o.ended {
			return lines
		}
	}
}

// program is a command line that runs.
type program struct {
	stdout, stderr *output
	interrupt      func()
	wait           func() int // returns the exit code
}

func start(t *testing.T, stdin io.Reader, args ...string) *program {
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{stdout: newOutput(), stderr: newOutput(), interrupt: cancel}
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, args, stdin, p.stdout, p.stderr)
		p.stdout.end()
		p.stderr.end()
	}()
	p.wait = sync.OnceValue(func() int { return <-code })
	t.Cleanup(func() {
		cancel()
		p.wait()
		if t.Failed() {
			t.Logf("savegame %s:\n%s%s", strings.Join(args, " "), p.stdout, p.stderr)
		}
	})
	return p
}

// testServer is the program run as serve.
type testServer struct {
	*program
	t         *testing.T
	dir, addr string
	paste     []string // the arguments of the line that it printed
}

func startServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	return startServerIn(t, filepath.Join(t.TempDir(), "server"), "127.0.0.1:0", args...)
}

func startServerIn(t *testing.T, dir, addr string, args ...string) *testServer {
	t.Helper()
	s := &testServer{t: t, dir: dir}
	s.program = start(t, nil, append([]string{"serve", "--addr", addr, "--dir", dir}, args...)...)
	s.paste = pasted(t, s.stdout.line("savegame login"))
	s.addr = s.paste[1]
	return s
}

// pasted returns the arguments of a line as it was printed.
func pasted(t *testing.T, line string) []string {
	t.Helper()
	words := strings.Fields(line)
	require.Len(t, words, 4, "a line to paste")
	require.Equal(t, "savegame", words[0])
	return words[1:]
}

// stop ends the server, and returns its exit code.
func (s *testServer) stop() int {
	s.interrupt()
	return s.wait()
}

// A machine is a computer of a player, with a login of its own.
type machine struct {
	t         *testing.T
	home, dir string
}

// newMachine logs a new machine in by the arguments of a line to paste.
func newMachine(t *testing.T, paste []string) *machine {
	t.Helper()
	m := &machine{t, filepath.Join(t.TempDir(), "home"), t.TempDir()}
	require.Contains(t, m.ok(paste...), "logged in")
	return m
}

// another logs in one more machine of the same player.
func (m *machine) another() *machine {
	m.t.Helper()
	return newMachine(m.t, pasted(m.t, m.ok("invite")))
}

// shared returns two machines of a player that have the first version of world, which one has put.
func shared(t *testing.T) (one, two *machine) {
	t.Helper()
	one = newMachine(t, startServer(t).paste)
	two = one.another()
	one.ok("put", one.write("world", "1"))
	two.ok("get", "world", two.path("world"))
	return one, two
}

// loggedIn logs the machine in as a player's at a server that has never seen it.
func (m *machine) loggedIn(server, fingerprint string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(m.home, 0o700))
	require.NoError(m.t, writeJSON(filepath.Join(m.home, "profile.json"), profile{Server: server, Fingerprint: fingerprint, Token: "a token of nobody's"}))
}

// A result is what one run of the program has left.
type result struct {
	code           int
	stdout, stderr string
}

func (m *machine) args(args ...string) []string { return append(args, "--home", m.home) }

// run runs one command to its end.
func (m *machine) run(stdin string, args ...string) result {
	return runProgram(stdin, m.args(args...)...)
}

func runProgram(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Run(context.Background(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command that must succeed, and returns what it printed.
func (m *machine) ok(args ...string) string {
	m.t.Helper()
	r := m.run("", args...)
	require.Zero(m.t, r.code, r.stderr)
	return r.stdout
}

// fails runs a command that must fail with a code, and one line that says all of want.
func (m *machine) fails(code int, args []string, want ...string) {
	m.t.Helper()
	requireFailure(m.t, m.run("", args...), code, want...)
}

func requireFailure(t *testing.T, r result, code int, want ...string) {
	t.Helper()
	require.Equal(t, code, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "savegame: "), r.stderr)
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	for _, w := range want {
		require.Contains(t, lines[len(lines)-1], w)
	}
}

// path returns where something is on the machine.
func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// write makes a file on the machine, and returns its path.
func (m *machine) write(name, content string) string {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
	require.NoError(m.t, os.WriteFile(m.path(name), []byte(content), 0o600))
	return m.path(name)
}

// holds asserts what a file on the machine contains.
func (m *machine) holds(name, content string) {
	m.t.Helper()
	got, err := os.ReadFile(m.path(name))
	require.NoError(m.t, err)
	require.True(m.t, string(got) == content, "%s holds %d other bytes: %.20q", name, len(got), got)
}

// noise returns bytes that cannot be compressed.
func noise(size int, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}
