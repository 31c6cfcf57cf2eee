//go:build unix

package command

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/stream/cdc"
)

var rounds = flag.Int("savegame.rounds", 4, "how often TestKilled kills processes")

// aloneEach is in which rounds clients must find a killed server again
// themselves, after their idle timeout.
const aloneEach = 8

// keep is how many versions of each save the killed server keeps: so few that
// puts delete old ones as well.
const keep = 3

// A process is the program as a process of its own.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	ended          chan struct{}
}

func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	p := &process{exec.Command(program, args...), newOutput(), newOutput(), make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // code says how it ended
		p.stdout.end()
		p.stderr.end()
		close(p.ended)
	}()
	t.Cleanup(func() { p.kill() })
	return p
}

// kill ends the process as the system does if it has no memory, if it has not ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// code waits for the end, and returns the exit code, or -1 for a process that was killed.
func (p *process) code() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// A snapshot is what a folder holds: the digest of each file.
type snapshot map[string]cdc.Digest

func snapshotOf(t *testing.T, dir string) snapshot {
	t.Helper()
	s := make(snapshot)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		s[strings.TrimPrefix(path, dir)] = cdc.Sum(b)
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return s
}

// A siege is a server and its players, whose processes are killed.
type siege struct {
	t         *testing.T
	r         *rand.Rand
	dir, addr string
	server    *process
	players   []*player
	kills     map[string]int
}

// A player is a user with a machine that puts, one that gets, and one that verifies.
type player struct {
	*siege
	putting, getting, verifying *machine

	saves map[string][]snapshot // by name: what each version must hold, the first one in [0]
}

func newSiege(t *testing.T) *siege {
	s := &siege{t: t, r: testkit.Rand(t), dir: filepath.Join(t.TempDir(), "server"), addr: "127.0.0.1:0", kills: make(map[string]int)}
	paste := s.serve("ann", "bob")
	for _, line := range paste {
		p := &player{siege: s, saves: map[string][]snapshot{"world": nil, "village": nil}}
		p.putting = newMachine(t, line)
		p.getting, p.verifying = p.putting.another(), p.putting.another()
		s.players = append(s.players, p)
	}
	return s
}

// serve starts the server, and returns what it printed to paste, for each user.
func (s *siege) serve(users ...string) (paste [][]string) {
	args := []string{"serve", "--addr", s.addr, "--dir", s.dir, "--keep", fmt.Sprint(keep), "--keep-for", "1ns", "--drain", "1s", "--log", "warn"}
	for _, user := range users {
		args = append(args, "--user", user)
	}
	s.server = spawn(s.t, args...)
	lines := s.server.stdout.lines("savegame login", max(1, len(users)))
	require.NotEmpty(s.t, lines, "the server ended: %s", s.server.stderr)
	for _, line := range lines {
		paste = append(paste, pasted(s.t, line))
	}
	s.addr = paste[0][1]
	return paste
}

// An attempt is a put or a get that is made until it succeeds.
type attempt struct {
	*player
	name string
	args []string
	now  *process
	want snapshot // what the save, or the target, holds afterwards
	held snapshot // what the target of a get held before
}

// errand begins a put or a get at random.
func (p *player) errand() *attempt {
	a := &attempt{player: p, name: []string{"world", "village"}[p.r.IntN(2)]}
	if acknowledged := p.saves[a.name]; len(acknowledged) > 0 && p.r.IntN(3) == 0 {
		number := len(acknowledged) - p.r.IntN(min(keep, len(acknowledged)))
		target := p.getting.path(a.name)
		a.args = p.getting.args("get", fmt.Sprintf("%s@%d", a.name, number), target)
		a.want, a.held = acknowledged[number-1], snapshotOf(p.t, target)
	} else {
		p.change(a.name)
		a.args = p.putting.args("put", p.putting.path(a.name))
		a.want = snapshotOf(p.t, p.putting.path(a.name))
	}
	if p.r.IntN(4) == 0 {
		a.args = append(a.args, "--bwlimit=10MB")
	}
	a.begin()
	return a
}

