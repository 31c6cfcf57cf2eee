package vital

const (
	// MaxMessage is the maximum message id.
	MaxMessage = 1<<30 - 1

	messageMore = 0x80 // another byte follows
	messageSign = 0x40 // the number is negative, which an id never is
)

// AppendMessage appends a message id as it stands at the beginning of a chunk's data: the
// game's variable-length integer of the id, with the system bit below it. It panics if id
// is not within 0 to MaxMessage.
//
// System messages belong to the engine, the others to the game. Each kind has its own ids.
func AppendMessage(b []byte, id int, system bool) []byte {
	if id < 0 || id > MaxMessage {
		panic("vital: message id is not within 0 to 1,073,741,823")
	}
	n := uint32(id)<<1 | uint32(pick(system, 1))
	first := byte(n & 0x3f)
	n >>= 6
	if n > 0 {
		first |= messageMore
	}
	b = append(b, first)
	for n > 0 {
		next := byte(n & 0x7f)
		n >>= 7
		if n > 0 {
			next |= messageMore
		}
		b = append(b, next)
	}
	return b
}

// ParseMessage parses a message id appended by AppendMessage, and returns the number of
// bytes it takes. An id has only one valid encoding.
func ParseMessage(b []byte) (id int, system bool, n int, err error) {
	if len(b) == 0 || b[0]&messageSign != 0 {
		return 0, false, 0, errMessage
	}
	v := uint64(b[0] & 0x3f)
	for n, shift := 1, 6; ; n, shift = n+1, shift+7 {
		if b[n-1]&messageMore == 0 {
			if n > 1 && b[n-1] == 0 || v>>1 > MaxMessage {
				return 0, false, 0, errMessage
			}
			return int(v >> 1), v&1 == 1, n, nil
		}
		if n == len(b) || n == 5 {
			return 0, false, 0, errMessage
		}
		v |= uint64(b[n]&0x7f) << shift
	}
}
