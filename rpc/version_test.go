package rpc

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/netsim"
)

// newRawServer returns a server without a world, and the error of a client that connects to it.
func newRawServer(t *testing.T, client *World, hello control.Hello) (server *rawPeer, err error) {
	t.Helper()
	near, far := linktest.Pipe()
	machine, err := bunch.NewConn(time.Now(), bunch.Config{})
	require.NoError(t, err)
	server = &rawPeer{t: t, machine: machine, link: link.New(far, link.Config{}, machine)}
	hello.Params = machine.Params()
	server.send(0, control.AppendHello(nil, hello))
	_, err = client.Connect(context.Background(), plug{near})
	return server, err
}

// requireMismatch requires that an error is a ProtocolMismatch with a reason.
func requireMismatch(t *testing.T, err error, remote bool, reason string) {
	t.Helper()
	var closed *CloseError
	require.ErrorAs(t, err, &closed)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, ProtocolMismatch, closed.Code, closed.Reason)
	require.Equal(t, reason, closed.Reason)
	require.Equal(t, remote, closed.Remote)
	require.False(t, closed.Temporary(), "there's no point in trying again")
}

// TestProtocolVersions: whichever end is older, each end refuses the other one's Hello, and both
// learn which it is.
func TestProtocolVersions(t *testing.T) {
	for _, row := range []struct {
		theirs         uint64
		client, server string
	}{
		{1, "the client speaks version 1 and the server version 2: the client is older",
			"the client speaks version 2 and the server version 1: the server is older"},
		{3, "the client speaks version 3 and the server version 2: the server is older",
			"the client speaks version 2 and the server version 3: the client is older"},
	} {
		synctest.Test(t, func(t *testing.T) {
			theirs := control.Hello{Version: row.theirs}
			w := newTestWorld(t, Config{})
			p := newRawPeer(t, w.World)
			p.send(0, control.AppendHello(nil, theirs))
			closed := p.closed()
			require.Equal(t, ProtocolMismatch, Code(closed.Code))
			require.Equal(t, row.client, closed.Reason)

			s, err := newRawServer(t, newTestWorld(t, Config{}).World, theirs)
			requireMismatch(t, err, false, row.server)
			require.Equal(t, row.server, s.closed().Reason)
		})
	}
}

// TestHelloOfVersion1: its bytes, which end with the shape.
func TestHelloOfVersion1(t *testing.T) {
	hello, err := hex.DecodeString("00010080028080048020ffff01c0b802" + strings.Repeat("957622f1", 8))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		p := newRawPeer(t, newTestWorld(t, Config{GameVersion: "1.4.2"}).World)
		p.send(0, hello)
		p.send(0, control.AppendLogin(nil, control.Login{}))
		require.Equal(t, "the client speaks version 1 and the server version 2: the client is older", p.closed().Reason)
	})
}

