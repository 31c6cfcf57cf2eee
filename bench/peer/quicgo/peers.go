// Package quicgo is bare quic-go as a contender: what anybody would write with it.
package quicgo

import (
	"context"
	"crypto/sha256"
	"hash"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

const module = "github.com/quic-go/quic-go"

// connectionIDBytes is 17 as in rpc, so that both are comparable.
const connectionIDBytes = 17

// config returns a config with windows for 32 MiB in flight, four times what
// the largest path holds.
func config() *quic.Config {
	return &quic.Config{
		EnableDatagrams:            true,
		InitialStreamReceiveWindow: 8 << 20, MaxStreamReceiveWindow: 16 << 20,
		InitialConnectionReceiveWindow: 16 << 20, MaxConnectionReceiveWindow: 32 << 20,
		MaxIncomingUniStreams: 1 << 16, MaxIncomingStreams: 1 << 16,
	}
}

const common = "stream window 8 to 16 MiB, connection 16 to 32 MiB, connection ids of 17 bytes as in Quiver, else defaults (New Reno); TLS 1.3; "

// Peers returns the ways to use quic-go.
func Peers() []peer.Peer {
	of := func(name, settings string, s style) peer.Peer {
		return peer.Peer{
			Name: name, Module: module, Settings: common + settings, Virtual: true, Emulated: true,
			Moves: true, Talks: true, Calls: true,
			Open: func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return open(ctx, n, s) },
		}
	}
	peers := []peer.Peer{
		of("quic-go/stream", "one stream for the blob, one for messages, one for calls; no digest", style{}),
		of("quic-go/stream+sha256", "the same, SHA-256 at both ends", style{digest: sha256.New}),
		of("quic-go/messages", "a stream for every 32 KiB of the blob, every message and every call; no digest", style{perMessage: true}),
		{
			Name: "quic-go/datagram", Module: module, Settings: common + "datagrams, unreliable: calls and crowds only",
			Virtual: true, Emulated: true, Calls: true, Chains: true,
			Open:   func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return openDatagrams(ctx, n) },
			Gather: gather,
		},
	}
	peers[1].Rushes = true // this one hashes as Quiver does
	return peers
}

type style struct {
	perMessage bool
	digest     func() hash.Hash
}
