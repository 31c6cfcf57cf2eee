package rpc

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// Emulation makes a good network a bad one: what a socket sends and receives is lost, late, doubled or out of order. The fields
// beginning with Pkt are those of UE's packet emulation (FPacketSimulationSettings) and mean the same, but that a share is in percent
// and may be a fraction, times are durations, and delays are not rounded to ticks. Outgoing ones are meant unless the name says
// Incoming. The zero value is the network as it is.
//
// [Config].Emulation is for sockets, in real time; package rpctest has the same in virtual time.
type Emulation struct {
	PktLoss                        float64       // percent of the packets that are lost
	PktLossMinSize, PktLossMaxSize int           // bytes of the packets that PktLoss loses; 0 = any
	PktOrder                       bool          // half of the packets are held back until later ones have passed, for 33 ms
	PktDup                         float64       // percent that arrive twice; not with PktOrder or PktLag
	PktLag, PktLagVariance         time.Duration // delay, and by how much it varies up and down; the order stays
	PktLagMin, PktLagMax           time.Duration // delay drawn between the two, when PktLag is 0; the order stays
	PktJitter                      time.Duration // every other packet is later by so much, and overtaken

	PktIncomingLoss                      float64
	PktIncomingLagMin, PktIncomingLagMax time.Duration

	// What Unreal's has not.
	LossBurst float64 // length of a run of losses in the mean; up to 1 each packet is lost or not for itself
	Rate      int64   // bit/s that the socket may send, for all peers together; 0 = no bottleneck
	Queue     int     // bytes that wait for Rate; 0 = what leaves in a round trip of the emulated delays, 64 KiB at least

	Seed uint64 // decides which packets meet what; the same seed gives the nth packet of a socket the same fate
}

// emulations are UE's profiles, PacketSimulationProfile in its ini.
var emulations = map[string]Emulation{
	"Off":         {},
	"Average":     {PktLoss: 1, PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond},
	"Bad":         {PktLoss: 5, PktLagMin: 100 * time.Millisecond, PktLagMax: 200 * time.Millisecond},
	"BufferBloat": {PktLagMin: 30 * time.Millisecond, PktLagMax: 60 * time.Millisecond, Rate: 5e6, Queue: 1 << 20},
}

// EmulationProfile returns what UE calls by a name: Off, Average (1 % loss, 30 to 60 ms each way), Bad (5 %, 100 to 200 ms) or
// BufferBloat (5 Mbit/s in front of which 1.7 s may wait). They say what becomes of what a socket sends: for both ways set one at both
// ends. UE: -PktEmulationProfile=.
func EmulationProfile(name string) (Emulation, error) {
	e, ok := emulations[name]
	if !ok {
		return Emulation{}, fmt.Errorf("rpc: there is no emulation profile %q, only Off, Average, Bad and BufferBloat", name)
	}
	return e, nil
}

// orderTime is for how long PktOrder holds a packet back: UE's lets it go with one of the next packets, and they leave at ticks.
const orderTime = 33 * time.Millisecond

// links returns what the emulation does to packets that leave and that come, or names what makes no sense.
func (e Emulation) links() (out, in netsim.Config, err error) {
	if err := e.validate(); err != nil {
		return out, in, err
	}
	out = netsim.Config{
		Delay: max(0, e.PktLag-e.PktLagVariance), Jitter: e.PktLag + e.PktLagVariance - max(0, e.PktLag-e.PktLagVariance),
		LossMin: e.PktLossMinSize, LossMax: e.PktLossMaxSize, Alternate: e.PktJitter,
		Rate: e.Rate, Queue: e.Queue, Seed: e.Seed,
	}
	if e.PktLag == 0 {
		out.Delay, out.Jitter = e.PktLagMin, max(0, e.PktLagMax-e.PktLagMin)
	}
	if e.PktOrder {
		out.Reorder, out.ReorderDelay = 0.5, orderTime
	} else if e.PktLag == 0 {
		out.Duplicate = e.PktDup / 100
	}
	if loss := e.PktLoss / 100; e.LossBurst > 1 && loss > 0 && loss < 1 {
		out.Burst = netsim.Bursts(loss, e.LossBurst)
	} else {
		out.Loss = loss
	}
	in = netsim.Config{
		Loss: e.PktIncomingLoss / 100, Delay: e.PktIncomingLagMin, Jitter: max(0, e.PktIncomingLagMax-e.PktIncomingLagMin), Seed: e.Seed,
	}
	if err = out.Validate(); err == nil {
		err = in.Validate()
	}
	if err != nil {
		return out, in, fmt.Errorf("rpc: Emulation: %w", err)
	}
	return out, in, nil
}

func (e Emulation) validate() error {
	for _, share := range []struct {
		name    string
		percent float64
	}{{"PktLoss", e.PktLoss}, {"PktDup", e.PktDup}, {"PktIncomingLoss", e.PktIncomingLoss}} {
		if !(share.percent >= 0 && share.percent <= 100) {
			return fmt.Errorf("rpc: Emulation.%s is %v, not a percentage from 0 to 100", share.name, share.percent)
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
			return fmt.Errorf("rpc: Emulation.%s: %v to %v is no range of delays", lag.name, lag.min, lag.max)
		}
	}
	return nil
}

// SetEmulation changes what [Config].Emulation says for all packets from now on. It is safe from any goroutine. A world whose config
// has none refuses: its sockets were made without.
func (w *World) SetEmulation(e Emulation) error {
	out, in, err := e.links()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.emulation == nil {
		return fmt.Errorf("rpc: SetEmulation on a world without Config.Emulation: set it to &rpc.Emulation{} for none at first: %w", ErrWrongRole)
	}
	*w.emulation = e
	for _, socket := range w.emulated {
		socket.Set(out, in)
	}
	return nil
}

// emulate puts the emulation before a socket when the config asks for it. The caller calls free when it needs the socket no more.
func (w *World) emulate(socket net.PacketConn) (emulated net.PacketConn, free func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.emulation == nil {
		return socket, func() {}
	}
	out, in, err := w.emulation.links()
	if err != nil { // NewWorld and SetEmulation have looked
		panic(err)
	}
	e := netsim.Emulate(socket, out, in)
	w.emulated = append(w.emulated, e)
	return e, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.emulated = slices.DeleteFunc(w.emulated, func(other *netsim.Emulated) bool { return other == e })
	}
}
