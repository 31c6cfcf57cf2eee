package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
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
}

// TestLogIsPlain: what a client says stands in the server's log, one record a line.
func TestLogIsPlain(t *testing.T) {
	var out bytes.Buffer
	log, _, err := newLogger(&out, "info")
	require.NoError(t, err)
	log.With("client", forged).Info(forged, "error", errors.New(forged), forged, forged)
	requirePlain(t, out.String())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// agree answers a request with nothing.
func agree[A any](b *rpc.Binding[*rpc.Actor], r *rpc.Request[A, rpc.None]) {
	rpc.OnRequest(b, r, func(*rpc.Actor, *rpc.Call, A) (rpc.None, error) { return rpc.None{}, nil })
}

// strangeServer does what welcome says to whoever has joined, and returns the flags of its clients.
func strangeServer(t *testing.T, welcome func(s *stream.Streams, w *rpc.World, c *rpc.Conn)) []string {
	t.Helper()
	var streams *stream.Streams
	world, err := rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{desk.Class}, Sealed: true, OnConnect: func(w *rpc.World, c *rpc.Conn) {
		welcome(streams, w, c)
	}})
	require.NoError(t, err)
	agree(rpc.Bind(world, desk.Class, func(a *rpc.Actor) *rpc.Actor { return a }), desk.AskList)
	streams, err = stream.Install(world, stream.Config{})
	require.NoError(t, err)
	certificate, err := cert.Development()
	require.NoError(t, err)
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, world)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- world.Run(context.Background()) }()
	t.Cleanup(func() {
		require.NoError(t, world.Close(context.Background(), 0, "the test is over"))
		require.NoError(t, listener.Close())
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
	})
	return []string{"-server", listener.Addr().String(), "-token", "x", "-fingerprint", cert.Fingerprint(certificate)}
}

// TestServersWordsArePlain: neither the names of saves nor the reason of a close reach the terminal as the server wrote them.
func TestServersWordsArePlain(t *testing.T) {
	t.Parallel()
	t.Run("names", func(t *testing.T) {
		saves := stream.NewArray[desk.Entry]("saves")
		flags := strangeServer(t, func(s *stream.Streams, w *rpc.World, c *rpc.Conn) {
			_, err := w.Spawn(desk.Class, c)
			require.NoError(t, err)
			peer := s.Peer(c)
			go func() {
				_ = saves.Send(context.Background(), peer, []desk.Entry{{Name: forged, Size: -5, Modified: time.Unix(1<<40, 0)}}, stream.Name("1"))
			}()
		})
		r := runProgram(t.Context(), append([]string{"ls"}, flags...)...)
		require.Zero(t, r.code, r.stderr)
		require.Contains(t, r.stdout, "evil")
		requirePlain(t, r.stdout+r.stderr)
		require.Equal(t, 1, strings.Count(r.stdout, "\n"))
	})
	t.Run("reason", func(t *testing.T) {
		flags := strangeServer(t, func(_ *stream.Streams, _ *rpc.World, c *rpc.Conn) { c.Close(2000, forged) })
		r := runProgram(t.Context(), append([]string{"ls"}, flags...)...)
		require.NotZero(t, r.code)
		require.Contains(t, r.stderr, "evil")
		requirePlain(t, r.stdout+r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"))
	})
}
