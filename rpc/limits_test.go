package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
)

func TestBudget(t *testing.T) {
	const least, limit = minReceiveLimit, 4 << 20
	b := newBudget(64<<20, 128)
	t.Log("# whoever grows leaves enough for all that may come")
	grown := 0
	for range 128 {
		require.True(t, b.enter())
		held := least
		for range 10 {
			more := b.grow(held, limit)
			require.LessOrEqual(t, more, limit)
			held = more
		}
		grown += held
	}
	require.Equal(t, grown, b.reserved)
	require.Greater(t, grown, 48<<20)
	require.LessOrEqual(t, grown, 64<<20)
	for range 127 {
		b.leave(least)
	}
	b.leave(grown - 127*least)
	require.Zero(t, b.reserved)
	require.Equal(t, 128*least, b.kept())

	small := newBudget(3*least, 128)
	require.True(t, small.enter())
	require.Equal(t, least, small.grow(least, limit), "all is kept for others")
}

// TestBudgetOfIdleConnections: those that join and do nothing leave half of what is not kept for all to those that use it, and
// whoever leaves gives all of it back.
func TestBudgetOfIdleConnections(t *testing.T) {
	const least, limit, conns, total = minReceiveLimit, 4 << 20, 1024, 512 << 20
	b := newBudget(total, conns)
	var held []int
	for range conns / 2 {
		require.True(t, b.enter())
		held = append(held, b.join(limit))
	}
	require.Equal(t, limit, held[0])
	require.Less(t, held[31], 2<<20)
	require.Less(t, held[conns/2-1], 2*least)
	require.LessOrEqual(t, b.reserved, total-b.kept()-(total-conns*least)/2)
	for i := conns/2 - 1; i > conns/2-17; i-- {
		for range 10 {
			held[i] = b.grow(held[i], limit)
		}
		require.Equal(t, limit, held[i], "who needs it has it")
	}
	for _, n := range held {
		b.leave(n)
	}
	require.Zero(t, b.reserved)

	full := newBudget(conns*least, conns)
	require.True(t, full.enter())
	require.Equal(t, least, full.join(limit), "all is kept for others")
	require.Equal(t, least, newBudget(least, conns).join(limit))
}

// TestBudgetOfAFullWorld: connections that come before those that make room for them have left change nothing that lasts.
func TestBudgetOfAFullWorld(t *testing.T) {
	const conns = 2
	b := newBudget(64<<20, conns)
	for range conns {
		require.True(t, b.enter())
	}
	for range 50 {
		require.True(t, b.enter(), "the newcomer, before who makes room")
		require.Zero(t, b.kept())
		b.leave(minReceiveLimit)
		require.Zero(t, b.kept())
	}
	for range conns {
		b.leave(minReceiveLimit)
	}
	require.Zero(t, b.reserved)
	require.Equal(t, conns*minReceiveLimit, b.kept())
}

func TestCallLimit(t *testing.T) {
	var l callLimit
	now := time.Unix(1000, 0)
	allowed := func(rate float64) (n int) {
		for l.allow(rate, now) {
			n++
		}
		return n
	}
	require.Equal(t, 5, allowed(5), "one second's worth at once")
	now = now.Add(400 * time.Millisecond)
	require.Equal(t, 2, allowed(5))
	now = now.Add(-time.Hour)
	require.Zero(t, allowed(5), "a clock that runs back gives nothing")
	now = now.Add(2 * time.Hour)
	require.Equal(t, 5, allowed(5))

	l = callLimit{}
	require.Equal(t, 1, allowed(0.5), "at least one call")
	now = now.Add(time.Second)
	require.Zero(t, allowed(0.5))
	now = now.Add(time.Second)
	require.Equal(t, 1, allowed(0.5))
}

func TestWarnGate(t *testing.T) {
	var g warnGate
	now := time.Unix(1000, 0)
	for i, want := range []string{"0 true", "0 false", "0 false"} {
		hidden, ok := g.pass(now.Add(time.Duration(i)))
		require.Equal(t, want, fmt.Sprint(hidden, ok))
	}
	hidden, ok := g.pass(now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 2, hidden)
}

