package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/rpc"
)

// window is the route of reliable RPCs on lanes. It belongs to the world's goroutine.
type window struct {
	conn *rpc.Conn

	lanes []*rpc.Actor  // open; the server's pipes add them, [lanes] takes them away
	queue time.Duration // that may wait unsent on a lane; each tick sets it
	next  *rpc.Actor    // the lane that open found, for send

	stocked *budget.StockAccount // of the connection; charged with what lies on the lanes
	held    int                  // bytes of that, as of the last note

	peak, slots int // most entries ever outstanding on a lane, of how many; for Stats
}

var errNoLane = errors.New("stream: no lane is open")

// open finds, of the lanes that the transfer may use, the one with the fewest entries outstanding.
func (w *window) open(via Backend) bool {
	lanes, gate := w.lanesFor(via.(Window))
	w.next = nil
	least := 0
	for _, lane := range lanes {
		ch := lane.Channel(w.conn)
		out, _ := ch.Reliable()
		if (w.next == nil || out < least) && gate.Open(ch) {
			w.next, least = lane, out
		}
	}
	return w.next != nil
}

// laneBytes is half of a reliable buffer in full entries: what a lane has in flight at most.
const laneBytes = 128 * bunch.EntryBytes

// pathLanes is how many lanes the path has place for, and as many again for what waits behind a loss. The window of a path that
// was only tried is less than what it holds.
func (w *window) pathLanes() int {
	s := w.conn.Stats()
	product := int(float64(s.DeliveryRate) * s.SmoothedRTT.Seconds())
	return min(2*(max(s.Window, product)/laneBytes)+1, maxLanes)
}

// full reports whether all lanes have as many entries outstanding as they may.
func (w *window) full(settings Window) bool {
	gate := Gate{Share: settings.Share, QueueTime: -1}
	for _, lane := range w.usable(settings) {
		if gate.Open(lane.Channel(w.conn)) {
			return false
		}
	}
	return true
}

func (w *window) usable(settings Window) []*rpc.Actor {
	return w.lanes[:min(len(w.lanes), settings.lanes())]
}

func (w *window) send(via Backend, b *block, id uint64) error {
	defer b.Free()
	if w.next == nil {
		return errNoLane
	}
	message := b.message(id)
	settings := via.(Window)
	_, slots := w.next.Channel(w.conn).Reliable()
	if err := (Gate{Share: settings.Share}).Check(slots, bunch.Entries(len(message)+rpcOverhead)); err != nil {
		return err
	}
	if err := sendPart.call(w.next, message); err != nil {
		return err
	}
	w.hold(bunch.Entries(len(message)+rpcOverhead) * bunch.EntryBytes)
	out, slots := w.next.Channel(w.conn).Reliable()
	w.peak, w.slots = max(w.peak, out), slots
	return nil
}

func (w *window) watch(via Backend) {
	lanes, gate := w.lanesFor(via.(Window))
	for _, lane := range lanes {
		gate.watch(lane.Channel(w.conn))
	}
}

// grow opens lanes until there are n, or none more can be opened, as when the actors of the game have all other channels of the
// connection. It is an error when there is none at all. Server only.
func (w *window) grow(n int) error {
	for before := len(w.lanes); before < min(n, maxLanes); before++ {
		if _, err := w.conn.World().Spawn(laneClass, w.conn); err != nil {
			clear(w.lanes[before:])
			w.lanes = w.lanes[:before] // the constructor ran before the open failed
			if before == 0 {
				return fmt.Errorf("stream: opening the first lane: %w", err)
			}
			return nil
		}
	}
	return nil
}

// lanesFor returns the lanes that a transfer may use now and the gate before each. While the world's stock is short these are
// fewer lanes, and less of their buffers: what is sent lies there until it is acked.
func (w *window) lanesFor(settings Window) ([]*rpc.Actor, Gate) {
	lanes, gate := w.usable(settings), Gate{Share: settings.Share, QueueTime: w.queue}
	most := w.stocked.Limit()
	if most >= int64(len(lanes))*laneBytes {
		return lanes, gate
	}
	lanes = lanes[:min(len(lanes), max(1, int(most/laneBytes)))]
	if len(lanes) > 0 {
		_, slots := lanes[0].Channel(w.conn).Reliable()
		entries := float64(most) / float64(len(lanes)) / bunch.EntryBytes
		gate.Share = min(gate.share(), entries/float64(max(1, slots)))
	}
	return lanes, gate
}

// note takes over what of the stock the lanes hold.
func (w *window) note() {
	if w.held == 0 {
		return
	}
	entries := 0
	for _, lane := range w.lanes {
		out, _ := lane.Channel(w.conn).Reliable()
		entries += out
	}
	w.hold(entries*bunch.EntryBytes - w.held)
}

// hold notes n more bytes on the lanes.
func (w *window) hold(n int) {
	w.held += n
	w.stocked.Add(int64(n))
}
