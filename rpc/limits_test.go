package rpc

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link"
)

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
		{Config{MaxConns: -1}, "Config.MaxConns is -1; it must not be negative"},
		{Config{HandshakeTimeout: -1}, "Config.HandshakeTimeout is -1"},
		{Config{GameVersion: strings.Repeat("9", 65)}, "rpc: Config.GameVersion has 65 bytes; the limit is 64"},
		{Config{GameVersion: "1.4\xff"}, `rpc: Config.GameVersion is "1.4\xff", which is not valid UTF-8`},
		{Config{Token: make([]byte, 5000)}, "Config.Token has 5000 bytes; the limit is 4096"},
		{Config{ReceiveBudget: 1000}, "Config.ReceiveBudget is 1000 bytes; a single connection needs 262144"},
		{Config{ReceiveLimit: 10}, "Config.ReceiveLimit is 10 bytes; the minimum is 262144"},
		{Config{SendLimit: -1}, "Config.SendLimit is -1; it must not be negative"},
		{Config{SendBudget: -1}, "Config.SendBudget is -1; it must not be negative"},
		{Config{ReceiveLimit: 600 << 20}, "Config.ReceiveLimit is 629145600 bytes; the limit is 536870912 (Config.ReceiveBudget): raise it or lower ReceiveLimit"},
		{Config{ReceiveLimit: 2 << 20, ReceiveBudget: 1 << 20}, "Config.ReceiveLimit is 2097152 bytes; the limit is 1048576 (Config.ReceiveBudget)"},
		{Config{SendLimit: 1 << 30, SendBudget: 1 << 29}, "Config.SendLimit is 1073741824 bytes; the limit is 536870912 (Config.SendBudget): raise it or lower SendLimit"},
		{Config{MaxConns: 2049}, "Config.MaxConns is 2049; the limit is 2048, or more if Config.ReceiveBudget (536870912) has 262144 bytes for each: raise it or lower MaxConns"},
		{Config{MaxConns: math.MaxInt, ReceiveBudget: 1 << 20}, "; the limit is 1024, or more if Config.ReceiveBudget (1048576)"},
		{Config{SendBudget: 1000}, "Config.SendBudget is 1000 bytes; the minimum is 65536"},
		{Config{SendLimit: 1}, "Config.SendLimit is 1 byte; the minimum is 65536"},
		{Config{TickRate: 1e9}, "Config.TickRate is 1000000000; the maximum is 1000 ticks a second"},
		{Config{TickRate: 1001}, "Config.TickRate is 1001; the maximum is 1000"},
		{Config{HelloTimeout: 11 * time.Second}, "Config.HelloTimeout is 11s; the limit is 10s (Config.HandshakeTimeout)"},
		{Config{KeepAlive: 31 * time.Second}, "Config.KeepAlive is 31s; the limit is 30s (Config.IdleTimeout)"},
		{Config{KeepAlive: 10 * time.Second, IdleTimeout: 5 * time.Second}, "Config.KeepAlive is 10s; the limit is 5s (Config.IdleTimeout)"},
		{Config{IdleTimeout: 30}, "Config.IdleTimeout is 30ns; the minimum is 1ms: give it a unit, such as time.Second"},
		{Config{HandshakeTimeout: 10}, "Config.HandshakeTimeout is 10ns; the minimum"},
		{Config{HelloTimeout: 2}, "Config.HelloTimeout is 2ns; the minimum"},
		{Config{KeepAlive: 10}, "Config.KeepAlive is 10ns; the minimum"},
		{Config{RefuseLoginElsewhere: true}, "Config.RefuseLoginElsewhere is set without a limit: set Config.MaxConnsPerIdentity as well"},
		{Config{DispatchTime: 2}, "Config.DispatchTime is 2ns; the minimum is 10µs: give it a unit, such as time.Millisecond"},
		{Config{RequestTime: 10}, "Config.RequestTime is 10ns; the minimum"},
		{Config{Bunch: bunch.Config{IdleTimeout: 10}}, "Config.Bunch.IdleTimeout is 10ns; the minimum"},
		{Config{Bunch: bunch.Config{Client: true}}, "Config.Bunch.Client is set: leave it to the world"},
		{Config{Bunch: bunch.Config{ReceiveLimit: 1 << 20}}, "Config.Bunch.ReceiveLimit is set: set Config.ReceiveLimit instead"},
		{Config{Bunch: bunch.Config{SendLimit: 1 << 20}}, "Config.Bunch.SendLimit is set: set Config.SendLimit instead"},
		{Config{Bunch: bunch.Config{KeepAlive: time.Second}}, "Config.Bunch.KeepAlive is set: set Config.KeepAlive instead"},
		{Config{Bunch: bunch.Config{Rate: 1000}}, "Config.Bunch.Rate is set: set Config.Rate instead"},
		{Config{Bunch: bunch.Config{Random: func(int) int { return 0 }}}, "Config.Bunch.Random is set: leave it to the world"},
		{Config{Bunch: bunch.Config{ReliableBuffer: 100}}, "invalid Config.Bunch: "},
		{Config{Bunch: bunch.Config{MaxBunch: 1}}, "Config.Bunch.MaxBunch is 1; the minimum is 138, which messages of rpc need"},
		{Config{Bunch: bunch.Config{MaxBunch: 137}}, "Config.Bunch.MaxBunch is 137; the minimum is 138"},
		{Config{Bunch: bunch.Config{MaxBunch: 150}, Token: make([]byte, 150)}, "Config.Token has 150 bytes, for which a login has 153; the limit is 150 (Config.Bunch.MaxBunch)"},
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