func TestGameVersions(t *testing.T) {
	long, longer := strings.Repeat("é", 32), strings.Repeat("9", 64)
	for _, row := range []struct{ client, server, reason string }{
		{"", "", ""},
		{"1.4.2", "1.4.2", ""},
		{long, long, ""},
		{"1.4.1", "1.4.2", `the game's version is "1.4.1" at the client and "1.4.2" at the server (Config.GameVersion)`},
		{"1.4.2", "1.4.2\n", `the game's version is "1.4.2" at the client and "1.4.2\n" at the server (Config.GameVersion)`},
		{"", "1.4.2", `the game's version is "" at the client and "1.4.2" at the server (Config.GameVersion)`},
		{"1.4.2", "", `the game's version is "1.4.2" at the client and "" at the server (Config.GameVersion)`},
		{long, longer, `the game's version is "` + long + `" at the client and "` + longer + `" at the server (Config.GameVersion)`},
	} {
		var log strings.Builder
		inNet(t, 0, Config{GameVersion: row.server, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
			if row.reason == "" {
				n.join(Config{GameVersion: row.client})
				return
			}
			_, err := n.connect(newTestWorld(t, Config{GameVersion: row.client}))
			requireMismatch(t, err, true, row.reason)
			n.tick(2)
			require.Empty(t, n.server.joined)
			require.Contains(t, log.String(), strings.ReplaceAll(strings.ReplaceAll(row.reason, `\`, `\\`), `"`, `\"`))

			_, err = newRawServer(t, newTestWorld(t, Config{GameVersion: row.client}).World,
				control.Hello{Version: control.Version, Shape: n.server.table.hash, GameVersion: row.server})
			requireMismatch(t, err, false, row.reason)
		})
	}
}

// TestGameVersionsBeforeClasses: if the classes differ, too, the versions are named, which explain
// it.
func TestGameVersionsBeforeClasses(t *testing.T) {
	inNet(t, 0, Config{GameVersion: "2", ExplainMismatch: true}, func(n *network) {
		_, err := n.connect(newTestWorld(t, Config{GameVersion: "1", Classes: []*Class{NewClass("Another")}}))
		require.ErrorContains(t, err, `"1" at the client and "2" at the server`)
		_, err = n.connect(newTestWorld(t, Config{GameVersion: "2", Classes: []*Class{NewClass("Another")}}))
		require.ErrorContains(t, err, `class "Another"`)
	})
}

// TestGameVersionsWithASmallMaxBunch: the largest Hello is read by an end that reads only the
// smallest messages.
func TestGameVersionsWithASmallMaxBunch(t *testing.T) {
	inNet(t, 0, Config{Bunch: bunch.Config{MaxBunch: control.MinBunch}}, func(n *network) {
		_, err := n.connect(newTestWorld(t, Config{GameVersion: strings.Repeat("9", 64)}))
		require.ErrorContains(t, err, `at the client and "" at the server`)
	})
}

// TestGameVersionsOverQUIC: Dial returns the reason, and doesn't try again.
func TestGameVersionsOverQUIC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestWorld(t, Config{GameVersion: "1.4.2"})
		near, far := netsim.Pipe(netsim.Config{Delay: testDelay}, netsim.Config{Delay: testDelay})
		serverTLS, clientTLS := credentials(t)
		listener, err := ListenPacket(far, serverTLS, server.World)
		require.NoError(t, err)
		client := newTestWorld(t, Config{GameVersion: "1.4.1"})
		_, err = DialPacket(t.Context(), near, far.LocalAddr(), clientTLS, client.World)
		requireMismatch(t, err, true, `the game's version is "1.4.1" at the client and "1.4.2" at the server (Config.GameVersion)`)
		require.EqualValues(t, 1, server.HandshakeStats().Begun)
		require.NoError(t, listener.Close())
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
	})
}

// TestHostileGameVersions: a version can't look like a line of a log or like a command for a
// terminal, and one that breaks the rules is refused.
func TestHostileGameVersions(t *testing.T) {
	for _, row := range []struct {
		version string
		code    Code
		reason  string
	}{
		{"1\nlevel=INFO msg=\"joined\"\x1b[2J\r\u202e", ProtocolMismatch,
			`"1\nlevel=INFO msg=\"joined\"\x1b[2J\r\u202e" at the client and "1.4.2" at the server`},
		{strings.Repeat("\x00", 64), ProtocolMismatch, `the game's version is "\x00\x00`},
		{strings.Repeat("\u0085", 32), ProtocolMismatch, `the game's version is "\u0085\u0085`},
		{"1.4.2\xff", ControlChannelMessagePayloadFail, "the game's version is not valid UTF-8"},
		{strings.Repeat("1", 65), ControlChannelMessagePayloadFail, "65 is above the limit of 64"},
		{strings.Repeat("1", 40_000), ControlChannelMessagePayloadFail, "40000 is above the limit of 64"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			server := newTestWorld(t, Config{GameVersion: "1.4.2", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			p := newRawPeer(t, server.World)
			hello := control.Hello{Version: control.Version, Params: p.machine.Params(), GameVersion: row.version}
			p.send(0, control.AppendHello(nil, hello))
			closed := p.closed()
			require.Equal(t, row.code, Code(closed.Code), closed.Reason)
			require.Contains(t, closed.Reason, row.reason)
			synctest.Wait()
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.Less(t, log.Len(), 1200)
			for _, s := range []string{closed.Reason, strings.TrimSuffix(log.String(), "\n")} {
				require.NotRegexp(t, `\p{C}`, s)
			}

			_, err := newRawServer(t, newTestWorld(t, Config{}).World, hello)
			require.Equal(t, row.code, err.(*CloseError).Code)
			require.NotRegexp(t, `\p{C}`, err.Error())
		})
	}
}
