// Arena is a shooter without graphics: 16 bots fight at 30 Hz, and one more joins late and downloads the level while it plays. All
// of them share the server's uplink of 20 Mbit/s, on a bad network. At the end it prints what the players felt of the download.
//
// Read it in this order: game.go has what both ends declare, server.go the authority, bot.go a player, felt.go the measuring,
// main.go puts all on sockets. arena_test.go plays the same match in virtual time.
package main

import (
	"errors"
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
	Sight    = 100 // so that everybody sees about half of the others
	Speed    = 8.0 // a second
	Reach    = 80
	Health   = 100
	Damage   = 2
	Magazine = 60
	Cooldown = 100 * time.Millisecond
	Reload   = 2 * time.Second
	Down     = 3 * time.Second // how long a fighter lies there before it gets up
)

// A class is declared once, in what client and server share. In Unreal the UCLASS, its UPROPERTYs and its UFUNCTIONs are one
// declaration; here a class, its states and its calls are variables, and the ends compare them in the handshake.
var (
	// AFighter : ACharacter. CullDistance is the root of NetCullDistanceSquared.
	FighterClass = rpc.NewClass("Fighter", rpc.CullDistance(Sight))
	FighterPose  = rpc.NewState[Pose](FighterClass) // GetLifetimeReplicatedProps

	Steer    = rpc.Server[Input](FighterClass, "Steer", rpc.UnreliableSequenced, rpc.RateLimit(2*TickRate))
	Shoot    = rpc.Server[Shot](FighterClass, "Shoot", rpc.Reliable, rpc.RateLimit(15))
	Download = rpc.Server[rpc.None](FighterClass, "Download", rpc.Reliable, rpc.RateLimit(1))

	Hit    = rpc.Client[Wound](FighterClass, "Hit", rpc.Reliable)    // to who was hit
	Landed = rpc.Client[Wound](FighterClass, "Landed", rpc.Reliable) // to who shot
	// A client shows who killed it: the call waits for that actor if it is not open there yet (net.DelayUnmappedRPCs).
	Killed = rpc.Client[rpc.Ref](FighterClass, "Killed", rpc.Reliable, rpc.WaitForActors())
	Boom   = rpc.Multicast[Spot](FighterClass, "Boom", rpc.Unreliable)

	// AGameState with its PlayerArray as a FFastArraySerializer: only rows that changed travel.
	MatchClass  = rpc.NewClass("Match")
	MatchScores = rpc.NewList[rpc.Ref, Score](MatchClass, "Scores")

	// The level is too large for an RPC and for a property: it goes as a stream, behind all play.
	Level = stream.NewBlob("level")
)

// Pose is what a fighter replicates. A tag is a replication condition, or what FVector_NetQuantize does.
type Pose struct {
	Stamp  Stamp   // when the server had it
	X, Y   float32 `quiver:"quant=0.01"`
	Yaw    float32 `quiver:"quant=0.01"`
	Health uint8
	Target rpc.Ref // whom it aims at. UE: a replicated AActor*, which is a FNetworkGUID on the wire
	Ammo   uint8   `quiver:"owner"`          // COND_OwnerOnly
	Name   string  `quiver:"initial,max=16"` // COND_InitialOnly
}

// Score is a row of the scores, by fighter.
type Score struct {
	Name          string `quiver:"max=16"`
	Kills, Deaths uint16
}

// Input is what a player wants, told anew at each tick: what is lost is told again by the next one.
type Input struct {
	Yaw    float32
	Target rpc.Ref
}

// Validate is half of WithValidation: whether the argument makes sense at all. NaN does not, so say what is allowed.
func (i Input) Validate() error {
	if i.Yaw >= -4 && i.Yaw <= 4 {
		return nil
	}
	return errors.New("yaw is not between -π and π")
}

// Shot is a shot at somebody. It says what the shooter saw, and the server looks up whether that is so: two copies at a client
// may be of different times, and on a bad network by much.
type Shot struct {
	Target      rpc.Ref
	Seen, Stood Stamp // of the target's pose and of the shooter's own, at the shooter
	Fired       Stamp // by the shooter's clock, of which only the differences count
}

// Wound tells of a hit.
type Wound struct {
	Other rpc.Ref
	Sent  Stamp // for felt.go
}

// Spot is a point of the arena.
type Spot struct{ X, Y float32 }

// To is how far it is to another spot.
func (s Spot) To(other Spot) float32 {
	return float32(math.Hypot(float64(other.X-s.X), float64(other.Y-s.Y)))
}

func (p Pose) Spot() Spot { return Spot{p.X, p.Y} }

// Stamp is a time in milliseconds, cut to the 32 bits that subtracting needs.
type Stamp uint32

func StampOf(t time.Time) Stamp { return Stamp(t.UnixMilli()) }

// Since is how much later s is than earlier; negative if it is not.
func (s Stamp) Since(earlier Stamp) time.Duration {
	return time.Duration(int32(s-earlier)) * time.Millisecond
}
