package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream/tree"
)

// A put without a login ended in a panic.
func TestPutWithoutALogin(t *testing.T) {
	t.Parallel()
	m := &machine{t, filepath.Join(t.TempDir(), "home"), t.TempDir()}
	m.fails(exitDenied, []string{"put", m.write("world", "1")}, "world: not logged in")
}

// Files that no save can hold were lost to a get, although no version has them.
func TestGetDoesNotLoseWhatAPutLeftOut(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	one.write("world/a", "1")
	one.write("world/bad\xff", "mine")
	one.fails(exitPartly, []string{"put", one.path("world")}, "lacks 1 file")
	require.Contains(t, one.ok("get", "world", one.path("world")), "already has it")
	two.ok("get", "world", two.path("world"))
	two.write("world/a", "2")
	two.ok("put", two.path("world"))
	one.fails(exitConflict, []string{"get", "world", one.path("world")}, "files that a put leaves out", "--force")
	one.holds("world/bad\xff", "mine")
	one.ok("get", "world", one.path("world"), "--force")
	one.holds("world/a", "2")
}

// A file of a player whose name begins like that of a work folder was silently
// left out of a save, and lost to the next get.
func TestOnlyWorkFoldersAreLeftOut(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	one.write("world/a", "1")
	one.write("world/.quiver-settings", "mine")
	one.ok("put", one.path("world"))
	two.ok("get", "world", two.path("world"))
	two.holds("world/.quiver-settings", "mine")
}

// What a game saved while a get flushed its files was lost.
func TestGetLooksAgainRightBeforeItReplaces(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	one.write("world/level", "1")
	for i := range 1500 {
		one.write(filepath.Join("world/region", string(rune('a'+i%26)), time.Duration(i).String()), noise(10, uint64(i)))
	}
	one.ok("put", one.path("world"))
	two.ok("get", "world", two.path("world"))
	one.write("world/level", "2")
	require.NoError(t, os.Chtimes(one.path("world/level"), time.Time{}, time.Now().Add(-time.Hour)))
	one.ok("put", one.path("world"))

	get := start(t, nil, two.args("get", "world", two.path("world"))...)
	for sealed := false; !sealed && get.stdout.String() == ""; { // until the first staged file has its time
		staged, err := filepath.Glob(filepath.Join(two.dir, ".quiver-*", "new", "level"))
		require.NoError(t, err)
		if len(staged) > 0 {
			info, err := os.Stat(staged[0])
			sealed = err == nil && info.ModTime().Before(time.Now().Add(-time.Minute))
		}
	}
	two.write("world/level", "the game saves")
	require.Equal(t, exitConflict, get.wait(), get.stdout)
	two.holds("world/level", "the game saves")
}

// The paths of a save in another order were another place.
func TestPathsInAnyOrder(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	a, b := m.write("a", "1"), m.write("b", "2")
	m.ok("put", a, b, "--to", "both")
	m.write("a", "3")
	m.ok("put", b, a, "--to", "both")
}

// A machine that had deleted a save permanently counted as having seen it forever:
// the next save of its name could not be deleted, and a get replaced the last copy.
func TestErasedSavesWereNeverSeen(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	for _, content := range []string{"1", "2", "3"} {
		one.ok("put", one.write("world", content))
	}
	one.ok("rm", "--forever", "world")
	two.ok("put", two.write("world", "another one"))
	one.fails(exitConflict, []string{"get", "world", one.path("world")}, "changes that no existing version has")
	one.holds("world", "3")
	one.ok("get", "world", one.path("other"))
	one.ok("rm", "--forever", "world")
	require.Empty(t, strings.TrimSpace(one.ok("ls")))
}

// A command whose answer was lost is run again, and reported that there is no
// such save, because it had deleted it already.
func TestRemovedAtTheSecondTry(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	for _, forever := range []bool{false, true} {
		m.ok("put", m.write("world", "1"))
		lost := false
		args := m.args("rm", "world")
		if forever {
			args = append(args, "--forever")
		}
		command := client("rm", "NAME", "", visiting(func(ctx context.Context, s *session, client *desk.Client) error {
			err := remove(ctx, s, client)
			if !lost {
				lost = true
				return desk.ErrBusy // as when the connection ends before the answer comes
			}
			return err
		}), &cli.BoolFlag{Name: "forever"}, &cli.BoolFlag{Name: "force"})
		root := group("savegame", "", command)
		root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
		root.Writer, root.ErrWriter = io.Discard, io.Discard
		require.NoError(t, root.Run(t.Context(), append([]string{"savegame"}, args...)))
	}
	m.fails(exitMissing, []string{"rm", "world"}, "no such save")
}

