// Package emulation describes what a bad network does to packets, in the terms of Unreal Engine's
// packet emulation. Comments that begin with "UE:" name Unreal's counterpart.
package emulation

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Settings describe how to make a good network bad. Packets that a socket sends and receives are
// lost, delayed, duplicated or reordered. The zero value changes nothing.
//
// The fields that begin with Pkt correspond to UE's packet emulation (FPacketSimulationSettings),
// with three differences: percentages may be fractions, times are durations, and delays aren't
// rounded to ticks. These fields apply to outgoing packets unless the name contains Incoming. No
// time may exceed an hour.
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

	PktLag, PktLagVariance time.Duration // delay, and its variation up and down, at most PktLag; keeps the order
	PktLagMin, PktLagMax   time.Duration // range of the delay, if PktLag is 0; keeps the order
	PktJitter              time.Duration // extra delay of every other packet, so that others overtake it

	PktIncomingLoss float64 // percentage of received packets that are lost

	// Range of the delay of received packets. Keeps the order.
	PktIncomingLagMin, PktIncomingLagMax time.Duration

	// The remaining fields aren't in Unreal.

	// LossBurst is the mean length of a run of losses. At 1 or below, each packet is lost
	// independently of the others. Above a PktLoss of 50, runs can't be shorter than
	// PktLoss/(100-PktLoss).
	LossBurst float64

	// Rate limits the socket's sending rate to all peers together, in bit/s. 0 = no bottleneck.
	// The maximum is 1e12, for IncomingRate as well.
	Rate int64

	// IncomingRate limits the socket's receiving rate from all peers together, in bit/s, like a
	// slow downlink. On a client, it slows down the server's packets. 0 = no bottleneck.
	IncomingRate int64

	// Queue is the maximum number of bytes, including headers, that may wait for either
	// bottleneck. Packets that don't fit are dropped. 0 means the number of bytes that pass the
	// bottleneck in a round trip of the delays emulated there, but at least 64 KiB. The maximum is
	// 1 GiB.
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

// Validate returns an error that names the first field that is out of range, or above another field
// that limits it.
func (e Settings) Validate() error {
	return cmp.Or(
		percentage("PktLoss", e.PktLoss),
		percentage("PktDup", e.PktDup),
		percentage("PktIncomingLoss", e.PktIncomingLoss),

		notNegative("PktLossMinSize", e.PktLossMinSize),
		notNegative("PktLossMaxSize", e.PktLossMaxSize),
		notNegative("PktLag", e.PktLag),
		notNegative("PktLagVariance", e.PktLagVariance),
		notNegative("PktLagMin", e.PktLagMin),
		notNegative("PktLagMax", e.PktLagMax),
		notNegative("PktJitter", e.PktJitter),
		notNegative("PktIncomingLagMin", e.PktIncomingLagMin),
		notNegative("PktIncomingLagMax", e.PktIncomingLagMax),
		notNegative("LossBurst", e.LossBurst),
		notNegative("Rate", e.Rate),
		notNegative("IncomingRate", e.IncomingRate),
		notNegative("Queue", e.Queue),

		notAbove("PktLagVariance", e.PktLagVariance, "PktLag", e.PktLag),
		notAbove("PktLagMin", e.PktLagMin, "PktLagMax", e.PktLagMax),
		notAbove("PktIncomingLagMin", e.PktIncomingLagMin, "PktIncomingLagMax", e.PktIncomingLagMax),
		hasUnit("PktLag", e.PktLag),
		hasUnit("PktLagMax", e.PktLagMax),
		hasUnit("PktJitter", e.PktJitter),
		hasUnit("PktIncomingLagMax", e.PktIncomingLagMax),
		notAboveMax("PktLag", e.PktLag, maxTime),
		notAboveMax("PktLagMax", e.PktLagMax, maxTime),
		notAboveMax("PktJitter", e.PktJitter, maxTime),
		notAboveMax("PktIncomingLagMax", e.PktIncomingLagMax, maxTime),
		notAboveMax("Rate", e.Rate, maxRate),
		notAboveMax("IncomingRate", e.IncomingRate, maxRate),
		notAboveMax("Queue", e.Queue, maxQueue),
		e.validateLossSizes(),
		e.validateBurst(),
	)
}

const (
	maxTime = time.Hour // far beyond any path; keeps sums of delays from overflowing

	// These are limits of package netsim, which emulates the network.
	maxRate  = 1e12    // in bit/s
	maxQueue = 1 << 30 // in bytes
)

// minTime is the minimum of a delay, and far below any that matters. In Unreal's settings, delays
// are numbers of milliseconds.
const minTime = 10 * time.Microsecond

// hasUnit returns an error for a time that is so short that it was meant as a number of
// milliseconds.
func hasUnit(field string, value time.Duration) error {
	if value > 0 && value < minTime {
		return fmt.Errorf("emulation: Settings.%s is %v; the minimum is %v: give it a unit, such as time.Millisecond", field, value, minTime)
	}
	return nil
}

// validateLossSizes returns an error if no size of packets is both large and small enough for
// PktLoss.
func (e Settings) validateLossSizes() error {
	if e.PktLossMaxSize == 0 {
		return nil
	}
	return notAbove("PktLossMinSize", e.PktLossMinSize, "PktLossMaxSize", e.PktLossMaxSize)
}

// validateBurst returns an error if bursts of LossBurst packets can't make up PktLoss, because even
// bursts with a single packet between them lose fewer.
func (e Settings) validateBurst() error {
	loss := e.PktLoss / 100
	if math.IsInf(e.LossBurst, 0) {
		return fmt.Errorf("emulation: Settings.LossBurst is %v; it must be finite", e.LossBurst)
	}
	least := loss / (1 - loss)
	const rounding = 1e-9
	if loss < 1 && e.LossBurst > 1 && e.LossBurst < least*(1-rounding) {
		return fmt.Errorf("emulation: Settings.LossBurst is %v; the minimum is %.2f with a PktLoss of %v",
			e.LossBurst, math.Ceil(least*(1-rounding)*100)/100, e.PktLoss)
	}
	return nil
}

// percentage returns an error if a field's value isn't a percentage.
func percentage(field string, value float64) error {
	// Written this way, the condition also refuses NaN.
	if !(value >= 0 && value <= 100) {
		return fmt.Errorf("emulation: Settings.%s is %v; it must be a percentage from 0 to 100", field, value)
	}
	return nil
}

// notNegative returns an error if a field's value is negative or NaN.
func notNegative[T int | int64 | float64 | time.Duration](field string, value T) error {
	if !(value >= 0) {
		return fmt.Errorf("emulation: Settings.%s is %v; it must not be negative", field, value)
	}
	return nil
}

// notAboveMax returns an error if a field's value is above its maximum.
func notAboveMax[T int | int64 | time.Duration](field string, value, most T) error {
	if value > most {
		return fmt.Errorf("emulation: Settings.%s is %v; the maximum is %v", field, value, most)
	}
	return nil
}

// notAbove returns an error if a field's value is above the value of the field that limits it.
func notAbove[T int | time.Duration](field string, value T, limitField string, limit T) error {
	if value > limit {
		return fmt.Errorf("emulation: Settings.%s is %v; the limit is %v (%s)", field, value, limit, limitField)
	}
	return nil
}
