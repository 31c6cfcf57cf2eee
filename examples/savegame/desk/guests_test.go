package desk

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
)

func TestGuestsMakeRoom(t *testing.T) {
	g, conns := guests{most: 3}, make([]*rpc.Conn, 6)
	for i := range conns {
		conns[i] = new(rpc.Conn)
	}
	require.Nil(t, g.enter(conns[0], "a"))
	require.Nil(t, g.enter(conns[1], "b"))
	require.Nil(t, g.enter(conns[2], "b"))
	require.Same(t, conns[1], g.enter(conns[3], "b"), "the first of those that are most")
	require.Same(t, conns[2], g.enter(conns[4], "c"))
	g.leave(conns[0])
	g.leave(conns[0])
	require.Nil(t, g.enter(conns[5], "b"))
	require.Len(t, g.in, 3)
}

func TestHostOf(t *testing.T) {
	for addr, host := range map[string]string{
		"192.0.2.1:7": "192.0.2.1", "[::ffff:192.0.2.1]:7": "192.0.2.1", "[2001:db8:1:2:3::4]:7": "2001:db8:1:2::/64", "[fe80::1%lo]:7": "fe80::/64",
	} {
		at, err := net.ResolveUDPAddr("udp", addr)
		require.NoError(t, err)
		require.Equal(t, host, hostOf(at), addr)
	}
	require.Empty(t, hostOf(nil))
	require.Empty(t, hostOf(&net.UnixAddr{Name: "pipe"}))
}

// Guests, who need no token, took all places of the world for ten seconds, and came again: no user got in.
func TestGuestsTakeNoPlacesOfUsers(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	require.NoError(t, h.server.World().Do(t.Context(), func() { h.server.guests.most = 3 }))
	token := h.config.Token
	h.config.Token = ""
	first := h.dial()
	for range 5 {
		h.dial()
	}
	<-first.Conn().Done()
	var closed *rpc.CloseError
	require.ErrorAs(t, first.Conn().Err(), &closed)
	require.Equal(t, rpc.ServerFull, closed.Code)
	h.config.Token = token
	_, err := put(t, h.dial(), versions.Request{}, []byte("world"))
	require.NoError(t, err)
	require.NoError(t, h.server.World().Do(t.Context(), func() { require.Len(t, h.server.guests.in, 3) }))
}

// A guest who had tried too many wrong codes went on, fifty a second for each connection, and the log had a line for each.
func TestWhoGuessesTooOftenHasToLeave(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	h.config.Token = ""
	guest := h.dial()
	var err error
	for asked := 0; asked < 20 && guest.Conn().Err() == nil; asked++ {
		_, _, err = guest.Redeem(t.Context(), "ABCD-EFGH-IJKL", "pc", "secret")
		require.Error(t, err)
	}
	var closed *rpc.CloseError
	require.ErrorAs(t, guest.Conn().Err(), &closed)
	require.Equal(t, rpc.PreLoginFailure, closed.Code)
	require.Equal(t, users.ErrGuesses.Error(), closed.Reason)
	require.False(t, Transient(err))
}
