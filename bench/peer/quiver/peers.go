// Package quiver is this repository as a contender: one connection, whose blobs
// use one of the streamer's backends.
package quiver

import (
	"context"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// lanes is how many lanes the contender with lanes may use: the most, because half a
// reliable buffer per round trip fills a path of 100 Mbit/s and 200 ms only with 18 of them.
const lanes = 32

// streaming is the config of all streamers: content of any size, hashed as by
// the QUIC streams beside them, on any CPU.
var streaming = stream.Config{MaxBytes: -1, Hash: stream.SHA256}

const common = "rpc worlds under Run at both ends, defaults; QUIC with TLS 1.3; SHA-256 of the blob at both ends; "

// Peers returns a contender for each backend and carrier.
func Peers() []peer.Peer {
	of := func(name, settings string, via stream.Backend, config rpc.Config) peer.Peer {
		return peer.Peer{
			Name: name, Settings: common + settings, Virtual: true, Emulated: true,
			Moves: true, Talks: true, Calls: true, Chains: true, Shouts: true,
			Open: func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return Open(ctx, n, via, config) },
		}
	}
	var peers []peer.Peer
	for _, backend := range []struct {
		name, settings string
		via            stream.Backend
	}{
		{"quiver/window", "stream.Window{}: as many lanes as the path needs; in a crowd unreliable calls, every world under Run, acks that wait for the tick as under Config.TickRate", stream.Window{}},
		{"quiver/lanes", "stream.Window{Lanes: 32}", stream.Window{Lanes: lanes}},
		{"quiver/slices", "stream.Slices{}: chunks", stream.Slices{}},
	} {
		peers = append(peers,
			of(backend.name, backend.settings+"; QUIC datagrams", backend.via, rpc.Config{}),
			of(backend.name+"+sealed", backend.settings+"; rpc.Config.Sealed at both ends: packets of up to 8,952 bytes where the path carries them, as the bare loopback does", backend.via, rpc.Config{Sealed: true}))
	}
	for _, i := range []int{0, 1, 4, 5} { // lanes are windows, too
		peers[i].Rushes = true
	}
	peers[0].Gather, peers[1].Gather = gather(false), gather(true)
	for _, like := range []peer.Peer{
		of("quiver/window+sealed/1452", "stream.Window{}; rpc.Config.Sealed and NoJumbo at both ends: packets as large as QUIC's", stream.Window{}, rpc.Config{Sealed: true, NoJumbo: true}),
		of("quiver/slices+sealed/1452", "stream.Slices{}; the same", stream.Slices{}, rpc.Config{Sealed: true, NoJumbo: true}),
	} { // these differ only on the bare loopback
		like.Virtual, like.Emulated, like.Talks, like.Calls, like.Chains, like.Shouts = false, false, false, false, false, false
		peers = append(peers, like)
	}
	return peers
}
