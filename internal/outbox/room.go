package outbox

// A Room has at least minRoom bytes, about three datagrams, and at most maxRoom, 24 Mbit/s for one client at 30 Flushes a second. States
// beyond what the path takes cost only time: what has not left by the next Flush is taken back and composed again.
const minRoom, maxRoom = 4 << 10, 96 << 10

// Room is the number of bytes of states that the next Flush may hand to the machine. The pace of states may allow fewer.
type Room struct{ bytes int }

// Adapt sets the room of the next Flush. If left bytes of the last Flush have not left yet, the room becomes twice what did leave; if all
// left, it doubles.
func (r *Room) Adapt(left int) {
	if left > 0 {
		r.bytes = max(2*(r.bytes-left), minRoom)
		return
	}
	r.bytes = min(2*max(r.bytes, minRoom), maxRoom)
}

// Bytes returns the room in bytes.
func (r *Room) Bytes() int { return r.bytes }
