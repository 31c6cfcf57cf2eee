// Package all registers every contender.
package all

import (
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/quicgo"
	"github.com/quivernet/quiver/bench/peer/quiver"
)

func init() {
	peer.Register(quiver.Peers()...)
	peer.Register(quicgo.Peers()...)
}
