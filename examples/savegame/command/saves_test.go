package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
)

// TestNewcomer follows the lines that the program prints.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	first := newMachine(t, server.paste)
	level := noise(700_000, 1)
	first.write("world/region/level.dat", level)
	first.write("world/player.dat", "Ann")
	require.NoError(t, os.Symlink("player.dat", first.path("world/latest")))
	require.Regexp(t, `^put world: version 1, 700 kB in 2 files, 7\d\d kB sent in \d+\.\d s\n$`, first.ok("put", first.path("world")))

	second := first.another()
	require.Regexp(t, `^get world: version 1, 700 kB in 2 files, 7\d\d kB received in `, second.ok("get", "world", second.path("world")))
	second.holds("world/region/level.dat", level)
	second.holds("world/latest", "Ann")
	target, err := os.Readlink(second.path("world/latest"))
	require.NoError(t, err)
	require.Equal(t, "player.dat", target)

	t.Log("# what has not changed does not travel again")
	second.write("world/player.dat", "Bob")
	require.Regexp(t, `^put world: version 2, 700 kB in 2 files, \d+ B sent in `, second.ok("put", second.path("world")))
	require.Regexp(t, `^get world: version 2, 700 kB in 2 files, \d+ B received in `, first.ok("get", "world", first.path("world")))
	first.holds("world/player.dat", "Bob")
	require.Contains(t, first.ok("get", "world", first.path("world")), "already has it")
	require.Equal(t, "put world: version 2 already has everything\n", first.ok("put", first.path("world")))

	t.Log("# the server ends when it is told to, and comes back with all that it had")
	require.Zero(t, server.stop())
	again := startServerIn(t, server.dir, server.addr)
	require.Regexp(t, `^world +2 +700 kB in 2 files +\d{4}-`, first.ok("ls"))
	require.Zero(t, again.stop())
}

func TestTwoMachinesNeverLoseASave(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	one := newMachine(t, server.paste)
	two := one.another()
	one.ok("put", one.write("world", "one"))
	two.ok("get", "world", two.path("world"))
	one.ok("put", one.write("world", "one and more"))

	two.write("world", "two")
	two.fails(exitConflict, []string{"put", two.path("world")}, `version 2 of "world", 12 B, put by `, "is newer than version 1, the last one seen here", "--keep-both", "--force", "get world@VERSION PATH")
	two.fails(exitConflict, []string{"get", "world", two.path("world")}, two.path("world"), "changes that no existing version has", "--force")
	two.holds("world", "two")

	t.Log("# a look at the other one is no consent to lose it")
	two.ok("get", "world", two.path("other"))
	two.holds("other", "one and more")
	two.fails(exitConflict, []string{"put", two.path("world")}, "version 1, the last one seen here")

	t.Log("# both are kept, and then what is here may be replaced")
	aside := two.ok("put", "--keep-both", two.path("world"))
	require.Contains(t, aside, "put world (conflict ")
	two.ok("get", "world", two.path("world"))
	two.holds("world", "one and more")
	require.Equal(t, 2, strings.Count(two.ok("ls"), "\n"))

	t.Log("# each place has seen what it held itself")
	two.ok("get", "world", two.path("elsewhere"))
	two.ok("put", two.write("elsewhere", "from there"), "--to", "world")
	r := two.run("", "put", two.write("never", "another"), "--to", "world")
	requireFailure(t, r, exitConflict, "has not been seen here")
	require.Contains(t, r.stderr, "another place of this machine has seen version 3")
	two.ok("get", "world", two.path("world"))

	t.Log("# nothing is deleted for good that this machine has not seen")
	one.fails(exitConflict, []string{"rm", "--forever", "world"}, "version 3", "version 2, the last one seen here")

	t.Log("# or one's own is the newest")
	two.ok("put", two.write("world", "two again"))
	one.write("world", "one at last")
	one.fails(exitConflict, []string{"put", one.path("world")}, "version 4")
	one.ok("put", "--force", one.path("world"))
	require.Contains(t, one.ok("history", "world"), "5")
	two.write("world", "lost on purpose")
	two.ok("get", "--force", "world", two.path("world"))
	two.holds("world", "one at last")
	two.fails(exitUsage, []string{"put", "--force", "--keep-both", two.path("world")}, "exclude each other")
}

