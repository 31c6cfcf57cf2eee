package outbox

// Bounds of a Room: some three datagrams, and 24 Mbit/s for one client at 30 Flushes a second. States beyond what the path takes cost time
// only, for what has not left by the next Flush is taken back and composed again.
const minRoom, maxRoom = 4 << 10, 96 << 10

// Room is how many bytes of states the next Flush may hand to the machine. The pace of states may allow fewer.
type Room struct{ bytes int }

// Adapt sets the room of the next Flush, when left bytes of the last one have not left yet: to twice what did leave; if all did, to twice
// the room.
func (r *Room) Adapt(left int) {
	if left > 0 {
		r.bytes = max(2*(r.bytes-left), minRoom)
		return
	}
	r.bytes = min(2*max(r.bytes, minRoom), maxRoom)
}

// Bytes returns the room in bytes.
func (r *Room) Bytes() int { return r.bytes }
