package rpc

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/link"
)

// Machine is a protocol of its own beside the calls of a connection, without clock, goroutine or lock: see
// [World.AddMachine]. Receive keeps nothing of its datagram and AppendPacket builds the next one; an error of Receive or Advance ends
// the connection. All methods are called under one lock for all machines of the connection, which [Conn.Drive] takes, too.
type Machine interface {
	link.Machine
	link.Flyer
	link.LossCounter
	link.Changer
	link.Arriver
	link.Holder
	link.Seconder
	link.Copier
}

// AddMachine gives every connection of the world one more machine. Its datagrams leave when gameplay has none, and are
// those whose first byte is FirstByte, which both ends must agree on; what comes before the connection has joined is
// dropped and counted. Machines added earlier go first. Call it before the world's first connection: newMachine runs when
// a connection begins, on any goroutine, and gets it before it can be used.
func (w *World) AddMachine(newMachine func(c *Conn) Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		panic("rpc: AddMachine after the first connection")
	}
	w.machines = append(w.machines, newMachine)
}

// Machine returns the added machine whose datagrams begin with first, nil when there is none. It is to be used within
// Drive only.
func (c *Conn) Machine(first byte) Machine {
	for _, m := range c.machines {
		if m.FirstByte() == first {
			return m.Machine
		}
	}
	return nil
}

// Drive runs fn under the lock that the connection's machines share, with the time for their methods, and lets what it
// changed leave. fn stops the connection: it must not block, and call nothing of this package.
func (c *Conn) Drive(fn func(now time.Time)) {
	now := c.link.Lock()
	defer c.link.Unlock()
	fn(now)
}

// guest is a machine that was added to a connection. It hears nothing before the connection has joined, for until then
// nobody knows who sends.
type guest struct {
	Machine
	conn *Conn
}

func (g *guest) Receive(now time.Time, datagram []byte) error {
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
		g := &guest{newMachine(c), c}
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
