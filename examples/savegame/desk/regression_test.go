package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
)

// A client that had a code when its token was revoked could connect again with it.
func TestCodesOfARevokedToken(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		h.users.Watch(ctx, h.server.World(), Revoked, 10*time.Millisecond, nil)
		close(ended)
	}()
	defer func() { stop(); <-ended }()
	thief := h.dial()
	code, err := Invite.Ask(t.Context(), thief.Desk(), rpc.None{})
	require.NoError(t, err)
	_, err = users.Revoke(h.tokens, "alice", "")
	require.NoError(t, err)
	<-thief.Conn().Done()
	h.requireRefused(users.ByCode(code, strings.Repeat("t", 16), "pc"), users.ErrCode)
}

// A machine that got a token by a code between a look at the token file and
// what was done after it was disconnected: its token was new, not revoked.
func TestNewTokensAreNotRevoked(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		h.users.Watch(ctx, h.server.World(), Revoked, 1, nil)
		close(ended)
	}()
	defer func() { stop(); <-ended }()
	for range 50 {
		code, err := h.users.Invite("alice", time.Now())
		require.NoError(t, err)
		h.config.Token = users.ByCode(code, newToken(), "pc")
		c, err := Dial(t.Context(), h.config)
		require.NoError(t, err)
		_, err = User.Ask(t.Context(), c.Desk(), rpc.None{})
		require.NoError(t, err)
		c.Close()
	}
}

// A version with the longest names and the largest numbers fits its blob.
func TestTheLongestVersion(t *testing.T) {
	long := strings.Repeat("\u2028", users.MaxName/3) // JSON has six bytes for three
	v := versions.Version{Name: long, Number: math.MaxInt, Kind: versions.Damaged, Base: math.MinInt, Size: math.MinInt64, Files: math.MinInt,
		Time: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("", 14*3600)), Machine: long}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), maxVersion)
}

// Each request that was refused left a line in the log, 400 a second for each connection.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := &clerk{log: slog.New(slog.NewTextHandler(&log, nil)), share: &share{idle: rate.NewLimiter(1, idleLines)}}
		for range 1000 {
			require.ErrorContains(t, k.refuse(t.Context(), "Get", versions.ErrNoSave), versions.ErrNoSave.Error())
		}
		require.Equal(t, idleLines, strings.Count(log.String(), "\n"))
		time.Sleep(time.Second)
		require.Error(t, k.refuse(t.Context(), "Get", versions.ErrNoSave))
		require.Equal(t, idleLines+1, strings.Count(log.String(), "\n"))
		require.Contains(t, log.String(), "more=980")
	})
}

// Each new connection had twenty lines of its own, so a client that connected
// again and again, or many times at once, wrote a thousand a second. So did one
// that restored what is there: 50 a second over each connection.
func TestNewConnectionsHaveNoNewLines(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	var log testkit.Log
	require.NoError(t, h.server.World().Do(t.Context(), func() { h.server.log = slog.New(slog.NewTextHandler(&log, nil)) }))
	refused := func(c *Client) {
		_, err := Remove.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: "pc"})
		require.ErrorIs(t, err, versions.ErrNoSave)
	}
	begin := time.Now()
	for range 5 {
		c := h.dial()
		for range idleLines {
			refused(c)
		}
		c.Close()
	}
	c := h.dial()
	_, err := put(t, c, versions.Request{}, nil)
	require.NoError(t, err)
	for range idleLines {
		made, err := Restore.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: "pc"})
		require.NoError(t, err)
		require.Equal(t, versions.Unchanged, made.Outcome)
		require.Empty(t, get(t, c, "world", 0))
	}
	require.Len(t, log.With("msg=put"), 1)
	require.LessOrEqual(t, len(log.With("")), 1+idleLines+1+int(time.Since(begin)/time.Second))
	h.config.Token = addUser(t, h, "bob")
	refused(h.dial())
	require.Len(t, log.With("user=bob"), 1, "others have theirs")
}

