package outbox

// Room for states at a Flush: what does not leave until the next is taken back and composed anew, which only costs time.
const minRoom, maxRoom = 4 << 10, 96 << 10

// Room is how many bytes of states the next Flush may hand to the machine, but for what pace holds back.
type Room struct{ bytes int }

// Adapt finds out how much the next Flush may hand over, of which so many bytes of the last one have not left: twice what left since
// then, once something did not.
func (r *Room) Adapt(left int) {
	if left > 0 {
		r.bytes = max(2*(r.bytes-left), minRoom)
		return
	}
	r.bytes = min(2*max(r.bytes, minRoom), maxRoom)
}

// Bytes returns how much that is.
func (r *Room) Bytes() int { return r.bytes }