// A machine whose file system keeps neither modes nor times was told about
// changes that nobody had made.
func TestModesAndTimesAreNoChanges(t *testing.T) {
	t.Parallel()
	one, two := shared(t)
	require.NoError(t, os.Chmod(two.path("world"), 0o640))
	one.ok("put", one.write("world", "2"))
	two.ok("get", "world", two.path("world"))
	two.holds("world", "2")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	for _, content := range []string{"first", "second", "third"} {
		m.ok("put", m.write("world", content))
	}
	require.Regexp(t, `(?s)^world +1 +5 B in 1 file +.*world +2 +6 B .*world +3 +5 B [^\n]*\n$`, m.ok("history", "world"))

	m.ok("get", "world@2", m.path("old"))
	m.holds("old", "second")
	m.fails(exitMissing, []string{"get", "world@9", m.path("none")}, "get world@9", "no such version")
	m.fails(exitUsage, []string{"get", "world@x"}, "world@x", "history")
	require.Contains(t, m.ok("restore", "world@1"), "restored world@1: version 4, 5 B in 1 file")
	require.Regexp(t, `\nworld +4 +5 B in 1 file, as @1 +[^\n]*\n$`, m.ok("history", "world"))
	require.Equal(t, "first", m.ok("get", "world", "-"))

	t.Log("# what was removed is in the trash")
	require.Contains(t, m.ok("rm", "world"), "savegame restore world")
	require.Regexp(t, `^world +5 +in the trash`, m.ok("ls"))
	m.fails(exitMissing, []string{"get", "world", m.path("none")}, "trash")
	m.fails(exitMissing, []string{"rm", "world"}, "trash")
	for _, args := range [][]string{{"rm", "world@1"}, {"rm", "--forever", "world@1"}, {"history", "world@1"}} { // told that there is no such save
		m.fails(exitUsage, args, args[0]+" affects all versions of world, not a single one", "savegame "+args[0]+" --help")
	}
	m.ok("restore", "world")
	require.Equal(t, "first", m.ok("get", "world", "-"))
	require.Equal(t, "permanently deleted world\n", m.ok("rm", "--forever", "world"))
	require.Empty(t, m.ok("ls"))
	m.fails(exitMissing, []string{"history", "world"}, "history world", "no such save")
	require.NoFileExists(t, m.path("none"))
}

func TestJSON(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	require.Equal(t, "[]\n", m.ok("ls", "--json"))
	m.ok("put", m.write("world", "1"))
	m.ok("put", m.write("world", "22"))
	var list, history []versions.Version
	require.NoError(t, json.Unmarshal([]byte(m.ok("ls", "--json")), &list))
	require.NoError(t, json.Unmarshal([]byte(m.ok("history", "world", "--json")), &history))
	require.Len(t, list, 1)
	require.Len(t, history, 2)
	require.Equal(t, history[1:], list)
	require.EqualValues(t, 2, list[0].Size)
	require.NotZero(t, list[0].Content)
	require.Regexp(t, `"content": "[0-9a-f]{64}"`, m.ok("ls", "--json"))
}

func TestPutOfSeveralPaths(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.write("settings.ini", "easy")
	m.write("saves/a", "A")
	m.write("saves/debug.log", "noise")
	m.fails(exitUsage, []string{"put", m.path("settings.ini"), m.path("saves")}, "--to NAME")
	m.ok("put", m.path("settings.ini"), m.path("saves"), "--to", "game", "--exclude", "*.log")
	m.ok("get", "game", m.path("copy"))
	m.holds("copy/settings.ini", "easy")
	m.holds("copy/saves/a", "A")
	require.NoFileExists(t, m.path("copy/saves/debug.log"))

	t.Log("# what is left out stays so, until it is said otherwise")
	again := []string{"put", m.path("settings.ini"), m.path("saves"), "--to", "game"}
	require.Contains(t, m.ok(again...), "already has everything")
	m.ok(append(again, "--exclude", "")...)
	require.Contains(t, m.ok(again...), "already has everything")
	m.ok("get", "game", m.path("whole"))
	m.holds("whole/saves/debug.log", "noise")

	m.fails(exitUsage, []string{"put", m.write("a:b", "")}, `"a:b"`, "--to NAME")
	m.fails(exitFailed, []string{"put", m.path("none")}, "put none", m.path("none"))
	m.fails(exitUsage, []string{"put", "", "--to", "x"}, "PATH is empty") // of a variable that is not set
}

// A save of one file that was got into a folder would have replaced the folder.
func TestGetIntoAFolder(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.ok("put", m.write("world.sav", "w"))
	m.write("saves/other", "o")
	m.ok("get", "world.sav", m.path("saves"))
	m.holds("saves/world.sav", "w")
	m.holds("saves/other", "o")
	m.fails(exitFailed, []string{"get", "world.sav", m.path("none") + string(filepath.Separator)}, "none")
	require.NoFileExists(t, m.path("none"), "no folder, and no file for one")
}

