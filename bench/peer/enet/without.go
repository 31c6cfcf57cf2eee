//go:build !enet

package enet

import "github.com/quivernet/quiver/bench/peer"

// Peers returns no peers without the tag enet.
func Peers() []peer.Peer { return nil }

// Version returns "" without the tag enet.
func Version() string { return "" }