// The time while a server was connected counted as time without it: after a
// long scan of this machine's files the first loss was the end.
func TestPatienceIsForALostServer(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	tries := 0
	command := client("look", "", "", visiting(func(context.Context, *session, *desk.Client) error {
		if tries++; tries > 1 {
			return nil
		}
		time.Sleep(1500 * time.Millisecond) // as a scan of a large folder, or what put - reads
		return desk.ErrBusy
	}))
	root := group("savegame", "", command)
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
	root.Writer, root.ErrWriter = io.Discard, io.Discard
	require.NoError(t, root.Run(t.Context(), append([]string{"savegame"}, m.args("look", "--patience", "1s")...)))
	require.Equal(t, 2, tries)
}

// mistypeTokens makes a server's token file unreadable, until mend is called.
func mistypeTokens(t *testing.T, dir string) (mend func()) {
	tokens := filepath.Join(dir, tokenFile)
	good, err := os.ReadFile(tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tokens, append(good, "mistyped\n"...), 0o600))
	return func() { require.NoError(t, os.WriteFile(tokens, good, 0o600)) }
}

// While the token file could not be read, as when its owner had mistyped a
// line, players were told to log in again.
func TestATokenFileThatIsWrongForAWhile(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	mend := mistypeTokens(t, server.dir)
	ls := start(t, nil, m.args("ls")...)
	require.NotEmpty(t, ls.stderr.line("cannot check tokens now"))
	mend()
	require.Zero(t, ls.wait(), ls.stderr)
}

// Players whose attempts had continued while the token file could not be read were locked
// out, because the server slows down an address from which many logins have failed.
func TestATokenFileThatIsWrongForLong(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	mend := mistypeTokens(t, server.dir)
	var many []*program
	for range 9 {
		many = append(many, start(t, nil, m.args("ls")...))
	}
	for _, ls := range many {
		require.NotEmpty(t, ls.stderr.line("cannot check tokens now"))
	}
	mend()
	for _, ls := range many {
		require.Zero(t, ls.wait(), ls.stderr)
	}
}

// A pattern with a comma was taken for two: what it named was in the save, and
// what it did not name was missing.
func TestExcludeWithAComma(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("world/a", "1")
	m.write("world/a,b", "2")
	m.ok("put", m.path("world"), "--exclude", "a,b")
	m.ok("get", "world", m.path("copy"))
	m.holds("copy/a", "1")
	require.NoFileExists(t, m.path("copy/a,b"))
}

// A machine that had made an old version the newest could not delete the save
// permanently: the new number counted as unseen.
func TestOnesOwnRestoreIsSeen(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	one.ok("put", one.write("world", "1"))
	one.ok("put", one.write("world", "2"))
	one.ok("restore", "world@1")
	one.ok("rm", "--forever", "world")

	one.ok("put", one.write("world", "1"))
	two.ok("put", "--force", two.write("world", "two"))
	one.ok("restore", "world@1")
	r := one.run("", "rm", "--forever", "world") // version 2 would go with it
	requireFailure(t, r, exitConflict, "version 1, the last one seen here", "--force to delete it nevertheless")
	require.NotContains(t, r.stderr, "--keep-both", "which rm has not")

	two.ok("get", "world", two.path("copy"))
	two.ok("rm", "world")
	one.ok("restore", "world@2")
	one.fails(exitConflict, []string{"rm", "--forever", "world"}, "version 5", "version 1, the last one seen here") // what two put it never saw
	one.ok("get", "world", one.path("copy"))
	one.ok("rm", "--forever", "world")
}