func TestLogLevelChangesAtRunTime(t *testing.T) {
	var out bytes.Buffer
	w := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.log.Debug("one")
	w.SetLogLevel(slog.LevelDebug)
	w.log.With("a", 1).WithGroup("g").Debug("two", "b", 2)
	w.SetLogLevel(slog.LevelError)
	w.log.Warn("three")
	require.NotContains(t, out.String(), "one")
	require.Contains(t, out.String(), "msg=two a=1 g.b=2")
	require.NotContains(t, out.String(), "three")
}

func TestConfigThatCanNotBe(t *testing.T) {
	for _, row := range []struct {
		config Config
		want   string
	}{
		{Config{MaxConns: -1}, "Config.MaxConns is -1, must not be negative"},
		{Config{HandshakeTimeout: -1}, "Config.HandshakeTimeout is -1"},
		{Config{Token: make([]byte, 5000)}, "Config.Token has 5000 bytes, the limit is 4096"},
		{Config{ReceiveBudget: 1000}, "Config.ReceiveBudget is 1000 bytes, one connection needs 262144"},
		{Config{ReceiveLimit: 10}, "Config.ReceiveLimit is 10 bytes, every connection has at least 262144"},
		{Config{Bunch: bunch.Config{ReliableBuffer: 100}}, "Config.Bunch is not valid"},
		{Config{Classes: []*Class{NewClass("A"), NewClass("A")}}, `two classes are named "A"`},
	} {
		_, err := NewWorld(row.config)
		require.ErrorContains(t, err, row.want)
	}
	w := newTestWorld(t, Config{})
	require.Panics(t, func() { Bind(w.World, hero, w.construct) }, "bound twice")
	w.freeze()
	require.Panics(t, func() { Bind(w.World, NewClass("Late"), w.construct) }, "after the first connection")
}

func TestCloseErrors(t *testing.T) {
	lost := io.ErrUnexpectedEOF
	for _, row := range []struct {
		err    error
		code   Code
		remote bool
		text   string
	}{
		{&CloseError{Code: 7, Reason: "r"}, 7, false, "rpc: connection closed: BunchDataOverflow: r"},
		{&link.CloseError{Code: 64, Reason: "r", Remote: true}, HostClosedConnection, true, "rpc: connection closed by the peer: HostClosedConnection: r"},
		{&link.CloseError{Code: 1 << 40, Reason: "r"}, ConnectionLost, false, "rpc: connection closed: ConnectionLost: r"},
		{&bunch.Error{Code: bunch.MaxReliableExceeded, Reason: "r"}, Code(bunch.MaxReliableExceeded), false, "rpc: connection closed: MaxReliableExceeded: r"},
		{&quic.ApplicationError{ErrorCode: 79, ErrorMessage: "r", Remote: true}, ValidationFailed, true, "rpc: connection closed by the peer: ValidationFailed: r"},
		{&quic.IdleTimeoutError{}, ConnectionTimeout, false, "rpc: connection closed: ConnectionTimeout: no packet from the peer within the idle timeout"},
		{lost, ConnectionLost, false, "rpc: connection closed: ConnectionLost: unexpected EOF"},
		{nil, 0, false, "rpc: connection closed: NoError: closed"},
	} {
		e := closeErrorOf(row.err)
		require.Equal(t, row.code, e.Code)
		require.Equal(t, row.remote, e.Remote)
		require.EqualError(t, e, row.text)
		require.ErrorIs(t, e, ErrClosed)
	}
	require.ErrorIs(t, closeErrorOf(lost), lost)
	require.False(t, errors.Is(closeErrorOf(nil), lost))
}

// TestCodesHaveNames keeps the table in step with the constants.
func TestCodesHaveNames(t *testing.T) {
	for c := HostClosedConnection; c <= ValidationFailed; c++ {
		require.False(t, strings.HasPrefix(c.String(), "Code("), "code %d", uint16(c))
	}
	require.Equal(t, "ReliableBufferOverflow", ReliableBufferOverflow.String())
	require.Equal(t, "Code(5000)", Code(5000).String())
	require.Equal(t, "CloseReason(9)", CloseReason(9).String())
}
