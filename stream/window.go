package stream

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A window holds the lanes of a peer, which all transfers to it share. It is
// used on the world's goroutine only.
type window struct {
	conn *rpc.Conn

	lanes []*rpc.Actor  // open lanes; bindPipes adds them, type lanes removes them
	queue time.Duration // how long it may take to send a lane's queued bytes; set by each tick

	// At a server: lanes that the client has released, until it has
	// acknowledged everything on them.
	parting []rpc.Channel

	stocked *budget.StockAccount // the connection's account at the world's stock; charged for held
	// Bytes of the entries on the lanes that were unacked at the last note, or were sent since.
	held  int
	waits bool // at least half of held was still queued at the last note: the path has enough to do

	peak, slots int // for Stats: the most entries that were ever outstanding on a lane, and the size of its buffer
}

// laneBytes is the most that a lane has in flight by default: half of a
// reliable buffer of 256 full entries.
const laneBytes = 128 * bunch.EntryBytes

// pathLanes returns how many lanes fill the path: as many as carry its window, as many again
// for parts that wait for a lost one, and one. While little has been sent on the path, its
// congestion window is too small a measure, and rate times round trip is used if that is more.
func (w *window) pathLanes() int {
	s := extend.Stats(w.conn)
	product := int(float64(s.DeliveryRate) * s.SmoothedRTT.Seconds())
	return min(2*(max(s.Window, product)/laneBytes)+1, maxLanes)
}

// full reports whether every lane that a transfer may use has as many entries
// outstanding as the transfer's Share allows.
func (w *window) full(settings *Window) bool {
	gate := Gate{Share: settings.Share, QueueTime: -1}
	for _, lane := range w.usable(settings) {
		if gate.Open(lane.Channel(w.conn)) {
			return false
		}
	}
	return true
}

// usable returns the lanes that a transfer may use: the first ones, as many as its settings allow.
func (w *window) usable(settings *Window) []*rpc.Actor {
	return w.lanes[:min(len(w.lanes), cmp.Or(settings.Lanes, maxLanes))]
}

// grow opens lanes, at a server, until there are n, or until the connection has no channel left,
// because the game's actors may have the others. It fails only if there is no lane at all.
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

// lanesFor returns the lanes that a transfer may use now, and the gate of each.
// Whatever is sent stays in their buffers until it is acked. So while the world's
// stock is short, a transfer gets fewer lanes, and less of the buffer of each.
func (w *window) lanesFor(settings *Window) ([]*rpc.Actor, Gate) {
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

// note is called once a tick. It reduces held and the stock's charge to the
// entries that are still unacked, and sets waits.
func (w *window) note() {
	w.waits = false
	if w.held == 0 {
		return
	}
	entries := w.unacked()
	for _, lane := range w.lanes {
		out, _ := lane.Channel(w.conn).Reliable()
		entries += out
	}
	acked := w.held - entries*bunch.EntryBytes
	w.hold(-acked)
	w.stocked.Acked(int64(acked))
	w.waits = w.held > 0 && 2*extend.Stats(w.conn).Queued >= w.held
}

// unacked returns how many entries are outstanding on lanes that the client has
// released, and removes lanes that have none.
func (w *window) unacked() (entries int) {
	w.parting = slices.DeleteFunc(w.parting, func(lane rpc.Channel) bool {
		out, _ := lane.Reliable()
		entries += out
		return out == 0
	})
	return entries
}

// hold adds n to held and to the stock's charge; n is negative for acked bytes.
func (w *window) hold(n int) {
	w.held += n
	w.stocked.Add(int64(n))
}

// A laneRoute is the [route] that sends the parts of a transfer as reliable RPCs on lanes.
type laneRoute struct {
	*window
	settings *Window    // the transfer's
	picked   *rpc.Actor // the lane for the next send, picked by open; nil = no lane takes a part
}

// open picks the lane for the next part: of those whose gate is open, the one
// with the fewest outstanding entries. It reports whether there is one.
func (r *laneRoute) open() bool {
	lanes, gate := r.lanesFor(r.settings)
	r.picked = nil
	least := 0
	for _, lane := range lanes {
		ch := lane.Channel(r.conn)
		out, _ := ch.Reliable()
		if (r.picked == nil || out < least) && gate.Open(ch) {
			r.picked, least = lane, out
		}
	}
	return r.picked != nil
}

// send sends b on the lane that open picked. Its entries count against the
// world's stock until they are acked.
func (r *laneRoute) send(b *block, id uint64) error {
	defer b.Free()
	message := b.message(id)
	entries := bunch.Entries(len(message) + rpcOverhead)
	_, slots := r.picked.Channel(r.conn).Reliable()
	if err := (Gate{Share: r.settings.Share}).Check(slots, entries); err != nil {
		return err
	}
	if err := sendPart.call(r.picked, message); err != nil {
		return err
	}
	r.hold(entries * bunch.EntryBytes)
	out, slots := r.picked.Channel(r.conn).Reliable()
	r.peak, r.slots = max(r.peak, out), slots
	return nil
}

// watch asks for a tick as soon as the gate of any lane that the transfer may use opens.
func (r *laneRoute) watch() {
	lanes, gate := r.lanesFor(r.settings)
	for _, lane := range lanes {
		gate.watch(lane.Channel(r.conn))
	}
}
