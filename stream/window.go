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

// A window limits how much is in flight to a peer over lanes. A lane is an actor that is reserved
// for bulk and has its own reliable buffer. The window holds the peer's open lanes, which all
// transfers to the peer share. It is only used on the world's goroutine.
type window struct {
	conn *rpc.Conn

	lanes   []*rpc.Actor  // open lanes; type lanes adds and removes them
	queue   time.Duration // maximum time to send a lane's queued bytes; set by each tick
	entries int           // size of each lane's reliable buffer; set when the connection joins

	// On a server, the lanes that the client has released but not fully acknowledged.
	parting []rpc.Channel

	// Content on lanes is charged to the world's stock, the memory for outgoing content, until it's
	// acked.
	stocked      *budget.StockAccount // the connection's share of the stock
	unackedBytes int                  // size of entries in flight, as of the last update or send
	pathFull     bool                 // most of the unacked content is still queued; see update

	// For Stats.
	peakEntries int // maximum number of entries outstanding on a lane so far
	slots       int // size of a lane's reliable buffer; 0 until something is sent on a lane
}

// The gates of lanes need these optional methods of a Channel.
var _ interface {
	queueTimer
	watcher
} = rpc.Channel{}

// laneBytes returns how many bytes a lane can have in flight before its gate closes: by default,
// half of a reliable buffer.
func (w *window) laneBytes(settings *Window) int64 {
	return int64(settings.gate(w.entries).limit(w.entries)) * bunch.EntryBytes
}

// pathLanes returns the number of lanes that are needed to fill the path: enough for the path's
// window, the same number again for the parts that wait behind a lost part, and one more.
func (w *window) pathLanes(settings *Window) int {
	s := extend.Stats(w.conn)
	// Until much has been sent on the path, its congestion window underestimates what the path
	// holds. The product of delivery rate and round trip may be a better estimate.
	product := int(float64(s.DeliveryRate) * s.SmoothedRTT.Seconds())
	filled := int64(max(s.Window, product)) / w.laneBytes(settings)
	return int(min(2*filled+1, maxLanes))
}

// lanesFilledBy returns how many lanes the last left bytes of a transfer can fill. More lanes
// would be of no use, but each one costs both ends an actor.
func (w *window) lanesFilledBy(left int64, settings *Window) int {
	laneBytes := w.laneBytes(settings)
	return int(min((left+laneBytes-1)/laneBytes, maxLanes))
}

// full reports whether all lanes that a transfer may use have as many entries outstanding as
// its Share allows.
func (w *window) full(settings *Window) bool {
	gate := settings.gate(w.entries)
	gate.QueueTime = -1
	for _, lane := range w.usable(settings) {
		if gate.Open(lane.Channel(w.conn)) {
			return false
		}
	}
	return true
}

// usable returns the lanes that a transfer may use, which are the first ones if its settings limit
// their number.
func (w *window) usable(settings *Window) []*rpc.Actor {
	return w.lanes[:min(len(w.lanes), cmp.Or(settings.Lanes, maxLanes))]
}

// grow opens lanes until there are n. It's only called on a server. If the connection runs out of
// channels first, which the game's actors need too, grow returns an error only if there is no lane
// at all.
func (w *window) grow(n int) error {
	for count := len(w.lanes); count < min(n, maxLanes); count++ {
		if _, err := w.conn.World().Spawn(laneClass, w.conn); err != nil {
			// The lane's constructor has already called lanes.onOpen, which added the lane.
			clear(w.lanes[count:])
			w.lanes = w.lanes[:count]
			if count == 0 {
				return fmt.Errorf("stream: opening the first lane: %w", err)
			}
			return nil
		}
	}
	return nil
}

// lanesFor returns the lanes that a transfer may currently use, and the gate that applies to each
// of them.
//
// Content stays in the lanes' buffers until it's acked, so a transfer gets fewer lanes and a
// smaller share of each lane's buffer while the world's stock is short.
func (w *window) lanesFor(settings *Window) ([]*rpc.Actor, Gate) {
	lanes := w.usable(settings)
	gate := settings.gate(w.entries)
	gate.QueueTime = w.queue
	stock, laneBytes := w.stocked.Limit(), w.laneBytes(settings)
	if stock >= int64(len(lanes))*laneBytes {
		return lanes, gate
	}

	lanes = lanes[:min(len(lanes), max(1, int(stock/laneBytes)))]
	if len(lanes) > 0 {
		entries := float64(stock) / float64(len(lanes)) / bunch.EntryBytes
		gate.Share = min(gate.Share, entries/float64(w.entries))
	}
	return lanes, gate
}

// update is called once per tick. It determines how many bytes are unacked, returns the acked bytes
// to the stock, and sets pathFull if at least half of the unacked bytes are still queued.
func (w *window) update() {
	w.pathFull = false
	if w.unackedBytes == 0 {
		return
	}
	entries := w.sweepParting()
	for _, lane := range w.lanes {
		out, _ := lane.Channel(w.conn).Reliable()
		entries += out
	}
	acked := w.unackedBytes - entries*bunch.EntryBytes
	w.addUnacked(-acked)
	w.stocked.Acked(int64(acked))
	w.pathFull = w.unackedBytes > 0 && 2*extend.Stats(w.conn).Queued >= w.unackedBytes
}

// sweepParting forgets the released lanes that have no more entries outstanding. It returns the
// number of entries outstanding on the other released lanes.
func (w *window) sweepParting() (entries int) {
	w.parting = slices.DeleteFunc(w.parting, func(lane rpc.Channel) bool {
		out, _ := lane.Reliable()
		entries += out
		return out == 0
	})
	return entries
}

// addUnacked adds n to unackedBytes and to what the stock is charged. n is negative for bytes that
// have been acked.
func (w *window) addUnacked(n int) {
	w.unackedBytes += n
	w.stocked.Add(int64(n))
}

// A laneRoute is the [route] that sends a transfer's parts as reliable RPCs on lanes.
type laneRoute struct {
	*window
	settings *Window    // of the transfer
	picked   *rpc.Actor // lane for the next send; set by prepare; nil if none accepts a part
}

// prepare picks the lane for the next part. Among the lanes whose gate is open, it picks the one
// with the fewest entries outstanding. It returns false if no gate is open.
func (r *laneRoute) prepare() bool {
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

// send sends b on the lane that prepare has picked.
func (r *laneRoute) send(b *block, id uint64) error {
	defer b.Free()
	message := b.message(id)
	entries := bunch.Entries(b.size() + rpcOverhead)

	// An open gate admits an RPC of any size, so check that this one can't overflow the lane's
	// buffer.
	if err := r.settings.gate(r.entries).Check(r.entries, entries); err != nil {
		return err
	}
	if err := partMessage.send(r.picked, message); err != nil {
		return err
	}
	r.addUnacked(entries * bunch.EntryBytes)
	out, slots := r.picked.Channel(r.conn).Reliable()
	r.peakEntries = max(r.peakEntries, out)
	r.slots = slots
	return nil
}

// watch requests a tick for when the gate of one of the transfer's lanes opens again.
func (r *laneRoute) watch() {
	lanes, gate := r.lanesFor(r.settings)
	for _, lane := range lanes {
		gate.watch(lane.Channel(r.conn))
	}
}
