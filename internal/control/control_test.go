package control

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/sealed"
)

func someHello() Hello {
	return Hello{
		Version: Version, Features: 1<<63 | 5, Shape: [32]byte{1, 31: 2}, GameVersion: "1.4.2",
		Params: bunch.Params{ReliableBuffer: 256, MaxBunch: 65536, History: 4096, MaxChannels: 32767, AckDelay: 40 * time.Millisecond},
	}
}

func helloOf(gameVersion string) Hello {
	h := someHello()
	h.GameVersion = gameVersion
	return h
}

func TestControlRoundTrip(t *testing.T) {
	for _, test := range []struct {
		payload []byte
		want    any
	}{
		{AppendHello(nil, someHello()), someHello()},
		{AppendHello(nil, Hello{Version: Version}), Hello{Version: Version}},
		{AppendHello(nil, helloOf(strings.Repeat("é", MaxGameVersion/2))), helloOf(strings.Repeat("é", MaxGameVersion/2))},
		{AppendHello(nil, helloOf("1\n\x00\u202e\"")), helloOf("1\n\x00\u202e\"")},
		{AppendLogin(nil, Login{Token: []byte("secret")}), Login{Token: []byte("secret")}},
		{AppendLogin(nil, Login{}), Login{}},
		{AppendLogin(nil, Login{Token: bytes.Repeat([]byte{1}, MaxToken)}), Login{Token: bytes.Repeat([]byte{1}, MaxToken)}},
		{AppendWelcome(nil, Welcome{Identity: "anna"}), Welcome{Identity: "anna"}},
		{AppendJoin(nil), Join{}},
		{AppendShape(nil, []string{"a: b", ""}, bunch.MaxBunchBytes), Shape{Lines: []string{"a: b", ""}}},
		{AppendShape(nil, nil, bunch.MaxBunchBytes), Shape{}},
		{AppendMissed(nil), Missed{}},
		{AppendAskTime(nil), AskTime{}},
		{AppendTime(nil, Time{}), Time{}},
		{AppendTime(nil, Time{Now: math.MinInt64, Held: 33 * time.Millisecond}), Time{Now: math.MinInt64, Held: 33 * time.Millisecond}},
		{AppendTime(nil, Time{Now: math.MaxInt64, Held: maxHeld}), Time{Now: math.MaxInt64, Held: maxHeld}},
	} {
		requireMessage(t, test.want, test.payload)
	}
}

// TestMinBunch: a Hello, and the messages that don't carry anything of the game's, fit into
// MinBunch bytes, whatever they contain.
func TestMinBunch(t *testing.T) {
	hello := Hello{Version: maxVersion, Features: math.MaxUint64, GameVersion: strings.Repeat("9", MaxGameVersion), Params: bunch.Params{
		ReliableBuffer: maxParam, MaxBunch: maxParam, History: maxParam, MaxChannels: maxParam, AckDelay: maxAckDelay,
	}}
	require.LessOrEqual(t, len(AppendHello(nil, hello)), MinBunch)
	ids := AppendSealed(nil, IDSealedIDs, math.MaxUint32, make([]sealed.ID, maxSealedIDs)...)
	require.LessOrEqual(t, len(ids), MinBunch)
	require.LessOrEqual(t, len(AppendTime(nil, Time{Held: maxHeld})), MinBunch)
}

// requireMessage parses a payload, and nothing shorter or longer.
func requireMessage(t *testing.T, want any, payload []byte) {
	t.Helper()
	message, err := Parse(payload)
	require.NoError(t, err)
	require.Equal(t, want, message)
	for i := 1; i < len(payload); i++ {
		_, err := Parse(payload[:i])
		requireKind(t, PayloadFail, err)
	}
	_, err = Parse(append(payload, 0))
	requireKind(t, PayloadFail, err)
}

func requireKind(t *testing.T, want Kind, err error) {
	t.Helper()
	var c *Error
	require.ErrorAs(t, err, &c)
	require.Equal(t, want, c.Kind, "%v", err)
	require.NotEmpty(t, c.Reason)
}

