package outbox

// A Room has at least minRoom bytes, about three datagrams, and at most maxRoom, 24 Mbit/s
// for one client at 30 Flushes a second. Room for more states than the path can take costs
// only time: whatever is not sent by the next Flush is taken back and composed again.
const minRoom, maxRoom = 4 << 10, 96 << 10

// A Room is the number of bytes of states that the next Flush may pass to the
// machine. The pace of states may allow fewer.
type Room struct{ bytes int }

// Adapt sets the room of the next Flush. If left bytes of the last Flush are
// unsent, the room becomes twice what was sent; if all were sent, it doubles.
func (r *Room) Adapt(left int) {
	if left > 0 {
		r.bytes = max(2*(r.bytes-left), minRoom)
		return
	}
	r.bytes = min(2*max(r.bytes, minRoom), maxRoom)
}

// Bytes returns the room in bytes.
func (r *Room) Bytes() int { return r.bytes }
