// Package all registers every contender.
package all

import (
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/chunks"
	"github.com/quivernet/quiver/bench/peer/drpc"
	"github.com/quivernet/quiver/bench/peer/enet"
	"github.com/quivernet/quiver/bench/peer/grpcgo"
	"github.com/quivernet/quiver/bench/peer/kcp"
	"github.com/quivernet/quiver/bench/peer/netrpc"
	"github.com/quivernet/quiver/bench/peer/quicgo"
	"github.com/quivernet/quiver/bench/peer/quiver"
	"github.com/quivernet/quiver/bench/peer/sctp"
	"github.com/quivernet/quiver/bench/peer/tcp"
)

func init() {
	for _, peers := range [][]peer.Peer{
		quiver.Peers(), chunks.Peers(), quicgo.Peers(), tcp.Peers(), grpcgo.Peers(), kcp.Peers(), sctp.Peers(), enet.Peers(),
		drpc.Peers(), netrpc.Peers(),
	} {
		peer.Register(peers...)
	}
}
