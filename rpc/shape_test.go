package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/shape"
)

type base struct {
	Kind  uint8
	Label string `msgpack:"label"`
}

// sizedOwn encodes itself, and says how large it gets.
type sizedOwn struct{}

func (sizedOwn) MaxEncodedSize() int             { return 90 }
func (*sizedOwn) MarshalBinary() ([]byte, error) { return nil, nil }
func (*sizedOwn) UnmarshalBinary([]byte) error   { return nil }

// playerClass declares a class whose Fire takes an A.
func playerClass[A any](d bunch.Delivery, names ...string) *Class {
	c := NewClass("Player")
	for _, name := range names {
		Server[A](c, name, d)
	}
	return c
}

func TestShapeLines(t *testing.T) {
	type args struct {
		base
		At   vector
		Kids []tree
		Map  map[string]*[2]byte `quiver:"max=4,key=9"`
		Own  sizedOwn
	}
	class := NewClass("Player")
	Server[args](class, "Fire", Reliable, RateLimit(5), AnyCaller())
	Client[Raw](class, "Hit", Unreliable)
	Multicast[None](class, "Blast", UnreliableSequenced)
	Server[packed](class, "Pack", ReliableUnordered)
	Server[[]uint16](class, "List", Reliable)
	lines := shapeOf([]*Class{NewClass("Empty"), class})
	require.Equal(t, []string{
		"Empty: class 0",
		"Player: class 1",
		"Player.Fire: Server, Reliable, struct",
		"Player.Fire.Kind: uint8",
		"Player.Fire.label: string",
		"Player.Fire.At: struct",
		"Player.Fire.At.X: float32",
		"Player.Fire.At.Y: float32",
		"Player.Fire.At.Z: float32",
		"Player.Fire.Kids: []",
		"Player.Fire.Kids[]: struct",
		"Player.Fire.Kids[].Value: int",
		"Player.Fire.Kids[].Kids: as Player.Fire.Kids",
		"Player.Fire.Kids[].Next: *",
		"Player.Fire.Kids[].Next*: as Player.Fire.Kids[]",
		"Player.Fire.Map: map, max 4",
		"Player.Fire.Map[key]: string, max 9",
		"Player.Fire.Map[value]: *",
		"Player.Fire.Map[value]*: [2]byte",
		"Player.Fire.Own: binary rpc.sizedOwn, at most 90 bytes",
		"Player.Hit: Client, Unreliable, raw",
		"Player.Blast: Multicast, UnreliableSequenced, none",
		"Player.Pack: Server, ReliableUnordered, binary rpc.packed",
		"Player.List: Server, Reliable, []",
		"Player.List[]: uint16",
	}, lines.Lines)
}

func TestShapesDiffer(t *testing.T) {
	type xy struct{ X, Y float32 }
	type xyAgain struct{ X, Y float32 }
	type xyz struct{ X, Y, Z float32 }
	type xi struct {
		X float32
		Y int32
	}
	type yx struct{ Y, X float32 }
	ours := []*Class{playerClass[xy](Reliable, "Fire", "Run")}
	for _, test := range []struct {
		name   string
		theirs []*Class
		want   string
	}{
		{"the same", []*Class{playerClass[xyAgain](Reliable, "Fire", "Run")}, ""},
		{"kind of a field", []*Class{playerClass[xi](Reliable, "Fire", "Run")}, `Player.Fire.Y is "float32" at the client and "int32" at the server`},
		{"more fields", []*Class{playerClass[xyz](Reliable, "Fire", "Run")}, `"Player.Fire.Z: float32" is missing at the client`},
		{"order of fields", []*Class{playerClass[yx](Reliable, "Fire", "Run")}, `"Player.Fire.X: float32" stands at the client where "Player.Fire.Y: float32" stands at the server`},
		{"delivery", []*Class{playerClass[xy](Unreliable, "Fire", "Run")}, `Player.Fire is "Server, Reliable, struct" at the client and "Server, Unreliable, struct" at the server`},
		{"fewer methods", []*Class{playerClass[xy](Reliable, "Fire")}, `"Player.Run: Server, Reliable, struct" is missing at the server`},
		{"more methods", []*Class{playerClass[xy](Reliable, "Fire", "Run", "Hide")}, `"Player.Hide: Server, Reliable, struct" is missing at the client`},
		{"no classes", nil, `the world of the client has class "Player" and that of the server has not: Bind it there, or name it in Config.Classes`},
		{"more classes", append(ours[:1:1], NewClass("Monster")), `the world of the server has class "Monster" and that of the client has not: Bind it there, or name it in Config.Classes`},
		{"a streamer at the server", append(ours[:1:1], declaredPipe()),
			`stream.Install was called at the server and not at the client ("Pipe: class 1, by stream.Install")`},
	} {
		here, there := shapeOf(ours), shapeOf(test.theirs)
		require.Equal(t, test.want == "", here.Hash() == there.Hash(), test.name)
		if test.want != "" {
			require.Equal(t, test.want, shape.Difference(here.Lines, there.Lines, false), test.name, "the client is ours")
		}
	}
}

// declaredPipe is a class that stream.Install adds.
func declaredPipe() *Class {
	class := NewClass("Pipe")
	extend.DeclaredBy(class, "stream.Install")
	return class
}

func TestDeclaredByNamesTheEndThatCallsIt(t *testing.T) {
	pipe := declaredPipe()
	Server[Raw](pipe, "Part", Reliable)
	with := shapeOf([]*Class{pipe, playerClass[int](Reliable, "Fire")})
	without := shapeOf([]*Class{playerClass[int](Reliable, "Fire")})
	require.Equal(t, `stream.Install was called at the client and not at the server ("Pipe: class 0, by stream.Install")`, shape.Difference(with.Lines, without.Lines, false))
	require.Equal(t, `stream.Install was called at the server and not at the client ("Pipe: class 0, by stream.Install")`, shape.Difference(without.Lines, with.Lines, false))
}
