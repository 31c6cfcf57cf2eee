package outbox

const (
	// minRoom is the minimum of a Room in bytes, about three datagrams.
	minRoom = 4 << 10
	// maxRoom is the maximum of a Room in bytes: 24 Mbit/s for one client at 30 Flushes a
	// second. Room for more states than the path can take costs only processor time, because
	// whatever is not sent by the next Flush is taken back and composed again.
	maxRoom = 96 << 10
)

// A Room is the number of state bytes that the next Flush may pass to the machine. The pace
// of states may allow fewer.
type Room struct{ bytes int }

// Adapt sets the room of the next Flush. left is the number of bytes of the last Flush that are
// unsent. If there are any, the room becomes twice the number of sent bytes; otherwise it doubles.
func (r *Room) Adapt(left int) {
	if left > 0 {
		r.bytes = max(2*(r.bytes-left), minRoom)
		return
	}
	r.bytes = min(2*max(r.bytes, minRoom), maxRoom)
}

// Bytes returns the room in bytes.
func (r *Room) Bytes() int { return r.bytes }
