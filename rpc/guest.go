package rpc

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/internal/link"
)

func init() {
	guest.Add = func(world any, newMachine func() guest.Machine) { world.(*World).addMachine(newMachine) }
	guest.Of = func(conn any, first byte) guest.Machine { return conn.(*Conn).guestOf(first) }
	guest.Keep = func(world, key any, make func() any) any { return world.(*World).keep(key, make) }
	guest.Seed = func(world any, seed uint64) { world.(*World).seed = &seed }
	guest.Drive = func(conn any, fn func(now time.Time)) { conn.(*Conn).drive(fn) }
	guest.DeclaredBy = func(class any, function string) { class.(*Class).declarer = function }
	guest.Priority = func(class any, p bunch.Priority) { class.(*Class).priority = p }
	guest.Woken = func(conn any) bool { return conn.(*Conn).woken.Swap(false) }
}

// addMachine is guest.Add.
func (w *World) addMachine(newMachine func() guest.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		panic("rpc: a machine was added after the first connection")
	}
	w.machines = append(w.machines, newMachine)
}

// random returns what a connection draws from, under its link's lock.
func (w *World) random(c *Conn) func(n int) int {
	if w.seed == nil {
		return rand.IntN
	}
	return rand.New(rand.NewPCG(*w.seed, c.id)).IntN
}

// keep is guest.Keep.
func (w *World) keep(key any, make func() any) any {
	if _, ok := w.kept[key]; !ok {
		w.kept[key] = make()
	}
	return w.kept[key]
}

// guestOf is guest.Of.
func (c *Conn) guestOf(first byte) guest.Machine {
	for _, m := range c.machines {
		if m.FirstByte() == first {
			return m.Machine
		}
	}
	return nil
}

// drive is guest.Drive.
func (c *Conn) drive(fn func(now time.Time)) {
	now := c.link.Lock()
	defer c.link.Unlock()
	fn(now)
}

// addedMachine is a machine that was added to a connection. It hears nothing before the connection has joined, for until then
// nobody knows who sends.
type addedMachine struct {
	guest.Machine
	conn *Conn
}

func (g *addedMachine) Receive(now time.Time, datagram []byte) error {
	if !g.conn.joined.Load() {
		g.conn.uninvited.Add(1)
		return nil
	}
	return g.Machine.Receive(now, datagram)
}

// addMachines makes the connection's machines, and returns all in order of priority.
func (c *Conn) addMachines() []link.Machine {
	c.world.mu.Lock()
	added := c.world.machines
	c.world.mu.Unlock()
	all := []link.Machine{c.machine}
	for _, newMachine := range added {
		g := &addedMachine{newMachine(), c}
		for _, other := range all {
			if other.FirstByte() == g.FirstByte() {
				panic(fmt.Sprintf("rpc: two machines have the first byte %#x", g.FirstByte()))
			}
		}
		c.machines = append(c.machines, g)
		all = append(all, g)
	}
	return all
}