// TestDefaultsStayBelowBudgets: a budget below the default of the limit that it contains lowers the
// default.
func TestDefaultsStayBelowBudgets(t *testing.T) {
	w := newTestWorld(t, Config{ReceiveBudget: 1 << 20, SendBudget: 1 << 20})
	require.Equal(t, 1<<20, w.config.ReceiveLimit)
	require.Equal(t, 1<<20, w.config.SendLimit)
}

// TestDefaultsStayBelowOtherTimes: a short time lowers the defaults of those that it limits.
func TestDefaultsStayBelowOtherTimes(t *testing.T) {
	w := newTestWorld(t, Config{IdleTimeout: 3 * time.Second, HandshakeTimeout: time.Second})
	require.Equal(t, 1500*time.Millisecond, w.config.KeepAlive)
	require.Equal(t, time.Second, w.config.HelloTimeout)
	w = newTestWorld(t, Config{IdleTimeout: time.Millisecond, KeepAlive: -1})
	require.Zero(t, w.config.KeepAlive)
	newTestWorld(t, Config{IdleTimeout: time.Millisecond})
}

// TestHighestLimitsJoin: a game may set a limit to the highest number in order to lift it. None of
// them overflows, so clients join and calls arrive, over QUIC and sealed. An IdleTimeout that
// overflowed ended connections at once.
func TestHighestLimitsJoin(t *testing.T) {
	for _, isSealed := range []bool{false, true} {
		highest := Config{
			Sealed: isSealed, TickRate: maxTickRate,
			MaxConns: math.MaxInt / minReceiveLimit, MaxHandshakes: math.MaxInt, RetryAbove: math.MaxInt,
			MaxHandshakesPerAddress: math.MaxInt, MaxConnsPerAddress: math.MaxInt, MaxConnsPerIdentity: math.MaxInt,
			MaxLoginFailures: math.MaxInt, MaxLocalCalls: math.MaxInt, MaxRequests: math.MaxInt, MaxPosts: math.MaxInt,
			MaxRPCPerNetUpdate: math.MaxInt, MessageRate: math.Inf(1), Rate: math.MaxInt, WorldRate: math.MaxInt,
			ReceiveBudget: math.MaxInt, ReceiveLimit: math.MaxInt, SendBudget: math.MaxInt, SendLimit: math.MaxInt,
			DispatchTime: math.MaxInt64, HandshakeTimeout: math.MaxInt64, HelloTimeout: math.MaxInt64,
			RequestTime: math.MaxInt64, IdleTimeout: math.MaxInt64, KeepAlive: math.MaxInt64,
			Bunch: bunch.Config{IdleTimeout: math.MaxInt64},
		}
		overSealedWith(t, clean, highest, highest, func(n *sealedNet) {
			a := n.spawn(0)
			for range 90 {
				require.NoError(t, hit.Call(a, 1))
				n.tick(1)
			}
			require.Contains(t, n.clients[0].take(), "hit")
			require.NoError(t, n.ends[0].Err())
		})
	}
}

