// Package emulation describes what a bad network does to packets, in the terms of Unreal Engine's
// packet emulation. Comments that begin with "UE:" name Unreal's counterpart.
package emulation

import (
	"fmt"
	"time"
)

// Settings describe how to make a good network bad. Packets that a socket sends and receives are
// lost, delayed, duplicated or reordered. The zero value changes nothing.
//
// The fields that begin with Pkt correspond to UE's packet emulation (FPacketSimulationSettings),
// with three differences: percentages may be fractions, times are durations, and delays aren't
// rounded to ticks. These fields apply to outgoing packets unless the name contains Incoming.
//
// For 5 % loss and a round trip of 100 ms, give both ends
// Settings{PktLoss: 5, PktLag: 50 * time.Millisecond}.
//
// rpc.Config.Emulation applies the settings to sockets, in real time. Package rpctest applies
// them in virtual time.
type Settings struct {
	PktLoss                        float64 // percentage of packets that are lost
	PktLossMinSize, PktLossMaxSize int     // PktLoss only applies to packets of these sizes in bytes; 0 = any

	// Half of the packets are held back for 33 ms, so that later packets pass them.
	PktOrder bool

	// Percentage of packets that arrive twice. As in UE, there are no duplicates with PktOrder or
	// PktLag.
	PktDup float64

	PktLag, PktLagVariance time.Duration // delay, and its variation up and down; keeps the order
	PktLagMin, PktLagMax   time.Duration // range of the delay, if PktLag is 0; keeps the order
	PktJitter              time.Duration // extra delay of every other packet, so that others overtake it

	PktIncomingLoss float64 // percentage of received packets that are lost

	// Range of the delay of received packets. Keeps the order.
	PktIncomingLagMin, PktIncomingLagMax time.Duration

	// The remaining fields aren't in Unreal.

	// LossBurst is the mean length of a run of losses. At 1 or below, each packet is lost
	// independently of the others.
	LossBurst float64

	// Rate limits the socket's sending rate to all peers together, in bit/s. 0 = no bottleneck.
	Rate int64

	// IncomingRate limits the socket's receiving rate from all peers together, in bit/s, like a
	// slow downlink. On a client, it slows down the server's packets. 0 = no bottleneck.
	IncomingRate int64

	// Queue is the maximum number of bytes, including headers, that may wait for either
	// bottleneck. Packets that don't fit are dropped. 0 means the number of bytes that pass the
	// bottleneck in a round trip of the delays emulated there, but at least 64 KiB.
	Queue int

	// Seed determines what happens to each packet. With the same seed, the nth packet of a socket
	// is always treated the same.
	Seed uint64
}

// profiles are UE's profiles: PacketSimulationProfile in its ini.
var profiles = map[string]Settings{
	"Off":         {},
	"Average":     {PktLoss: 1, PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond},
	"Bad":         {PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond},
	"BufferBloat": {PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond, Rate: 5e6, Queue: 1 << 20},
}

// Profile returns the settings of one of UE's profiles. UE: -PktEmulationProfile=.
//
// The profiles are Off, Average (1 % loss, 30 to 60 ms each way), Bad (5 %, 100 to 200 ms) and
// BufferBloat (5 Mbit/s, with a queue of 1.7 s). Since a profile applies to the packets that a
// socket sends, use one at both ends to affect both directions.
func Profile(name string) (Settings, error) {
	e, ok := profiles[name]
	if !ok {
		return Settings{}, fmt.Errorf("emulation: unknown profile %q; the profiles are Off, Average, Bad and BufferBloat", name)
	}
	return e, nil
}

// Validate returns an error if a share isn't a percentage, if a range of delays is negative or
// inverted, or if a value is out of range.
func (e Settings) Validate() error {
	for _, share := range []struct {
		name    string
		percent float64
	}{{"PktLoss", e.PktLoss}, {"PktDup", e.PktDup}, {"PktIncomingLoss", e.PktIncomingLoss}} {
		// Written this way, the condition also refuses NaN.
		if !(share.percent >= 0 && share.percent <= 100) {
			return fmt.Errorf("emulation: Settings.%s is %v; it must be a percentage from 0 to 100", share.name, share.percent)
		}
	}
	for _, lag := range []struct {
		name     string
		min, max time.Duration
	}{
		{"PktLag and PktLagVariance", e.PktLagVariance, max(e.PktLag, e.PktLagVariance)},
		{"PktLagMin and PktLagMax", e.PktLagMin, e.PktLagMax},
		{"PktIncomingLagMin and PktIncomingLagMax", e.PktIncomingLagMin, e.PktIncomingLagMax},
		{"PktLag and PktJitter", 0, min(e.PktLag, e.PktJitter)}, // neither is negative
	} {
		if lag.min < 0 || lag.max < lag.min {
			return fmt.Errorf("emulation: Settings.%s: %v to %v is not a range of delays", lag.name, lag.min, lag.max)
		}
	}
	return e.validateSizes()
}

// validateSizes is the part of Validate that checks sizes, and the fields that aren't in Unreal.
func (e Settings) validateSizes() error {
	switch {
	case e.PktLossMinSize < 0 || e.PktLossMaxSize < 0 || e.PktLossMaxSize > 0 && e.PktLossMinSize > e.PktLossMaxSize:
		return fmt.Errorf("emulation: Settings.PktLossMinSize and PktLossMaxSize: %d to %d is not a range of sizes",
			e.PktLossMinSize, e.PktLossMaxSize)
	case !(e.LossBurst >= 0):
		return fmt.Errorf("emulation: Settings.LossBurst is %v; it must not be negative", e.LossBurst)
	case min(e.Rate, e.IncomingRate) < 0 || e.Queue < 0:
		return fmt.Errorf("emulation: Settings.Rate is %d bit/s, IncomingRate %d bit/s and Queue %d bytes; none of them may be negative",
			e.Rate, e.IncomingRate, e.Queue)
	}
	return nil
}
