package rpc

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGoldenShapeOfAClass: programs of different releases of Quiver must understand each other. The
// shapes of the types stand in internal/codec's golden tests; here is what a class makes of them.
func TestGoldenShapeOfAClass(t *testing.T) {
	type spell struct {
		ID   uint64
		Name string `quiver:"max=24"`
	}
	class := NewClass("Golden")
	class.extended.Declarer = "rpc.Golden"
	Server[spell](class, "Give", Reliable)
	Client[[]spell](class, "Take", ReliableUnordered)
	Multicast[Raw](class, "Raw", Unreliable)
	Server[None](class, "None", UnreliableSequenced)
	Client[time.Time](class, "Time", Reliable)
	type pose struct {
		X    float32 `quiver:"quant=0.01,range=-100:100"`
		Name string  `quiver:"max=8,owner"`
		At   Ref
	}
	NewState[pose](class)
	NewList[uint16, spell](class, "Spells")
	NewState[pose](NewComponent(class, "Arm"))
	shape := shapeOf([]*Class{class})
	hash := shape.Hash()
	require.Equal(t, "05da94eefe54c406572b2e517a5c55ff6635c2a7fba5a4f5137b5f0250c64649", hex.EncodeToString(hash[:]))
}