// Standard input was new each time, because the file that it waited in was: the
// same content made one version after another.
func TestTheSameFromAPipeIsNoVersion(t *testing.T) {
	m := newMachine(t, startServer(t).paste)
	put := func(content string) string {
		r := m.run(content, "put", "-", "--to", "x")
		require.Zero(t, r.code, r.stderr)
		return r.stdout
	}
	put("1")
	require.Contains(t, put("1"), "version 1 already has everything")
	require.Contains(t, put("2"), "version 2")
	t.Chdir(t.TempDir())
	require.Contains(t, put("2"), "version 2 already has everything")
	require.Contains(t, put("1"), "version 3", "in whatever folder it runs")
	m.fails(exitUsage, []string{"put", "-", m.write("a", ""), "--to", "x"}, "cannot be combined with another PATH")
}

// What a place held was looked up when its content was sent, not when that was
// read: a version that was made in between was overwritten.
func TestAPutHasSeenWhatWasThereWhenItBegan(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	require.Zero(t, m.run("1", "put", "-", "--to", "x").code)
	stdin, content := io.Pipe()
	slow := start(t, stdin, m.args("put", "-", "--to", "x")...)
	_, err := content.Write([]byte("2"))
	require.NoError(t, err)
	require.Zero(t, m.run("3", "put", "-", "--to", "x").code)
	require.NoError(t, content.Close())
	require.Equal(t, exitConflict, slow.wait(), slow.stdout)
}

// The server was set back to a backup: a get of what it had then lost the
// version that by then only the player's machine had.
func TestGetDoesNotLoseWhatABackupLacks(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	one := newMachine(t, server.paste)
	two := one.another()
	one.ok("put", one.write("world", "1"))
	two.ok("get", "world", two.path("world"))
	require.Zero(t, server.stop())
	backup := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.CopyFS(backup, os.DirFS(server.dir)))
	server = startServerIn(t, server.dir, server.addr)
	one.ok("put", one.write("world", "the last evening"))
	require.Zero(t, server.stop())

	startServerIn(t, backup, server.addr)
	get := []string{"get", "world", one.path("world")}
	one.fails(exitConflict, []string{"put", one.path("world")}, "does not follow version 2, the last one seen here", "was restored from a backup")
	one.fails(exitConflict, get, "changes that no existing version has")
	one.fails(exitConflict, []string{"get", "world@1", one.path("world")}, "changes that no existing version has")
	two.ok("put", two.write("world", "another evening"))
	one.fails(exitConflict, get, "changes that no existing version has")
	one.holds("world", "the last evening")

	t.Log("# what is kept beside may be replaced")
	one.ok("put", "--keep-both", one.path("world"))
	one.ok(get...)
	one.holds("world", "another evening")
}

// A machine whose network was away for a moment, and with it the server's name, gave up at once.
func TestANameThatIsNotFoundForAWhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.fails(exitUnreached, []string{"ls", "--server", "server.invalid:7777", "--patience", "1s"}, "server.invalid")
	var s *session
	tries, server, said := 0, "", newOutput()
	command := client("look", "", "", visiting(func(_ context.Context, now *session, _ *desk.Client) error {
		if tries++; tries > 1 {
			return nil
		}
		s, server = now, now.Server
		s.Server = "server.invalid:7777"
		return desk.ErrBusy
	}))
	root := group("savegame", "", command)
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
	root.Writer = io.Discard
	root.ErrWriter = writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "lookup") {
			s.Server = server
		}
		return said.Write(b)
	})
	require.NoError(t, root.Run(t.Context(), append([]string{"savegame"}, m.args("look")...)), said)
	require.Equal(t, 2, tries)
	require.Contains(t, said.String(), "lookup")
}

// A server of another version was reported by a protocol's name for it, and a list of classes.
func TestAServerOfAnotherVersion(t *testing.T) {
	t.Parallel()
	err := explain("host:7777", &rpc.CloseError{Code: rpc.ProtocolMismatch, Reason: "one class more"})
	require.EqualError(t, err, "server host:7777 runs a different version of savegame: one class more")
	require.Equal(t, exitFailed, exitCode(err))
}

// A writerFunc is a writer that is a function.
type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