func TestStandardInputAndOutput(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	content := noise(300_000, 2) + strings.Repeat("\x00", 3<<20) + noise(300_000, 2) // chunks that come again
	r := m.run(content, "put", "-", "--to", "x")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "put x: version 1, 3.7 MB in 1 file")
	r = m.run("", "get", "x", "-")
	require.Zero(t, r.code, r.stderr)
	require.True(t, r.stdout == content, "%d bytes came", len(r.stdout))
	require.Contains(t, r.stderr, "get x: version 1, 3.7 MB in 1 file")

	t.Log("# the same content from a pipe again follows on what was put before")
	require.Zero(t, m.run("y", "put", "-", "--to", "x").code)
	require.Zero(t, m.run("", "put", "-", "--to", "x").code)
	require.Empty(t, m.ok("get", "x", "-"))
	m.fails(exitUsage, []string{"put", "-"}, "--to NAME")

	m.write("folder/a", "")
	m.ok("put", m.path("folder"))
	r = m.run("", "get", "folder", "-")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "give a PATH")
	require.Empty(t, r.stdout)
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	m.write("world/a", "1")
	require.NoError(t, os.Symlink("/elsewhere", m.path("world/out")))
	r := m.run("", "put", m.path("world"))
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "out: ", "a link that leads out of the save is worth a note")
	r = m.run("", "--quiet", "put", m.path("world"))
	require.Zero(t, r.code)
	require.Empty(t, r.stderr)
	r = m.run("", "invite", "--quiet")
	require.Empty(t, r.stderr)
	require.Regexp(t, `^savegame login `, r.stdout)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.ok("put", m.write("x", noise(300_000, 3)), "--bwlimit", "50MB")
	m.ok("get", "x", m.path("1"), "--bwlimit", "50MB")
	m.holds("1", noise(300_000, 3))
	m.fails(exitUsage, []string{"ls", "--log", "loud"}, "loud")
	m.fails(exitUsage, []string{"ls", "--bwlimit", "fast"}, "bwlimit", "fast")
	m.ok("get", "x", m.path("3"), "-carrier", "quic")
	m.fails(exitUsage, []string{"ls", "--carrier", "pigeon"}, "carrier", "sealed, quic")
}

func TestProfile(t *testing.T) {
	t.Parallel()
	one, two := startServer(t), startServer(t)
	m := newMachine(t, one.paste)
	m.ok(append(two.paste, "--profile", "work")...)
	m.ok("put", m.write("a", "1"))
	m.ok("put", m.write("b", "2"), "--profile", "work")
	require.Regexp(t, `^a `, m.ok("ls"))
	require.Regexp(t, `^b `, m.ok("ls", "--profile", "work"))
	m.fails(exitDenied, []string{"ls", "--profile", "none"}, "ls: not logged in as --profile none; there is a login without --profile, with --profile work, or paste", "savegame login")
	require.NoDirExists(t, filepath.Join(m.home, "none"), "only a login makes a profile")
	m.fails(exitUsage, []string{"ls", "--profile", "../up"}, "../up")

	t.Log("# a login that goes for another one says so")
	r := m.run("", pasted(t, m.ok("invite", "--profile", "work"))...)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, one.addr)
	require.Regexp(t, `^b `, m.ok("ls"))

	info, err := os.Stat(filepath.Join(m.home, "profile.json"))
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.EqualValues(t, 0o600, info.Mode().Perm(), "it holds a token")
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.home, "profile.json"), []byte("{"), 0o600))
	m.fails(exitFailed, []string{"ls"}, "profile.json", "move the file away")
}

// Things over which a new user stumbled.
func TestLocalFailuresAreFinal(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.ok("put", m.write("world", "one"))
	m.fails(exitFailed, []string{"get", "world", m.path("nodir/x")}, "nodir")
	require.NoError(t, os.Mkdir(m.path("empty"), 0o700))
	require.NoError(t, os.Mkdir(m.path("folder"), 0o700))
	m.write("folder/a", "1")
	m.ok("put", m.path("folder"), "--exclude", "nothing", "--exclude", "*.log")
	m.ok("get", "folder", m.path("empty"))
	m.fails(exitUsage, []string{"get", "folder", "-"}, "folder", "PATH")
	m.fails(exitUsage, []string{"put", m.path("folder"), "--exclude", "["}, "exclude")
}

