package rpc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/sealed"
)

func someHello() hello {
	return hello{
		Version: protocolVersion, Features: 1<<63 | 5, Shape: [32]byte{1, 31: 2},
		Params: bunch.Params{ReliableBuffer: 256, MaxBunch: 65536, History: 4096, MaxChannels: 32767, AckDelay: 40 * time.Millisecond},
	}
}

func TestControlRoundTrip(t *testing.T) {
	for _, test := range []struct {
		payload []byte
		want    any
	}{
		{appendHello(nil, someHello()), someHello()},
		{appendHello(nil, hello{}), hello{}},
		{appendLogin(nil, login{Token: []byte("secret")}), login{Token: []byte("secret")}},
		{appendLogin(nil, login{}), login{}},
		{appendLogin(nil, login{Token: bytes.Repeat([]byte{1}, maxToken)}), login{Token: bytes.Repeat([]byte{1}, maxToken)}},
		{appendWelcome(nil, welcome{Identity: "anna"}), welcome{Identity: "anna"}},
		{appendJoin(nil), join{}},
		{appendShape(nil, []string{"a: b", ""}), shapeLines{Lines: []string{"a: b", ""}}},
		{appendShape(nil, nil), shapeLines{}},
	} {
		requireMessage(t, test.want, test.payload)
	}
}

// requireMessage parses a payload, and nothing shorter or longer.
func requireMessage(t *testing.T, want any, payload []byte) {
	t.Helper()
	message, err := parseControl(payload)
	require.NoError(t, err)
	require.Equal(t, want, message)
	for i := 1; i < len(payload); i++ {
		_, err := parseControl(payload[:i])
		requireCode(t, ControlChannelMessagePayloadFail, err)
	}
	_, err = parseControl(append(payload, 0))
	requireCode(t, ControlChannelMessagePayloadFail, err)
}

func requireCode(t *testing.T, want Code, err error) {
	t.Helper()
	var c *controlError
	require.ErrorAs(t, err, &c)
	require.Equal(t, want, c.Code, "%v", err)
	code, reason := c.CloseCode()
	require.Equal(t, uint64(want), code)
	require.NotEmpty(t, reason)
}

func TestControlRefuses(t *testing.T) {
	huge := someHello()
	huge.Params.MaxBunch = maxParam + 1
	slow := someHello()
	slow.Params.AckDelay = 2 * maxAckDelay
	for _, test := range []struct {
		payload []byte
		code    Code
		want    string
	}{
		{nil, ControlChannelMessagePayloadFail, "empty"},
		{[]byte{3}, ControlChannelMessageUnknown, "control message 3 does not exist"},
		{appendHello(nil, huge), ControlChannelMessagePayloadFail, "Hello of 59 bytes: 1073741825 is above the limit of 1073741824"},
		{appendHello(nil, slow), ControlChannelMessagePayloadFail, "above the limit of 60000000"},
		{appendLogin(nil, login{Token: make([]byte, maxToken+1)}), ControlChannelMessagePayloadFail, "4097 is above the limit of 4096"},
		{appendWelcome(nil, welcome{Identity: strings.Repeat("a", maxIdentity+1)}), ControlChannelMessagePayloadFail, "Welcome of 1028 bytes: 1025 is above"},
		{[]byte{idLogin, 0xff, 0xff, 0xff, 0xff, 0x0f}, ControlChannelMessagePayloadFail, "above the limit"},
		{[]byte{idShape, 2, 0}, ControlChannelMessagePayloadFail, "flag 2 is neither 0 nor 1"},
		{[]byte{idShape, 0, 0xff, 0xff, 0x7f}, ControlChannelMessagePayloadFail, "above the limit of 4096"},
		{[]byte{idShape, 0, 2, 0}, ControlChannelMessagePayloadFail, "ends too early"},
		{[]byte{idJoin, 0}, ControlChannelMessagePayloadFail, "left over"},
	} {
		_, err := parseControl(test.payload)
		requireCode(t, test.code, err)
		require.ErrorContains(t, err, test.want)
	}
}

// A shape that does not fit one message is cut, and the difference is found in what is left or said to be beyond it.
func TestShapeIsCut(t *testing.T) {
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("Class.Method%d: Server, Reliable, none", i))
	}
	payload := appendShape(nil, lines)
	require.Less(t, len(payload), bunch.MaxBunchBytes)
	message, err := parseControl(payload)
	require.NoError(t, err)
	s := message.(shapeLines)
	require.True(t, s.Cut)
	require.Equal(t, lines[:len(s.Lines)], s.Lines)
	require.Greater(t, len(s.Lines), 1000)

	require.Equal(t, fmt.Sprintf("they differ after the first %d methods and fields", len(s.Lines)), s.difference(lines[:9_999]))
	require.Contains(t, s.difference(append([]string{"Extra: class 0"}, lines...)), `the world of the client has class "Extra"`)
	require.Equal(t, fmt.Sprintf("%q is missing at the client", lines[5]), s.difference(lines[:5]))
}

func FuzzControl(f *testing.F) {
	f.Add(appendHello(nil, someHello()))
	f.Add(appendLogin(nil, login{Token: []byte("secret")}))
	f.Add(appendWelcome(nil, welcome{Identity: "anna"}))
	f.Add(appendJoin(nil))
	f.Add(appendShape(nil, []string{"a: b", "c"}))
	f.Add(appendSealed(nil, idSealedOpen, 1))
	f.Add(appendSealed(nil, idSealedIDs, 1, sealed.ID{1}, sealed.ID{2}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		message, err := parseControl(payload)
		if err != nil {
			var c *controlError
			require.ErrorAs(t, err, &c)
			return
		}
		again, err := parseControl(appendControl(message))
		require.NoError(t, err)
		require.Equal(t, message, again)
	})
}

// appendControl encodes what parseControl returned.
func appendControl(message any) []byte {
	switch m := message.(type) {
	case hello:
		return appendHello(nil, m)
	case login:
		return appendLogin(nil, m)
	case welcome:
		return appendWelcome(nil, m)
	case shapeLines:
		b := appendShape(nil, m.Lines)
		if m.Cut {
			b[1] = 1
		}
		return b
	case sealedOpen:
		return appendSealed(nil, idSealedOpen, m.Instance)
	case sealedIDs:
		return appendSealed(nil, idSealedIDs, m.Instance, m.IDs...)
	case sealedShut:
		return appendSealed(nil, idSealedShut, m.Instance)
	case sealedAsk:
		return appendSealed(nil, idSealedAsk, m.Instance)
	}
	return appendJoin(nil)
}
