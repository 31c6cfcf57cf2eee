// Package emulation describes what a bad network does to packets, in the terms
// of UE's packet emulation.
package emulation

import (
	"fmt"
	"time"
)

// Settings make a good network a bad one: packets that a socket sends and receives are lost,
// delayed, duplicated or reordered. The fields beginning with Pkt are those of UE's packet
// emulation (FPacketSimulationSettings) and have the same meaning, except that a share is in
// percent and may be a fraction, times are durations, and delays are not rounded to ticks. They
// apply to outgoing packets unless the name says Incoming. The zero value changes nothing.
//
// For 5 % loss and 100 ms of round trip both ends have Settings{PktLoss: 5,
// PktLag: 50 * time.Millisecond}.
//
// rpc.Config.Emulation applies them to sockets, in real time; package rpctest
// applies them in virtual time.
type Settings struct {
	PktLoss                        float64 // percent of the packets that are lost
	PktLossMinSize, PktLossMaxSize int     // sizes in bytes of the packets that PktLoss loses; 0 = any
	// Half of the packets are held back until later ones have passed, for 33 ms.
	PktOrder bool
	// Percent of the packets that arrive twice; as in UE, none with PktOrder or PktLag.
	PktDup                 float64
	PktLag, PktLagVariance time.Duration // delay, and by how much it varies up and down; the order is kept
	PktLagMin, PktLagMax   time.Duration // delay drawn between the two, if PktLag is 0; the order is kept
	PktJitter              time.Duration // by how much every other packet is delayed more, and overtaken

	PktIncomingLoss float64 // percent of the received packets that are lost
	// Delay of received packets, drawn between the two; the order is kept.
	PktIncomingLagMin, PktIncomingLagMax time.Duration

	// Fields that Unreal does not have.
	LossBurst float64 // mean length of a run of losses; up to 1, each packet is lost independently
	Rate      int64   // bit/s that the socket may send, to all peers together; 0 = no bottleneck
	// IncomingRate is how much the socket may receive, as over a slow downlink, in bit/s from all
	// peers together; 0 = no bottleneck. On a client it slows down what the server sends to that
	// client. Each of a socket's bottlenecks has a queue, which drops packets that do not fit.
	IncomingRate int64
	// Bytes, including headers, that wait for either bottleneck; 0 = as many as
	// pass in a round trip of the delays emulated there, at least 64 KiB.
	Queue int

	Seed uint64 // decides the fates of packets: with the same seed the nth packet of a socket has the same fate
}

// profiles are UE's profiles, PacketSimulationProfile in its ini.
var profiles = map[string]Settings{
	"Off":         {},
	"Average":     {PktLoss: 1, PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond},
	"Bad":         {PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond},
	"BufferBloat": {PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond, Rate: 5e6, Queue: 1 << 20},
}

// Profile returns the settings of one of UE's profiles: Off, Average (1 % loss, 30 to 60 ms each
// way), Bad (5 %, 100 to 200 ms) or BufferBloat (5 Mbit/s, with a queue of 1.7 s). They apply to
// what a socket sends: to affect both ways use one at both ends. UE: -PktEmulationProfile=.
func Profile(name string) (Settings, error) {
	e, ok := profiles[name]
	if !ok {
		return Settings{}, fmt.Errorf("emulation: there is no emulation profile %q, only Off, Average, Bad and BufferBloat", name)
	}
	return e, nil
}

// Validate returns an error if a share is no percentage, a range of delays is
// not valid, or a value is out of range.
func (e Settings) Validate() error {
	for _, share := range []struct {
		name    string
		percent float64
	}{{"PktLoss", e.PktLoss}, {"PktDup", e.PktDup}, {"PktIncomingLoss", e.PktIncomingLoss}} {
		if !(share.percent >= 0 && share.percent <= 100) {
			return fmt.Errorf("emulation: Settings.%s is %v, not a percentage from 0 to 100", share.name, share.percent)
		}
	}
	for _, lag := range []struct {
		name     string
		min, max time.Duration
	}{
		{"PktLag and PktLagVariance", e.PktLagVariance, max(e.PktLag, e.PktLagVariance)}, {"PktLagMin and PktLagMax", e.PktLagMin, e.PktLagMax},
		{"PktIncomingLagMin and PktIncomingLagMax", e.PktIncomingLagMin, e.PktIncomingLagMax}, {"PktLag and PktJitter", 0, min(e.PktLag, e.PktJitter)},
	} {
		if lag.min < 0 || lag.max < lag.min {
			return fmt.Errorf("emulation: Settings.%s: %v to %v is no range of delays", lag.name, lag.min, lag.max)
		}
	}
	return e.validateSizes()
}

// validateSizes is the part of Validate for sizes, and for the fields that Unreal does not have.
func (e Settings) validateSizes() error {
	switch {
	case e.PktLossMinSize < 0 || e.PktLossMaxSize < 0 || e.PktLossMaxSize > 0 && e.PktLossMinSize > e.PktLossMaxSize:
		return fmt.Errorf("emulation: Settings.PktLossMinSize and PktLossMaxSize: %d to %d is no range of sizes", e.PktLossMinSize, e.PktLossMaxSize)
	case !(e.LossBurst >= 0):
		return fmt.Errorf("emulation: Settings.LossBurst is %v, no length of a run", e.LossBurst)
	case min(e.Rate, e.IncomingRate) < 0 || e.Queue < 0:
		return fmt.Errorf("emulation: Settings.Rate is %d bit/s, IncomingRate %d bit/s and Queue %d bytes; none can be negative", e.Rate, e.IncomingRate, e.Queue)
	}
	return nil
}