func (a *attempt) begin() { a.now = spawn(a.t, a.args...) }

// change changes one of a save's files, which it shares half of with all others.
func (p *player) change(name string) {
	file := fmt.Sprintf("%s/region/%d", name, p.r.IntN(4))
	content := noise(p.r.IntN(2<<20), p.r.Uint64())
	switch had, _ := os.ReadFile(p.putting.path(file)); p.r.IntN(3) {
	case 0:
		content += noise(1<<20, uint64(p.r.IntN(3)))
	case 1:
		at := p.r.IntN(len(had) + 1)
		content = string(had[:at]) + content[:len(content)/8] + string(had[at:])
	}
	p.putting.write(file, content)
	p.putting.write(name+"/level.dat", fmt.Sprint(len(p.saves[name])))
}

// strike waits for some time and kills a process.
func (s *siege) strike(round int, attempts []*attempt) {
	alone := round%aloneEach == 0
	s.wait(attempts)
	who := s.r.IntN(1 + len(attempts))
	if who > 0 && !alone {
		s.kill(attempts[who-1])
		return
	}
	s.server.kill()
	s.kills["serve"]++
	for _, a := range attempts {
		if !alone {
			s.kill(a)
		}
	}
	s.serve()
}

// wait waits for so many more objects in the store, or for a short time; in any
// case no longer than the attempts take.
func (s *siege) wait(attempts []*attempt) {
	grows := s.r.IntN(2) == 0
	objects, pause := s.objects()+s.r.IntN(30), time.Duration(s.r.IntN(100))*time.Millisecond
	for begin := time.Now(); grows && s.objects() < objects || !grows && time.Since(begin) < pause; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(attempts, func(a *attempt) bool { return a.runs() }) {
			return
		}
	}
}

func (s *siege) objects() int { return len(chunksIn(s.t, s.dir)) }

func (a *attempt) runs() bool {
	select {
	case <-a.now.ended:
		return false
	default:
		return true
	}
}

// kill kills the process of an attempt. A get's target is then what it was, or what it should be.
func (s *siege) kill(a *attempt) {
	if !a.runs() {
		s.kills["too late"]++
		return
	}
	a.now.kill()
	s.kills[a.args[0]]++
	if a.args[0] == "get" && runtime.GOOS == "linux" { // elsewhere a folder is not replaced in one step
		require.Contains(s.t, []snapshot{a.held, a.want}, snapshotOf(s.t, a.getting.path(a.name)))
	}
}

// finish makes an attempt until it succeeds.
func (a *attempt) finish() {
	for ; a.now.code() < 0; a.begin() {
		if a.r.IntN(3) == 0 { // and again
			a.begin()
			a.wait([]*attempt{a})
			a.siege.kill(a)
		}
	}
	require.Zero(a.t, a.now.code(), "savegame %v\n%s", a.args, a.now.stderr)
	if a.args[0] == "get" {
		require.Equal(a.t, a.want, snapshotOf(a.t, a.getting.path(a.name)), a.args)
		return
	}
	a.saves[a.name] = append(a.saves[a.name], a.want)
}

// verify gets every version that is listed.
func (p *player) verify() {
	for name, acknowledged := range p.saves {
		if len(acknowledged) == 0 {
			continue
		}
		var list []versions.Version
		require.NoError(p.t, json.Unmarshal([]byte(p.putting.ok("history", name, "--json")), &list))
		last := len(acknowledged)
		require.GreaterOrEqual(p.t, len(list), min(keep, last), "what was acknowledged is listed")
		for i, v := range list {
			require.Equal(p.t, last-len(list)+1+i, v.Number, "no put makes two versions")
			p.holds(v, acknowledged[v.Number-1])
		}
	}
}

