// Package enet is ENet as a contender, through cgo. It is built with the tag
// enet if the library and its header are installed (Debian: libenet-dev). It
// has its own sockets and clock, so it runs in real time only.
package enet

const settings = "one connection with 3 channels, the blob as reliable packets of 16 KiB, of which 128 KiB at most are in ENet's hands, messages on another channel; no bandwidth limits, the window is at its most of 64 KiB by ENet's own limit; " +
	"no encryption, no digest; each host is serviced when a packet comes or is sent, and every millisecond"