// As many chunks of a user's puts as had buffers were verified at once, on all processors:
// at 600 KB/s, chunks of 512 KiB zeros, which are sent as a hundred bytes, keep one busy.
func TestOneUserTakesNotAllProcessors(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	alice := h.dial()
	hers := h.server.memory.share("alice").verifying
	require.NoError(t, hers.Acquire(t.Context(), userProcessors()))
	putting := make(chan error, 1)
	go func() {
		_, err := put(t, alice, versions.Request{}, noise(1, 1<<20))
		putting <- err
	}()
	h.config.Token = addUser(t, h, "bob")
	bob := h.dial()
	_, err := put(t, bob, versions.Request{}, noise(1, 1<<20))
	require.NoError(t, err, "others do not wait")
	require.Empty(t, putting)
	hers.Release(userProcessors())
	require.NoError(t, <-putting)

	// The server verifies what is got, too: a megabyte of such chunks costs it
	// 2 s of its processors. Sixteen gets over a connection had all of them.
	require.NoError(t, hers.Acquire(t.Context(), userProcessors()))
	getting := make(chan int, 1)
	go func() { getting <- len(get(t, alice, "world", 0)) }()
	require.Len(t, get(t, bob, "world", 0), 1<<20)
	require.Never(t, func() bool { return len(getting) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	hers.Release(userProcessors())
	require.Equal(t, 1<<20, <-getting)
}

// Four users who announced manifests of 32 MiB, and sent none, caused all
// others' puts, gets and lists to be refused for as long as they liked.
func TestFourUsersTakeNotAllMemory(t *testing.T) {
	m := memory{of: make(map[string]*share)}
	for i := range manifestMemory / userMemory {
		require.NoError(t, m.take(fmt.Sprint("mallory", i), userMemory))
	}
	require.NoError(t, m.take("alice", 1000))
	require.NoError(t, m.take("alice", littleMemory-1000))
	require.ErrorIs(t, m.take("alice", 1), ErrBusy, "it is no little")
	for i := range keptMemory/littleMemory - 1 {
		require.NoError(t, m.take(fmt.Sprint("user", i), littleMemory))
	}
	require.ErrorIs(t, m.take("bob", 1), ErrBusy)
	m.give("mallory0", userMemory)
	require.ErrorIs(t, m.take("alice", userMemory/2), ErrBusy, "what is kept is used up")
	m.give("mallory1", userMemory)
	m.give("mallory2", userMemory)
	require.NoError(t, m.take("alice", userMemory/2))
}

// A client was told where on the server's disk its save was to be stored.
func TestRefusalsNameNoFileOfTheServer(t *testing.T) {
	no := &fs.PathError{Op: "write", Path: "/srv/saves/alice", Err: syscall.EDQUOT}
	require.ErrorIs(t, refuse(no), ErrFull)
	require.NotContains(t, refuse(no).Error(), "srv")
	no.Err = syscall.ENOSPC
	for _, err := range []error{no, fmt.Errorf("storing: %w", no), fmt.Errorf("%w: %w", &versions.Full{Setting: "disk"}, no)} {
		require.ErrorIs(t, refuse(err), ErrFull)
		require.NotContains(t, refuse(err).Error(), "srv")
	}
	require.ErrorContains(t, refuse(fmt.Errorf("storing: %w", &versions.Full{Setting: "quota"})), "quota exceeded")
}

// A user who connected from a few addresses, or had a few tokens, used up all
// connections of the server by ones that requested nothing.
func TestOneUserTakesNotAllConnections(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	h.server.conns = 2
	var err error
	first, bob := h.dial(), h.config
	h.config.Token, err = users.Add(h.tokens, "alice")
	require.NoError(t, err)
	h.dial()
	_, err = Dial(t.Context(), h.config)
	require.ErrorContains(t, err, "alice has 3 connections; the limit is 2")
	require.True(t, Transient(err), "one may end")
	bob.Token, err = users.Add(h.tokens, "bob")
	require.NoError(t, err)
	second, err := Dial(t.Context(), bob)
	require.NoError(t, err)
	second.Close()

	first.Close()
	require.Eventually(t, func() bool {
		again, err := Dial(t.Context(), h.config)
		if err == nil {
			again.Close()
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
}

// Programs that send other things beside the same requests could not tell each other so.
func TestAnotherProtocolIsRefusedAtOnce(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	w, _, err := newWorld(nil, rpc.Config{Token: []byte(h.config.Token), Sealed: true})
	require.NoError(t, err)
	next := fmt.Sprintf("SaveDesk%d", protocol+1)
	rpc.Bind(w, rpc.NewClass(next), func(*rpc.Actor) *Client { return nil })
	_, err = h.config.Connect(t.Context(), w)
	closed, is := errors.AsType[*rpc.CloseError](err)
	require.True(t, is, err)
	require.Equal(t, rpc.ProtocolMismatch, closed.Code)
	require.Contains(t, closed.Reason, next)
}

// A refusal wrote to the log, and to the answer, the name that the client had
// sent: 300 KB for a request of 60 KB.
func TestRefusalsAreShort(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	var log testkit.Log
	require.NoError(t, h.server.World().Do(t.Context(), func() { h.server.log = slog.New(slog.NewTextHandler(&log, nil)) }))
	c, long := h.dial(), strings.Repeat("\x00", 60_000)
	_, err := askGet.Ask(t.Context(), c.Desk(), getArgs{Name: long})
	require.ErrorIs(t, err, versions.ErrNoSave)
	_, err = askList.Ask(t.Context(), c.Desk(), listArgs{Name: long})
	require.ErrorIs(t, err, versions.ErrNoSave)
	_, err = Restore.Ask(t.Context(), c.Desk(), Edit{Name: long, Machine: "pc"})
	require.ErrorIs(t, err, versions.ErrNoSave)
	_, err = Remove.Ask(t.Context(), c.Desk(), Edit{Name: long, Machine: "pc"})
	require.ErrorIs(t, err, versions.ErrNoSave)
	_, err = Erase.Ask(t.Context(), c.Desk(), Edit{Name: long, Machine: "pc"})
	require.ErrorIs(t, err, versions.ErrNoSave)
	_, err = Remove.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: long})
	require.ErrorIs(t, err, users.ErrName)
	_, err = askPut.Ask(t.Context(), c.Desk(), putArgs{Request: versions.Request{Name: long, Machine: "pc"}})
	require.ErrorIs(t, err, users.ErrName)
	lines := log.Take()
	require.Equal(t, 7, strings.Count(lines, "\n"))
	require.Less(t, len(lines), 10_000)
}
