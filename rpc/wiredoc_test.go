package rpc

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
)

// The classes of WIRE.md's example.
var (
	wall      = NewClass("Wall")
	gate      = NewClass("Gate")
	gateKnock = Server[knock](gate, "Knock", Reliable)
	gateTry   = ServerRequest[uint16, bool](gate, "Try")
	gateLeaf  = NewState[leaf](gate)
	gateKeys  = NewList[uint16, uint8](gate, "Keys")
)

type (
	knock struct {
		Times int
		Who   string `quiver:"max=16"`
	}
	leaf struct {
		Open  bool
		Angle int16 `quiver:"range=0:90"`
	}
	gateObject struct {
		leaf leaf
		keys List[uint16, uint8]
	}
)

// gatehouse is the server of the example.
type gatehouse struct {
	*World
	actor  *Actor
	object *gateObject
	heard  []string
}

func newGatehouse(t *testing.T) *gatehouse {
	s := &gatehouse{}
	note := func(what ...any) { s.heard = append(s.heard, fmt.Sprint(what...)) }
	w, err := NewWorld(Config{
		Classes: []*Class{wall},
		Authenticate: func(_ context.Context, token []byte) (string, error) {
			note("login ", string(token))
			return "anna", nil
		},
	})
	require.NoError(t, err)
	s.World = w
	b := Bind(w, gate, func(*Actor) *gateObject { return new(gateObject) })
	Replicate(b, gateLeaf, func(o *gateObject) *leaf { return &o.leaf })
	ReplicateList(b, gateKeys, func(o *gateObject) *List[uint16, uint8] { return &o.keys })
	On(b, gateKnock, func(_ *gateObject, _ *Call, k knock) { note("knock ", k.Times, " of ", k.Who) })
	OnRequest(b, gateTry, func(_ *gateObject, _ *Call, n uint16) (bool, error) { return n == 4711, nil })
	w.OnConnect(func(c *Conn) {
		s.actor, s.object, err = Spawn(b, c, func(o *gateObject) {
			o.leaf.Angle = 30
			require.NoError(t, o.keys.Set(7, 1))
		})
		require.NoError(t, err)
	})
	return s
}

func wireText(t *testing.T) string {
	text, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	return string(text)
}

// wireBlock returns the lines of a block of WIRE.md, without their comments.
func wireBlock(t *testing.T, kind string) (lines []string) {
	_, block, found := strings.Cut(wireText(t), "```"+kind+"\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, ";")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// wireTurns returns the messages of the example. In each turn, which an empty
// line ends, the client's stand before the server's.
func wireTurns(t *testing.T) [][]string {
	turns := [][]string{nil}
	for _, line := range wireBlock(t, "hex") {
		if line == "" {
			turns = append(turns, nil)
			continue
		}
		words := strings.Fields(line)
		last := len(turns) - 1
		turns[last] = append(turns[last], strings.Join(words[:3], " ")+" "+strings.Join(words[3:], ""))
	}
	return turns
}

// TestWireExample sends a server the messages of the client in WIRE.md, and compares its answers.
func TestWireExample(t *testing.T) {
	turns := wireTurns(t)
	synctest.Test(t, func(t *testing.T) {
		server := newGatehouse(t)
		before := []func(){
			3: func() { server.object.leaf.Angle = 45 },
			4: func() {
				server.object.keys.Delete(7)
				require.NoError(t, server.object.keys.Set(8, 5))
			},
			5: func() { require.NoError(t, server.announced[0].SendMessage(9, []byte("hi"))) },
			7: func() { require.NoError(t, server.actor.SetDormant(true)) },
		}
		require.Len(t, turns, len(before))
		p := newRawPeer(t, server.World)
		for i, turn := range turns {
			if before[i] != nil {
				before[i]()
			}
			theirs := slices.IndexFunc(append(turn, "←"), func(line string) bool { return strings.HasPrefix(line, "←") })
			for _, line := range turn[:theirs] {
				p.sayAs(line)
			}
			require.Equal(t, append([]string(nil), turn[theirs:]...), p.hear(server.World), "turn %d", i)
		}
		require.Equal(t, []string{"login secret", "knock 2 of anna"}, server.heard)
		require.NoError(t, server.announced[0].Err())
		require.NoError(t, server.Close(context.Background(), 0, "end"))
		server.Tick(time.Now())
		p.closed()
	})
}

// sayAs sends a message as WIRE.md shows it.
func (p *rawPeer) sayAs(line string) {
	p.t.Helper()
	var channel uint64
	var payload []byte
	_, err := fmt.Sscanf(line, "→ %d reliable %x", &channel, &payload)
	require.NoError(p.t, err, line)
	p.send(channel, payload)
}

// hear has the server go on for half a second, and returns what it has said, as WIRE.md shows it.
func (p *rawPeer) hear(server *World) (said []string) {
	for range 10 {
		server.Tick(time.Now())
		time.Sleep(50 * time.Millisecond)
		var messages [16]bunch.Message
		p.link.Lock()
		n := p.machine.Take(messages[:])
		p.link.Unlock()
		for _, m := range messages[:n] {
			sort := "reliable"
			switch {
			case m.Open:
				sort = "open"
			case m.Close:
				sort = "close"
			case m.Delivery == bunch.Tracked:
				sort = "tracked"
			}
			said = append(said, fmt.Sprintf("← %d %s %x", m.Channel, sort, m.Payload))
		}
	}
	return said
}

// TestWireShape compares the lines of the example to those that a world makes
// of its classes, ordered by name.
func TestWireShape(t *testing.T) {
	server := newGatehouse(t)
	server.freeze()
	require.Equal(t, wireBlock(t, "shape"), server.table.shape.Lines)
	require.Contains(t, wireText(t), hex.EncodeToString(server.table.hash[:]))
}

// TestWireCodes holds the tables of codes and reasons to the constants.
func TestWireCodes(t *testing.T) {
	text := wireText(t)
	for code, name := range codeNames {
		require.Contains(t, text, fmt.Sprintf("| %d | %s |", code, name))
	}
	for reason := Destroyed; reason <= TearOff; reason++ {
		require.Contains(t, text, fmt.Sprintf("| %d | %v |", reason, reason))
	}
}

// TestServerSaysWhatItMayNot: a server sends a client's messages, messages of a
// feature that neither end has, and owner messages without meaning.
func TestServerSaysWhatItMayNot(t *testing.T) {
	owner := func(b ...byte) []byte { return append(binary.AppendUvarint(nil, ownerMethod), b...) }
	for name, row := range map[string]struct {
		control, call []byte
		code          Code
	}{
		"Missed":              {control.AppendMissed(nil), nil, ControlChannelMessageFail},
		"Welcome again":       {control.AppendWelcome(nil, control.Welcome{}), nil, ControlChannelMessageFail},
		"sealed, not agreed":  {control.AppendSealed(nil, control.IDSealedShut, 1), nil, ControlChannelMessageFail},
		"unknown":             {[]byte{99}, nil, ControlChannelMessageUnknown},
		"an owner's flag":     {nil, owner(2), PayloadFail},
		"no owner's flag":     {nil, owner(), PayloadFail},
		"an owner's and more": {nil, owner(1, 0), PayloadFail},
	} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 1, Config{}, func(n *network) {
				a := n.spawn(0)
				if row.control != nil {
					say(t, n.conns[0], row.control)
				} else {
					smuggle(t, a, row.call)
				}
				n.tick(4)
				closed := n.ends[0].closeError()
				require.Equal(t, row.code, closed.Code, closed.Reason)
				require.False(t, closed.Remote)
			})
		})
	}
}