func TestControlRefuses(t *testing.T) {
	huge := someHello()
	huge.Params.MaxBunch = maxParam + 1
	slow := someHello()
	slow.Params.AckDelay = 2 * maxAckDelay
	for _, test := range []struct {
		payload []byte
		kind    Kind
		want    string
	}{
		{nil, PayloadFail, "empty"},
		{[]byte{3}, Unknown, "unknown control message 3"},
		{AppendHello(nil, huge), PayloadFail, "Hello of 65 bytes: 1073741825 is above the limit of 1073741824"},
		{AppendHello(nil, slow), PayloadFail, "above the limit of 60000000"},
		{AppendHello(nil, helloOf(strings.Repeat("1", MaxGameVersion+1))), PayloadFail, "65 is above the limit of 64"},
		{AppendHello(nil, helloOf("1.4\xff")), PayloadFail, "the game's version is not valid UTF-8"},
		{AppendHello(nil, helloOf("\xc3")), PayloadFail, "not valid UTF-8"},
		{AppendLogin(nil, Login{Token: make([]byte, MaxToken+1)}), PayloadFail, "4097 is above the limit of 4096"},
		{AppendWelcome(nil, Welcome{Identity: strings.Repeat("a", MaxIdentity+1)}), PayloadFail, "Welcome of 1028 bytes: 1025 is above"},
		{[]byte{idLogin, 0xff, 0xff, 0xff, 0xff, 0x0f}, PayloadFail, "above the limit"},
		{[]byte{idShape, 2, 0}, PayloadFail, "flag 2 is neither 0 nor 1"},
		{[]byte{idShape, 0, 0xff, 0xff, 0x7f}, PayloadFail, "above the limit of 4096"},
		{[]byte{idShape, 0, 2, 0}, PayloadFail, "is truncated"},
		{[]byte{idJoin, 0}, PayloadFail, "left over"},
	} {
		_, err := Parse(test.payload)
		requireKind(t, test.kind, err)
		require.ErrorContains(t, err, test.want)
	}
}

// A shape that does not fit into one message is cut. A client that could not
// parse the rest would not name the difference.
func TestShapeIsCut(t *testing.T) {
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("Class.Method%d: Server, Reliable, none", i))
	}
	payload := AppendShape(nil, lines, bunch.MaxBunchBytes)
	require.Less(t, len(payload), bunch.MaxBunchBytes)
	message, err := Parse(payload)
	require.NoError(t, err)
	s := message.(Shape)
	require.True(t, s.Cut)
	require.Equal(t, lines[:len(s.Lines)], s.Lines)
	require.Greater(t, len(s.Lines), 1000)

	for limit := MinBunch; limit < 300; limit++ {
		require.LessOrEqual(t, len(AppendShape(nil, lines, limit)), limit)
	}
	message, err = Parse(AppendShape(nil, lines, MinBunch))
	require.NoError(t, err)
	require.NotEmpty(t, message.(Shape).Lines)

	for _, row := range []struct {
		line        string
		lines, want int
	}{
		{"", 2 * maxShapeLines, maxShapeLines},
		{strings.Repeat("x", maxShapeBytes*3/4), 2, 1},
	} {
		message, err = Parse(AppendShape(nil, slices.Repeat([]string{row.line}, row.lines), bunch.MaxBunchBytes))
		require.NoError(t, err)
		require.Len(t, message.(Shape).Lines, row.want)
		require.True(t, message.(Shape).Cut)
	}
}

func FuzzControl(f *testing.F) {
	f.Add(AppendHello(nil, someHello()))
	f.Add(AppendHello(nil, helloOf("")))
	f.Add(AppendHello(nil, helloOf("1\n\x00\u202e\"")))
	f.Add(AppendHello(nil, helloOf(strings.Repeat("\xff", MaxGameVersion+1))))
	f.Add([]byte{idHello, Version - 1, 0xff})
	f.Add(AppendLogin(nil, Login{Token: []byte("secret")}))
	f.Add(AppendWelcome(nil, Welcome{Identity: "anna"}))
	f.Add(AppendJoin(nil))
	f.Add(AppendMessage(nil, Message{7, []byte("hello")}))
	f.Add(AppendTaken(nil, Taken{3}))
	f.Add(AppendMissed(nil))
	f.Add(AppendAskTime(nil))
	f.Add(AppendTime(nil, Time{Now: 1 << 60, Held: time.Second}))
	f.Add(AppendShape(nil, []string{"a: b", "c"}, bunch.MaxBunchBytes))
	f.Add(AppendSealed(nil, IDSealedOpen, 1))
	f.Add(AppendSealed(nil, IDSealedIDs, 1, sealed.ID{1}, sealed.ID{2}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		message, err := Parse(payload)
		if err != nil {
			var c *Error
			require.ErrorAs(t, err, &c)
			return
		}
		again, err := Parse(appendControl(message))
		require.NoError(t, err)
		require.Equal(t, message, again)
	})
}

// appendControl encodes what Parse returned.
func appendControl(message any) []byte {
	switch m := message.(type) {
	case Missed:
		return AppendMissed(nil)
	case AskTime:
		return AppendAskTime(nil)
	case Time:
		return AppendTime(nil, m)
	case Hello:
		return AppendHello(nil, m)
	case Login:
		return AppendLogin(nil, m)
	case Welcome:
		return AppendWelcome(nil, m)
	case Shape:
		b := AppendShape(nil, m.Lines, bunch.MaxBunchBytes)
		if m.Cut {
			b[1] = 1
		}
		return b
	case Message:
		return AppendMessage(nil, m)
	case Taken:
		return AppendTaken(nil, m)
	case Sealed:
		return AppendSealed(nil, m.Kind, m.Instance, m.IDs...)
	}
	return AppendJoin(nil)
}