// What cannot be a server's address was a failure (1), or a server that was not
// reached (7), and help on no command a save that is missing (3).
func TestWrongUsageHasOneCode(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	for _, server := range []string{"host", "127.0.0.1:99999", "127.0.0.1:nothing"} {
		m.fails(exitUsage, []string{"ls", "--server", server}, "not HOST:PORT")
	}
	for _, line := range []string{"help nothing", "token help nothing"} {
		requireFailure(t, runProgram("", strings.Fields(line)...), exitUsage, "nothing")
	}
}

// A put of a standard input that was closed made an empty version, the newest
// one, for which good ones are deleted in the end.
func TestPutOfAClosedStandardInput(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	null, err := os.Open(os.DevNull) // which is what Go's runtime has in place of a closed one
	require.NoError(t, err)
	defer null.Close()
	put := start(t, null, m.args("put", "-", "--to", "world")...)
	require.Equal(t, exitUsage, put.wait())
	require.Contains(t, put.stderr.String(), "standard input is closed")
	require.Empty(t, m.ok("ls"))
	require.Zero(t, m.run("", "put", "-", "--to", "world").code) // an empty pipe is somebody's
}

// A save that this machine knew, and that another one had deleted permanently,
// could not be deleted permanently, and stayed known.
func TestErasedByAnotherMachine(t *testing.T) {
	t.Parallel()
	one, two := shared(t)
	one.ok("rm", "--forever", "world")
	two.ok("rm", "--forever", "world")
	two.fails(exitMissing, []string{"rm", "--forever", "world"}, "no such save") // a name that nothing here knows may be a slip
}

// A line to paste, or a list of tokens, that could not be printed was no
// failure, and nobody knew the token.
func TestALineThatCannotBePrinted(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	for _, args := range [][]string{m.args("invite"), {"token", "add", "ann", "--dir", server.dir}, {"token", "ls", "--dir", server.dir}} {
		var stderr bytes.Buffer
		full := writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
		require.Equal(t, exitFull, Run(t.Context(), args, nil, full, &stderr), args)
		require.Contains(t, stderr.String(), "no space left")
	}
}

// An empty --dir, as of an unset variable, made a server in the current folder.
func TestAnEmptyFolderIsNoServers(t *testing.T) {
	t.Chdir(t.TempDir())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, Run(ended, []string{"serve", "--addr", "127.0.0.1:0", "--dir", ""}, nil, io.Discard, &stderr), &stderr)
	require.Contains(t, stderr.String(), "-dir: must not be empty")
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}

// A put that was done, and could not be remembered because the machine's disk
// was full, reported that it had no room, and that some of it had arrived.
func TestDoneButNotRemembered(t *testing.T) {
	t.Parallel()
	p := &profile{home: t.TempDir()}
	err := p.edit(func(map[string]sighting) { require.NoError(t, os.Mkdir(p.seenFile(), 0o700)) }) // which no file replaces
	require.ErrorContains(t, err, "command succeeded, but its result cannot be recorded here: ")
	require.NotErrorAs(t, err, new(syscall.Errno), "what a full disk says of that is not what became of the command")
}

// A command that was suggested for a save with spaces or brackets, which a kept
// conflict has, could not be pasted.
func TestWhatIsSaidCanBePasted(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	const name = "my world (1)"
	m.ok("put", m.write("world", "1"), "--to", name)
	m.fails(exitConflict, []string{"put", m.write("other", "2"), "--to", name}, `savegame history "my world (1)" and savegame get "my world (1)"@VERSION PATH`)
	require.Equal(t, "removed my world (1); restore it with savegame restore \"my world (1)\"\n", m.ok("rm", name))
	m.ok("restore", name)
}

// A serve with a user of a bad name left an empty store behind, and printed a
// line for a user who was not the first.
func TestServeLooksAtAllUsersFirst(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, names := range [][]string{{"bad/name"}, {"ann", "bad/name"}} {
		args := []string{"serve", "--addr", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "new")}
		var stdout, stderr bytes.Buffer
		for _, name := range names {
			args = append(args, "--user", name)
		}
		require.Equal(t, exitUsage, Run(ended, args, nil, &stdout, &stderr), &stderr)
		require.Contains(t, stderr.String(), "bad/name")
		require.Empty(t, stdout.String())
		require.NoDirExists(t, args[4])
	}
}

