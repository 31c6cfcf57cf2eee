package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
)

// forged clears a screen, names a window, forges a row and turns what follows around.
const forged = "\x1b[2J\x1b]0;title\x07evil\nforged\t12\r\v\u009b1m\u2028\u202eves.\u200f\u2066"

// requirePlain asserts that a text holds nothing that a terminal obeys, line breaks aside.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	for _, r := range strings.ReplaceAll(text, "\n", "") {
		require.True(t, unicode.IsGraphic(r), "%q in %q", r, text)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"Größe 進行 e\u0301 ½ 🎮 a\u00a0b": "Größe 進行 e\u0301 ½ 🎮 a\u00a0b",
		"\x1b[31m":            "\ufffd[31m",
		"a\x00b\x7fc\xffd":    "a\ufffdb\ufffdc\ufffdd",
		"\u202etxt.exe\u2069": "\ufffdtxt.exe\ufffd",
	} {
		require.Equal(t, want, plain(text))
	}
	requirePlain(t, oneLine(errors.New(forged)))
	require.NotContains(t, oneLine(errors.New(forged)), "\n")
	require.Equal(t, "first; second; third", oneLine(errors.Join(errors.New("first"), errors.New("second\r\nthird"))))
}

// TestLogIsPlain: what a client says stands in the server's log, one record a line.
func TestLogIsPlain(t *testing.T) {
	var out bytes.Buffer
	c := command("x", "", "", func(_ context.Context, j *job) error {
		j.logger().With("client", forged).Info(forged, "error", errors.New(forged), forged, forged)
		return nil
	}, oneOf("log", "", "info"))
	c.ErrWriter = &out
	require.NoError(t, c.Run(t.Context(), []string{"x"}))
	requirePlain(t, out.String())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// TestServersWordsArePlain: neither names nor the reason of a close reach the
// terminal as the server wrote them.
func TestServersWordsArePlain(t *testing.T) {
	t.Parallel()
	t.Run("names", func(t *testing.T) {
		for _, flags := range [][]string{nil, {"--json"}} {
			var out bytes.Buffer
			c := client("login", "", "", func(_ context.Context, s *session) error { // which is no command that needs one
				return s.list([]versions.Version{{Name: forged, Machine: forged, Size: -5, Files: -1, Time: time.Unix(1<<30, 0)}}, nil)
			}, &cli.BoolFlag{Name: "json"})
			c.Writer = &out
			require.NoError(t, c.Run(t.Context(), append([]string{"login", "--home", t.TempDir()}, flags...)))
			require.Contains(t, out.String(), "evil")
			requirePlain(t, strings.ReplaceAll(out.String(), "\t", ""))
		}
	})
	t.Run("reason", func(t *testing.T) {
		world, err := rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{desk.Class}, Sealed: true, OnConnect: func(_ *rpc.World, c *rpc.Conn) { c.Close(2000, forged) }})
		require.NoError(t, err)
		_, err = stream.Install(world, stream.Config{})
		require.NoError(t, err)
		certificate, err := cert.Development()
		require.NoError(t, err)
		listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, world)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- world.Run(context.Background()) }()
		m := &machine{t, t.TempDir(), ""}
		m.loggedIn(listener.Addr().String(), cert.Fingerprint(certificate))
		r := m.run("", "ls")
		require.NoError(t, world.Close(context.Background(), 0, "the test is over"))
		require.NoError(t, listener.Close())
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
		requireFailure(t, r, exitFailed, "evil")
		requirePlain(t, r.stdout+r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"))
	})
}

func TestNoProgressWhereNoTerminalIs(t *testing.T) {
	var out bytes.Buffer
	s := &session{job: &job{Command: &cli.Command{ErrWriter: &out}}}
	_, stop := s.watch("put x", 7)
	stop()
	require.False(t, s.moved.Load(), "all was there before")
	moved, stop := s.watch("put x", 7)
	moved(7)
	stop()
	require.Empty(t, out.String())
	require.True(t, s.moved.Load())
}

// The library's spinner went on to draw over what came later.
func TestASpinnerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which sees goroutines that are left
		var out bytes.Buffer
		bar := newBar(&out, "reading", -1)
		require.NoError(t, bar.Set64(5))
		require.Contains(t, out.String(), "reading")
		require.NoError(t, bar.Clear())
	})
}
