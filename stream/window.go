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

// A window holds the lanes of a peer, which all transfers to the peer share. It is used on the
// world's goroutine only.
type window struct {
	conn *rpc.Conn

	lanes []*rpc.Actor  // open lanes; bindPipes adds to it, and type lanes removes from it
	queue time.Duration // maximum time that a lane's queued bytes may take to send; set by each tick

	// At a server: lanes that the client has released but not fully acknowledged.
	parting []rpc.Channel

	stocked *budget.StockAccount // the connection's account at the world's stock; charged for held
	// Bytes of entries on lanes that were unacked at the last note or sent since then.
	held     int
	pathFull bool // at least half of held was still queued at the last note, so the path has enough to do

	// For Stats.
	peak  int // maximum number of entries outstanding on a lane so far
	slots int // entries of a lane's reliable buffer; 0 until something is sent on a lane
}

// laneBytes is the maximum that a lane has in flight by default: half of a reliable buffer of
// 256 full entries.
const laneBytes = 128 * bunch.EntryBytes

// pathLanes returns the number of lanes that fill the path. It counts the lanes that carry the
// path's window, as many again for parts that wait for a lost one, and one more.
//
// While little was sent on the path, its congestion window is too small a measure. The product
// of rate and round trip is used if it is larger.
func (w *window) pathLanes() int {
	s := extend.Stats(w.conn)
	product := int(float64(s.DeliveryRate) * s.SmoothedRTT.Seconds())
	return min(2*(max(s.Window, product)/laneBytes)+1, maxLanes)
}

// full reports whether every lane that a transfer may use has as many entries outstanding as
// the transfer's Share allows.
func (w *window) full(settings *Window) bool {
	gate := Gate{Share: settings.Share, QueueTime: -1}
	for _, lane := range w.usable(settings) {
		if gate.Open(lane.Channel(w.conn)) {
			return false
		}
	}
	return true
}

// usable returns the lanes that a transfer may use: the first ones, up to the number in its
// settings.
func (w *window) usable(settings *Window) []*rpc.Actor {
	return w.lanes[:min(len(w.lanes), cmp.Or(settings.Lanes, maxLanes))]
}

// grow opens lanes at a server until there are n. It stops early if the connection has no
// channel left, because the game's actors may have taken the others. It fails only if there is
// no lane at all.
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
//
// Everything sent stays in the lanes' buffers until it is acked. While the world's stock is
// short, a transfer therefore gets fewer lanes, and less of the buffer of each.
func (w *window) lanesFor(settings *Window) ([]*rpc.Actor, Gate) {
	lanes := w.usable(settings)
	gate := Gate{Share: settings.Share, QueueTime: w.queue}
	stock := w.stocked.Limit()
	if stock >= int64(len(lanes))*laneBytes {
		return lanes, gate
	}

	lanes = lanes[:min(len(lanes), max(1, int(stock/laneBytes)))]
	if len(lanes) > 0 {
		_, slots := lanes[0].Channel(w.conn).Reliable()
		entries := float64(stock) / float64(len(lanes)) / bunch.EntryBytes
		gate.Share = min(gate.share(), entries/float64(max(1, slots)))
	}
	return lanes, gate
}

// note is called once a tick. It reduces held and the stock's charge to the entries that are
// still unacked, and sets pathFull.
func (w *window) note() {
	w.pathFull = false
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
	w.pathFull = w.held > 0 && 2*extend.Stats(w.conn).Queued >= w.held
}

// unacked returns the number of outstanding entries on lanes that the client has released. It
// removes the lanes that have none.
func (w *window) unacked() (entries int) {
	w.parting = slices.DeleteFunc(w.parting, func(lane rpc.Channel) bool {
		out, _ := lane.Reliable()
		entries += out
		return out == 0
	})
	return entries
}

// hold adds n to held and to the stock's charge. n is negative for acked bytes.
func (w *window) hold(n int) {
	w.held += n
	w.stocked.Add(int64(n))
}

// A laneRoute is the [route] that sends the parts of a transfer as reliable RPCs on lanes.
type laneRoute struct {
	*window
	settings *Window    // of the transfer
	picked   *rpc.Actor // the lane for the next send, picked by open; nil if no lane accepts a part
}

// open picks the lane for the next part: of those whose gate is open, the one with the fewest
// outstanding entries. It reports whether there is one.
func (r *laneRoute) open() bool {
	lanes, gate := r.lanesFor(r.settings)
	r.picked = nil
	fewest := 0
	for _, lane := range lanes {
		ch := lane.Channel(r.conn)
		out, _ := ch.Reliable()
		if (r.picked == nil || out < fewest) && gate.Open(ch) {
			r.picked, fewest = lane, out
		}
	}
	return r.picked != nil
}

// send sends b on the lane that open picked. The entries of b count against the world's stock
// until they are acked.
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
	r.peak = max(r.peak, out)
	r.slots = slots
	return nil
}

// watch asks for a tick when the gate of any lane that the transfer may use opens.
func (r *laneRoute) watch() {
	lanes, gate := r.lanesFor(r.settings)
	for _, lane := range lanes {
		gate.watch(lane.Channel(r.conn))
	}
}
