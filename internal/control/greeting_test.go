package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var control = map[string][]byte{
	"Hello":      AppendHello(nil, Hello{}),
	"Login":      AppendLogin(nil, Login{}),
	"Welcome":    AppendWelcome(nil, Welcome{}),
	"Join":       AppendJoin(nil),
	"Shape":      AppendShape(nil, nil, MinBunch),
	"SealedOpen": AppendSealed(nil, IDSealedOpen, 1),
	"SealedShut": AppendSealed(nil, IDSealedShut, 1),
}

func TestServerGreeting(t *testing.T) {
	g := NewGreeting(false)
	hears(t, &g, "Hello", "waiting for the client's Hello")
	hears(t, &g, "Login", "waiting for Login")
	hears(t, &g, "", "authenticating the client")
	g.Welcomed()
	hears(t, &g, "Join", "waiting for Join")
	require.True(t, g.Done())
	hears(t, &g, "", "the handshake was over")
}

func TestClientGreeting(t *testing.T) {
	g := NewGreeting(true)
	hears(t, &g, "Hello", "waiting for the server's Hello", "Shape")
	hears(t, &g, "Welcome", "waiting for Welcome")
	require.True(t, g.Done())
	hears(t, &g, "", "the handshake was over")
}

func TestClientIsToldTheShape(t *testing.T) {
	g := NewGreeting(true)
	hears(t, &g, "Shape", "waiting for the server's Hello", "Hello")
	hears(t, &g, "", "the handshake was over")
}

// The Login that followed Hello at once says nothing any more.
func TestRefusedGreeting(t *testing.T) {
	g := NewGreeting(false)
	hears(t, &g, "Hello", "waiting for the client's Hello")
	g.Refuse()
	for _, name := range []string{"Hello", "Welcome", "Join", "Shape"} {
		again := g
		_, err := again.Receive(control[name])
		requireKind(t, Fail, err)
	}
	message, err := g.Receive(control["Login"])
	require.NoError(t, err)
	require.Nil(t, message)
	hears(t, &g, "", "the handshake was over")
}

// hears feeds g every message but want and also, each to a copy, and requires that all
// are refused as arriving while g is at stage; then it feeds want, if any, to g itself.
func hears(t *testing.T, g *Greeting, want, stage string, also ...string) {
	t.Helper()
	for name, payload := range control {
		if name == want || len(also) > 0 && name == also[0] {
			continue
		}
		again := *g
		_, err := again.Receive(payload)
		requireKind(t, Fail, err)
		require.ErrorContains(t, err, name+" arrived while "+stage)
		require.Equal(t, *g, again, "a refused message does not step on")
	}
	_, err := g.Receive([]byte{77})
	requireKind(t, Unknown, err)
	if want == "" {
		return
	}
	message, err := g.Receive(control[want])
	require.NoError(t, err)
	require.NotNil(t, message)
}
