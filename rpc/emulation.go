package rpc

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc/emulation"
)

// orderTime is for how long PktOrder holds a packet back: UE's lets it go with one of the next packets, and they leave at ticks.
const orderTime = 33 * time.Millisecond

// emulationLinks returns what the emulation does to packets that leave and that come, or names what makes no sense.
func emulationLinks(e emulation.Settings) (out, in netsim.Config, err error) {
	if err := e.Validate(); err != nil {
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

// SetEmulation changes what [Config].Emulation says for all packets from now on. It is safe from any goroutine. A world whose config
// has none refuses: its sockets were made without.
func (w *World) SetEmulation(e emulation.Settings) error {
	out, in, err := emulationLinks(e)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.emulation == nil {
		return fmt.Errorf("rpc: SetEmulation on a world without Config.Emulation: set it to &emulation.Settings{} for none at first: %w", ErrWrongRole)
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
	out, in, err := emulationLinks(*w.emulation)
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
