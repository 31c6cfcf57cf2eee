// Package emulation says what a bad network does to packets, in the words of UE's packet emulation.
package emulation

import (
	"fmt"
	"time"
)

// Settings makes a good network a bad one: what a socket sends and receives is lost, late, doubled or out of order. The fields
// beginning with Pkt are those of UE's packet emulation (FPacketSimulationSettings) and mean the same, but that a share is in percent
// and may be a fraction, times are durations, and delays are not rounded to ticks. Outgoing ones are meant unless the name says
// Incoming. The zero value is the network as it is.
//
// For 5 % loss and 100 ms of round trip both ends have Settings{PktLoss: 5, PktLag: 50 * time.Millisecond}.
//
// rpc.Config.Emulation puts them before sockets, in real time; package rpctest has the same in virtual time.
type Settings struct {
	PktLoss                        float64       // percent of the packets that are lost
	PktLossMinSize, PktLossMaxSize int           // bytes of the packets that PktLoss loses; 0 = any
	PktOrder                       bool          // half of the packets are held back until later ones have passed, for 33 ms
	PktDup                         float64       // percent that arrive twice; as in UE, none with PktOrder or PktLag
	PktLag, PktLagVariance         time.Duration // delay, and by how much it varies up and down; the order stays
	PktLagMin, PktLagMax           time.Duration // delay drawn between the two, when PktLag is 0; the order stays
	PktJitter                      time.Duration // every other packet is later by so much, and overtaken

	PktIncomingLoss                      float64       // percent of the packets that come and are lost
	PktIncomingLagMin, PktIncomingLagMax time.Duration // delay drawn between the two for what comes; the order stays

	// What Unreal's has not.
	LossBurst float64 // length of a run of losses in the mean; up to 1 each packet is lost or not for itself
	Rate      int64   // bit/s that the socket may send, for all peers together; 0 = no bottleneck
	// IncomingRate is what may come, as over a slow downlink, in bit/s for all peers together; 0 = no bottleneck. At a client it slows down
	// what the server sends to this one. A socket's bottlenecks have a queue each, which drops packets that do not fit.
	IncomingRate int64
	Queue        int // bytes, headers included, that wait for either; 0 = what passes in a round trip of the delays emulated there, 64 KiB at least

	Seed uint64 // decides which packets meet what; the same seed gives the nth packet of a socket the same fate
}

// profiles are UE's profiles, PacketSimulationProfile in its ini.
var profiles = map[string]Settings{
	"Off":         {},
	"Average":     {PktLoss: 1, PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond},
	"Bad":         {PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond},
	"BufferBloat": {PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond, Rate: 5e6, Queue: 1 << 20},
}

// Profile returns what UE calls by a name: Off, Average (1 % loss, 30 to 60 ms each way), Bad (5 %, 100 to 200 ms) or
// BufferBloat (5 Mbit/s in front of which 1.7 s may wait). They say what becomes of what a socket sends: for both ways set one at both
// ends. UE: -PktEmulationProfile=.
func Profile(name string) (Settings, error) {
	e, ok := profiles[name]
	if !ok {
		return Settings{}, fmt.Errorf("emulation: there is no emulation profile %q, only Off, Average, Bad and BufferBloat", name)
	}
	return e, nil
}

// Validate names what makes no sense: a share that is no percentage, a range of delays that is none.
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

// validateSizes is Validate for what is not Unreal's, and for sizes.
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