// What a save cannot hold is reported even with --quiet, and by the exit code.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	require.NoError(t, os.Mkdir(m.path("folder"), 0o700))
	m.write("folder/a", "1")
	m.write("folder/bad\xff", "2")
	m.fails(exitPartly, []string{"--quiet", "put", m.path("folder")}, "version 1 lacks 1 file")
	require.Contains(t, m.ok("ls"), "folder")
	m.fails(exitPartly, []string{"put", m.path("folder")}, "version 1 lacks 1 file") // none is made
}

func TestLoginByToken(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	added := runProgram("", "token", "add", "ann", "--dir", server.dir)
	paste := pasted(t, added.stdout)
	m := newMachine(t, []string{paste[0], server.addr, paste[2]})
	require.Empty(t, m.ok("ls"))
}

// A put over a save that somebody had removed neither asked nor reported anything.
func TestPutOverTheTrash(t *testing.T) {
	t.Parallel()
	one, two := shared(t)
	one.ok("put", one.write("world", "2"))
	one.ok("rm", "world")

	t.Log("# a machine that has not seen what was removed is refused")
	refused := []string{`version 2 of "world", 1 B, put by `, "is newer than version 1, the last one seen here; ", " moved the save to the trash on ", "--keep-both", "--force"}
	two.fails(exitConflict, []string{"put", two.write("world", "other")}, refused...)
	two.fails(exitConflict, []string{"put", two.write("new", "other"), "--to", "world"}, "has not been seen here; ", "moved the save to the trash")
	two.ok("put", "--keep-both", two.path("world"))
	require.Regexp(t, `(?m)^world +3 +in the trash`, two.ok("ls"))

	t.Log("# one that has seen it brings it back, and is told so")
	back := one.run("", "put", one.write("world", "3"))
	require.Zero(t, back.code)
	require.Contains(t, back.stdout, "put world: version 4")
	require.Contains(t, back.stderr, "world was in the trash; this version brings it back")
	one.ok("rm", "world")
	require.Contains(t, one.run("", "put", one.path("world")).stderr, "world was in the trash", "the same content")
	one.ok("rm", "world")
	require.Contains(t, two.run("", "put", "--force", two.path("world")).stderr, "world was in the trash")
}

// A machine that had never seen a save could delete it permanently, by way of the trash.
func TestTheTrashIsNoWayAroundAQuestion(t *testing.T) {
	t.Parallel()
	one := newMachine(t, startServer(t).paste)
	two := one.another()
	one.ok("put", one.write("world", "1"))
	two.ok("rm", "world")
	asked := []string{`version 1 of "world", 1 B, put by `, "has not been seen here; ", "moved the save to the trash", "--force"}
	two.fails(exitConflict, []string{"rm", "--forever", "world"}, asked...)
	two.ok("restore", "world")
	two.fails(exitConflict, []string{"rm", "--forever", "world"}, "version 3", "has not been seen here")
	two.ok("rm", "world")
	two.ok("get", "world@3", two.path("world"))
	two.ok("rm", "--forever", "world")

	t.Log("# who has seen what is in the trash is not asked, nor is anybody where the one was not who put it there")
	one.ok("put", one.write("world", "2"))
	two.ok("rm", "world")
	one.ok("rm", "--forever", "world")
	one.ok("put", one.write("world", "3"))
	one.ok("rm", "world")
	two.ok("rm", "--forever", "world")
}

// A restore that made no version reported that it had, and so did the server's log.
func TestRestoreOfTheNewest(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	m := newMachine(t, server.paste)
	m.ok("put", m.write("world", "1"))
	require.Equal(t, "nothing to restore: version 1, the newest, already has the content of world@1\n", m.ok("restore", "world@1"))
	require.NotEmpty(t, server.stderr.line(`msg="restored: unchanged"`))
}

// A save that was begun again after rm --forever was reported as newer than
// what another machine had seen of the save before.
func TestConflictWithASaveThatBeganAnew(t *testing.T) {
	t.Parallel()
	one, two := shared(t)
	one.ok("rm", "--forever", "world")
	one.ok("put", one.write("world", "another"))
	two.fails(exitConflict, []string{"put", two.write("world", "2")}, "does not follow version 1, the last one seen here")
}

// A version keeps times: a file that was only touched makes a version, for
// which no content is sent.
func TestTouchedFilesMakeAVersion(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.ok("put", m.write("world/level", "1"), "--to", "world")
	before := time.Unix(1e9, 0)
	require.NoError(t, os.Chtimes(m.path("world/level"), before, before))
	require.Regexp(t, `version 2, 1 B in 1 file, 0 B sent`, m.ok("put", m.path("world/level"), "--to", "world"))
	m.ok("get", "world", m.path("copy"))
	info, err := os.Stat(m.path("copy"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(before))
}
