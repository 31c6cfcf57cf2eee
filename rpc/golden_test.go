package rpc

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGoldenShapeOfAClass: programs of different releases of Quiver must understand each other. The shapes of the types stand
// in internal/codec's golden tests; here is what a class makes of them.
func TestGoldenShapeOfAClass(t *testing.T) {
	type spell struct {
		ID   uint64
		Name string `quiver:"max=24"`
	}
	class := NewClass("Golden", Carries[spell]("spell"), DeclaredBy("rpc.Golden"))
	Server[spell](class, "Give", Reliable)
	Client[[]spell](class, "Take", ReliableUnordered)
	Multicast[Raw](class, "Raw", Unreliable)
	Server[None](class, "None", UnreliableSequenced)
	Client[time.Time](class, "Time", Reliable)
	hash, _ := shapeOf([]*Class{class})
	require.Equal(t, "633c644214906483975168800d6e82dae377adf69db9fe6884a182d6e1be9d04", hex.EncodeToString(hash[:]))
}
