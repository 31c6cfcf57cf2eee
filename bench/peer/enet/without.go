//go:build !enet

package enet

import "github.com/quivernet/quiver/bench/peer"

// Peers returns none without the tag.
func Peers() []peer.Peer { return nil }

// Version is empty without the tag.
func Version() string { return "" }