func (p *player) holds(v versions.Version, want snapshot) {
	dir, err := os.MkdirTemp(p.t.TempDir(), "")
	require.NoError(p.t, err)
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "copy")
	p.verifying.ok("get", fmt.Sprintf("%s@%d", v.Name, v.Number), copied)
	require.Equal(p.t, want, snapshotOf(p.t, copied), "%s@%d", v.Name, v.Number)
}

// TestKilled: servers and clients are killed at any moment. Each put and get
// succeeds when it is made again, and no version is lost or damaged.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	for round := 1; round <= *rounds; round++ {
		var attempts []*attempt
		for _, p := range s.players {
			attempts = append(attempts, p.errand())
		}
		s.strike(round, attempts)
		for _, a := range attempts {
			a.finish()
		}
		for _, p := range s.players {
			p.verify()
		}
	}
	require.NoError(t, s.server.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, s.server.code(), s.server.stderr)
	r := runProgram("", "check", "--dir", s.dir)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `^sound: [^\n]*\n$`, r.stdout)
	t.Logf("%d rounds, killed: %v; %s", *rounds, s.kills, r.stdout)
}

// A get into a pipe that nobody reads any more, which the system kills while it
// writes, left the whole save in the folder of temporary files.
func TestGetIntoAClosedPipeLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	require.Zero(t, m.run("content", "put", "-", "--to", "x").code)
	program, err := os.Executable()
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	defer writer.Close()
	dir := t.TempDir()
	get := exec.Command(program, m.args("get", "x", "-")...)
	get.Env, get.Stdout = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir), writer
	require.ErrorContains(t, get.Run(), "broken pipe")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A terminal that was closed while something was written to a temporary file left that file there.
func TestHangupLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	program, err := os.Executable()
	require.NoError(t, err)
	defer signal.Stop(notified())
	for script, code := range map[string]int{`exec "$@"`: exitInterrupted, `trap "" HUP; exec "$@"`: 0} {
		dir := t.TempDir()
		put := exec.Command("sh", append([]string{"-c", script, "sh", program}, m.args("put", "-", "--to", "world")...)...)
		put.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
		stdin, err := put.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, put.Start())
		left := func() []os.DirEntry {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			return entries
		}
		require.Eventually(t, func() bool { return len(left()) > 0 }, 30*time.Second, time.Millisecond)
		for range 20 { // from the terminal, and from its shell
			_ = put.Process.Signal(syscall.SIGHUP) // it may have ended
			time.Sleep(time.Millisecond / 10)
		}
		if code == 0 { // as by nohup
			require.NoError(t, stdin.Close())
		}
		_ = put.Wait() // the code says it
		require.Equal(t, code, put.ProcessState.ExitCode(), script)
		require.Empty(t, left(), script)
	}
}

// A get into the folder that the shell is in left the shell in a deleted one.
func TestGetIsNotIntoTheFolderItRunsIn(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("world/a/b", "1")
	m.ok("put", m.path("world"))
	m.write("world/a/b", "2")
	m.ok("put", m.path("world"))
	program, err := os.Executable()
	require.NoError(t, err)
	link := m.path("link")
	require.NoError(t, os.Symlink("world", link))
	run := func(dir, save, path string) (code int, out string) {
		get := exec.Command(program, m.args("get", save, path)...)
		get.Env, get.Dir = append(os.Environ(), asProgram+"=1"), dir
		text, _ := get.CombinedOutput() // the code says it
		return get.ProcessState.ExitCode(), string(text)
	}
	for _, c := range [][2]string{{m.path("world"), "."}, {m.path("world/a"), ".."}, {link, m.path("world")}, {m.path("world/a"), link}} {
		code, out := run(c[0], "world@1", c[1])
		require.Equal(t, exitUsage, code, out)
		require.Contains(t, out, "contains the current folder")
	}
	m.holds("world/a/b", "2")
	code, out := run(m.path("world"), "world", ".") // what is there already is not replaced
	require.Zero(t, code, out)
	code, out = run(m.dir, "world@1", "link")
	require.Zero(t, code, out)
	m.holds("world/a/b", "1")
}