// Two paths of one name, or one path twice, are no failure of the put, but a wrong command line.
func TestPathsOfOneName(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	a, b := m.write("world/a", "1"), m.write("other/a", "2")
	m.fails(exitUsage, []string{"put", a, a, "--to", "x"}, "have one name")
	m.fails(exitUsage, []string{"put", a, b, "--to", "x"}, a, b, "have one name")
}

// A get onto a link that leads nowhere reported that there is no such file, even with --force.
func TestGetOntoALinkThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	one, two := shared(t)
	link := two.path("link")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "unplugged"), link))
	one.write("world", "1")
	two.fails(exitConflict, []string{"get", "world", link}, link, "a link that leads nowhere", "--force")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	two.fails(exitFailed, []string{"put", link}, link, "a link that leads nowhere")
	two.ok("get", "world", link, "--force")
	two.holds("link", "1")
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular(), "it is the link that was replaced")
}

// A put of what a game saves all the time failed: there was always a change
// between the scan and the send.
func TestPutOfWhatIsSavedMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("world/a", noise(3<<20, 1))
	save := func(seed uint64) {
		old := time.Now().Add(-time.Hour) // so no scan holds it
		require.NoError(t, os.Chtimes(m.write("world/z", noise(1000, seed)), old, old))
	}
	var asked []int64 // bytes that the server lacked, at each try
	put := func(saves int) error {
		asked = nil
		command := client("put", "PATH…", "", func(ctx context.Context, s *session) error {
			p := &putting{session: s, paths: s.Args().Slice()}
			p.request.Machine = s.Machine
			require.NoError(t, p.choose())
			defer p.close()
			require.NoError(t, p.recall())
			require.NoError(t, p.scan(ctx, p.paths))
			s.config.Watch = func(_ string, bytes int64) (func(int), func()) {
				if asked = append(asked, bytes); len(asked) <= saves {
					save(uint64(100*saves + len(asked)))
				}
				return func(int) {}, func() {}
			}
			return p.reach(ctx, p.send)
		}, &cli.StringFlag{Name: "to"}, &cli.BoolFlag{Name: "force"}, &cli.BoolFlag{Name: "keep-both"}, &cli.StringSliceFlag{Name: "exclude"})
		root := group("savegame", "", command)
		root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
		root.Writer, root.ErrWriter, root.ExitErrHandler = io.Discard, io.Discard, func(context.Context, *cli.Command, error) {}
		return root.Run(t.Context(), append([]string{"savegame"}, m.args("put", m.path("world"))...))
	}
	save(1)
	require.NoError(t, put(2))
	require.Len(t, asked, 3)
	require.Less(t, asked[2], asked[0], "what was sent is not sent again")
	save(2)
	require.ErrorIs(t, put(100), tree.ErrChanged)
	require.Len(t, asked, 5)
	require.NoError(t, put(0))

	t.Log("# however often it is saved")
	stop, saving := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(saving)
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_ = os.WriteFile(m.path("world/z"), []byte(noise(1000, i)), 0o600)
			}
		}
	}()
	for range 5 {
		m.ok("put", m.path("world"))
	}
	close(stop)
	<-saving
}

// A place was its path as it was given: by way of a link to the folder that it
// is in, as /home is one to /var/home, its puts were refused.
func TestAPlaceByWayOfALink(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("real/world", "1")
	require.NoError(t, os.Symlink("real", m.path("link")))
	m.ok("put", m.path("link/world"))
	m.write("real/world", "2")
	m.ok("put", m.path("real/world"))
	m.write("real/world", "3")
	m.ok("put", m.path("link/world"), "--exclude", "x")

	s := &profile{home: m.home}
	require.NoError(t, readJSON(s.file(), s))
	sightings, err := s.seen()
	require.NoError(t, err)
	require.Len(t, sightings, 1)
	r := m.run("", "put", m.path("real/world"))
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "leaving out, as before: x")

	t.Log("# a link that is put itself is a place of its own, which may lead elsewhere tomorrow")
	require.NoError(t, os.Symlink("real/world", m.path("current")))
	require.Contains(t, s.key("world", m.path("current")), "/current\n")
	require.Equal(t, s.key("x")+"/dev/stdin\n", s.key("x", "/dev/stdin"))
	require.Contains(t, s.key("x", m.path("missing/world")), m.path("missing/world")+"\n")
}

