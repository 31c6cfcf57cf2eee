// Arena is a shooter without graphics. 16 bots fight at 30 Hz, and one more joins late and
// downloads the level while it plays. All of them share the server's uplink of 20 Mbit/s, on a bad
// network. At the end, the program prints how the download affected the players.
//
// Read the files in this order: game.go declares what both ends share, server.go is the
// authority, bot.go is a player, felt.go measures, and main.go connects everything over
// sockets. arena_test.go plays the same match in virtual time.
package main

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// The rules. Lengths are in metres.
const (
	TickRate  = 30
	LevelSize = 4 << 20

	Side     = 300 // the arena is a square from 0 to Side
	Sight    = 100 // each player sees about half of the others
	Speed    = 8.0 // metres per second
	Reach    = 80
	Health   = 100
	Damage   = 2
	Magazine = 60
	Cooldown = 100 * time.Millisecond
	Reload   = 2 * time.Second
	Down     = 3 * time.Second // time for which a killed fighter stays down
)

// A class is declared once, in code shared by client and server. While Unreal declares a UCLASS
// with its UPROPERTYs and UFUNCTIONs, here a class, its states and its calls are variables, which
// the ends compare during the handshake.
var (
	// AFighter : ACharacter. CullDistance is the root of NetCullDistanceSquared.
	FighterClass = rpc.NewClass("Fighter", rpc.CullDistance(Sight))
	FighterPose  = rpc.NewState[Pose](FighterClass) // GetLifetimeReplicatedProps

	Steer    = rpc.Server[Input](FighterClass, "Steer", rpc.UnreliableSequenced, rpc.RateLimit(2*TickRate))
	Shoot    = rpc.Server[Shot](FighterClass, "Shoot", rpc.Reliable, rpc.RateLimit(15))
	Download = rpc.Server[rpc.None](FighterClass, "Download", rpc.Reliable, rpc.RateLimit(1))

	Hit    = rpc.Client[Wound](FighterClass, "Hit", rpc.Reliable)    // to the player who was hit
	Landed = rpc.Client[Wound](FighterClass, "Landed", rpc.Reliable) // to the player who shot
	// A client shows who killed it, so the call waits until that actor is open on the client
	// (net.DelayUnmappedRPCs).
	Killed = rpc.Client[rpc.Ref](FighterClass, "Killed", rpc.Reliable, rpc.WaitForActors())
	Boom   = rpc.Multicast[Spot](FighterClass, "Boom", rpc.Unreliable)

	// AGameState, with its PlayerArray as an FFastArraySerializer, so that only changed rows are
	// sent.
	MatchClass  = rpc.NewClass("Match")
	MatchScores = rpc.NewList[rpc.Ref, Score](MatchClass, "Scores")

	// The level is too large for an RPC or a property, so it is sent as a stream, which uses the
	// rate that play (the game's own traffic) leaves.
	Level = stream.NewBlob("level")
)

// Pose is the replicated state of a fighter. A tag is a replication condition or a rounding, as by
// FVector_NetQuantize.
type Pose struct {
	Stamp  Stamp   // when the server wrote it
	X, Y   float32 `quiver:"quant=0.01"`
	Yaw    float32 `quiver:"quant=0.01"`
	Health uint8
	// Target is the fighter that it aims at. In Unreal, this would be a replicated AActor*, which
	// is an FNetworkGUID on the wire.
	Target rpc.Ref
	Ammo   uint8  `quiver:"owner"`          // COND_OwnerOnly
	Name   string `quiver:"initial,max=16"` // COND_InitialOnly
}

// Score is a fighter's row in the list of scores.
type Score struct {
	Name          string `quiver:"max=16"`
	Kills, Deaths uint16
}

// Input is what a player wants to do. It is sent in each tick, so that the next one replaces a lost
// one.
type Input struct {
	Yaw    float32
	Target rpc.Ref
}

// Validate is one half of Unreal's WithValidation. It checks whether the argument makes sense at
// all. The condition names the allowed values, because every comparison with NaN is false.
func (i Input) Validate() error {
	if i.Yaw >= -4 && i.Yaw <= 4 {
		return nil
	}
	return fmt.Errorf("yaw is %v; must be between -4 and 4", i.Yaw)
}

// Shot is a shot at another fighter. It contains what the shooter saw, which the server verifies.
// It has two stamps because a client's copies of two fighters may be from different times, which
// differ a lot on a bad network.
type Shot struct {
	Target      rpc.Ref
	Seen, Stood Stamp // of the target's pose and of the shooter's own, as the shooter saw them
	Fired       Stamp // by the shooter's clock; only differences count
}

// Wound reports a hit.
type Wound struct {
	Other rpc.Ref
	Sent  Stamp // when the server sent it; see felt.go
}

// Spot is a point in the arena.
type Spot struct{ X, Y float32 }

// To returns the distance to another spot.
func (s Spot) To(other Spot) float32 {
	return float32(math.Hypot(float64(other.X-s.X), float64(other.Y-s.Y)))
}

// Spot returns the position.
func (p Pose) Spot() Spot { return Spot{p.X, p.Y} }

// Stamp is a time in milliseconds, truncated to 32 bits, which are enough for differences.
type Stamp uint32

// StampOf returns the stamp of a time.
func StampOf(t time.Time) Stamp { return Stamp(t.UnixMilli()) }

// Since returns the time from earlier to s. It is negative if s is the earlier one.
func (s Stamp) Since(earlier Stamp) time.Duration {
	return time.Duration(int32(s-earlier)) * time.Millisecond
}