// TestSmallestMaxBunchJoins: worlds with the smallest MaxBunch join each other and a world with the
// default, over QUIC and sealed.
func TestSmallestMaxBunchJoins(t *testing.T) {
	least := Config{Bunch: bunch.Config{MaxBunch: control.MinBunch}}
	inNet(t, 1, least, func(n *network) {
		n.join(Config{})
		n.named(-1, "x", AlwaysRelevant())
		n.tick(3)
		for _, client := range n.clients {
			require.Equal(t, []string{"open x"}, client.take())
		}
	})
	least.Sealed = true
	overSealedWith(t, clean, least, least, func(n *sealedNet) {
		n.opened()
		require.True(t, n.conns[0].Sealed())
	})
}

// TestTimesOfAllLengths: a duration is longer than an int where that has 32 bits.
func TestTimesOfAllLengths(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second, time.Minute, 24 * time.Hour} {
		_, err := NewWorld(Config{HandshakeTimeout: d, HelloTimeout: d, IdleTimeout: d})
		require.NoError(t, err, "%v", d)
	}
	_, err := NewWorld(Config{IdleTimeout: -time.Second})
	require.ErrorContains(t, err, "Config.IdleTimeout is -1s")
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
		{&quic.ApplicationError{ErrorCode: 78, ErrorMessage: "r", Remote: true}, ValidationFailed, true, "rpc: connection closed by the peer: ValidationFailed: r"},
		{&quic.IdleTimeoutError{}, ConnectionTimeout, false, "rpc: connection closed: ConnectionTimeout: no QUIC packet from the peer within the idle timeout (the shorter Config.IdleTimeout of the two ends)"},
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

// TestTemporaryCloseErrors: a client may try again after these errors, but not after a refusal.
func TestTemporaryCloseErrors(t *testing.T) {
	for _, code := range []Code{ConnectionTimeout, ConnectionLost, ServerFull, ServerBusy, HandshakeTimeout} {
		require.True(t, (&CloseError{Code: code}).Temporary(), code)
	}
	require.True(t, (&CloseError{Code: HostClosedConnection, Remote: true}).Temporary(), "the server shuts down")
	require.False(t, (&CloseError{Code: HostClosedConnection}).Temporary(), "we left")
	for _, code := range []Code{0, ProtocolMismatch, PreLoginFailure, LoginElsewhere, RPCDoS, 5000} {
		require.False(t, (&CloseError{Code: code}).Temporary(), code)
	}
}

// TestCodesHaveNames keeps the table in step with the constants.
func TestCodesHaveNames(t *testing.T) {
	for c := HostClosedConnection; c <= RPCDoS; c++ {
		require.False(t, strings.HasPrefix(c.String(), "Code("), "code %d", uint16(c))
	}
	require.Equal(t, "ReliableBufferOverflow", ReliableBufferOverflow.String())
	require.Equal(t, "Code(5000)", Code(5000).String())
	require.Equal(t, "CloseReason(9)", CloseReason(9).String())
}