// The folder that a command runs in may be named by a link too.
func TestAPlaceBelowAFolderThatIsALink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	t.Chdir(filepath.Join(dir, "link"))
	p := &profile{}
	require.Equal(t, p.key("x", filepath.Join(dir, "real/world")), p.key("x", "world"))
}

// What a transfer reported was about its last connection alone.
func TestReportIsOfAllConnections(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("world/a", noise(1<<20, 1))
	m.write("world/z", noise(1000, 1))
	out := newOutput()
	command := client("put", "PATH…", "", func(ctx context.Context, s *session) error {
		s.begin = s.begin.Add(-time.Minute)
		p := &putting{session: s, paths: s.Args().Slice()}
		p.request.Machine = s.Machine
		require.NoError(t, p.choose())
		defer p.close()
		var err error
		p.source, err = tree.Scan(ctx, p.paths, tree.ScanOptions{}) // which holds nothing
		require.NoError(t, err)
		p.scans = maxScans
		lost := false
		s.config.Watch = func(string, int64) (func(int), func()) {
			if !lost {
				m.write("world/z", "no more") // which ends this try when all else is sent
				require.NoError(t, os.Chtimes(m.path("world/z"), time.Time{}, time.Now().Add(-time.Hour)))
			}
			return func(int) {}, func() {}
		}
		return p.reach(ctx, func(ctx context.Context, client *desk.Client) error {
			err := p.send(ctx, client)
			if !lost {
				require.ErrorIs(t, err, tree.ErrChanged)
				lost = true
				require.NoError(t, p.scan(ctx, p.paths))
				return desk.ErrBusy // as when the connection ends
			}
			return err
		})
	}, &cli.StringFlag{Name: "to"}, &cli.BoolFlag{Name: "force"}, &cli.BoolFlag{Name: "keep-both"})
	root := group("savegame", "", command)
	root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
	root.Writer, root.ErrWriter = out, io.Discard
	require.NoError(t, root.Run(t.Context(), append([]string{"savegame"}, m.args("put", m.path("world"))...)))
	require.Regexp(t, `[12]\.\d MB sent in 6\d\.\d s`, out.String())
}

// A get that reached no server said that what has arrived waits, and one that
// could not read what places held said that a login helps.
func TestWhatIsNotSoIsNotSaid(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	r := m.run("", "get", "world", "--server", "127.0.0.1:1", "--patience", "1s")
	requireFailure(t, r, exitUnreached, "without progress")
	require.NotContains(t, r.stderr, "has arrived")
	require.NoError(t, os.WriteFile(filepath.Join(m.home, "seen.json"), []byte("{"), 0o600))
	r = m.run("", "put", m.write("world", "1"))
	requireFailure(t, r, exitFailed, "seen.json", "move the file away")
	require.NotContains(t, r.stderr, "log in")
}

// A server whose disk has no more than the reserve started silently, and refused every put.
func TestServeWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, space := range []int64{1 << 20, 1 << 30} {
		said := newOutput()
		serve := command("serve", "", "", func(ctx context.Context, j *job) (err error) {
			s := &server{job: j}
			small := &storetest.Small{Store: storetest.NewMemory(nil), Space: space}
			if s.config.Versions, err = versions.Open(ctx, small, versions.Config{}); err != nil {
				return err
			}
			socket, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer socket.Close()
			if err := s.open(socket); err != nil {
				return err
			}
			return errors.Join(s.Close(ctx, ""), s.listener.Close())
		}, &cli.StringFlag{Name: "dir", Value: t.TempDir()}, &cli.StringSliceFlag{Name: "user"})
		root := group("savegame", "", serve)
		root.Flags = []cli.Flag{&cli.BoolFlag{Name: "quiet"}}
		root.Writer, root.ErrWriter = io.Discard, said
		require.NoError(t, root.Run(t.Context(), []string{"savegame", "serve"}))
		require.Equal(t, space < 256<<20, strings.Contains(said.String(), "lacks 267 MB of its reserve"), said)
	}
}
