package vital

// The game's Huffman code: every peer builds the same tree from the same
// frequencies. Codes begin with the low bit. The code of symbol 256 ends the data.
const (
	endSymbol = 256
	symbols   = endSymbol + 1

	// maxPad is how many zero bits may follow the end: the rest of its byte, or
	// the whole byte that the game appends if the end fills the one before.
	maxPad = 8
)

// frequencies holds how often each byte occurred when the game's code was made.
// The end counts as 1.
var frequencies = [symbols]uint32{
	1 << 30, 4545, 2657, 431, 1950, 919, 444, 482, 2244, 617, 838, 542, 715, 1814, 304, 240,
	754, 212, 647, 186, 283, 131, 146, 166, 543, 164, 167, 136, 179, 859, 363, 113,
	157, 154, 204, 108, 137, 180, 202, 176, 872, 404, 168, 134, 151, 111, 113, 109,
	120, 126, 129, 100, 41, 20, 16, 22, 18, 18, 17, 19, 16, 37, 13, 21,
	362, 166, 99, 78, 95, 88, 81, 70, 83, 284, 91, 187, 77, 68, 52, 68,
	59, 66, 61, 638, 71, 157, 50, 46, 69, 43, 11, 24, 13, 19, 10, 12,
	12, 20, 14, 9, 20, 20, 10, 10, 15, 15, 12, 12, 7, 19, 15, 14,
	13, 18, 35, 19, 17, 14, 8, 5, 15, 17, 9, 15, 14, 18, 8, 10,
	2173, 134, 157, 68, 188, 60, 170, 60, 194, 62, 175, 71, 148, 67, 167, 78,
	211, 67, 156, 69, 1674, 90, 174, 53, 147, 89, 181, 51, 174, 63, 163, 80,
	167, 94, 128, 122, 223, 153, 218, 77, 200, 110, 190, 73, 174, 69, 145, 66,
	277, 143, 141, 60, 136, 53, 180, 57, 142, 57, 158, 61, 166, 112, 152, 92,
	26, 22, 21, 28, 20, 26, 30, 21, 32, 27, 20, 17, 23, 21, 30, 22,
	22, 21, 27, 25, 17, 27, 23, 18, 39, 26, 15, 21, 12, 18, 18, 27,
	20, 18, 15, 19, 11, 17, 33, 12, 18, 15, 19, 18, 16, 26, 17, 18,
	9, 10, 25, 22, 22, 17, 20, 16, 6, 16, 15, 20, 14, 18, 24, 335,
	1,
}

// A huffman is the code in both directions.
type huffman struct {
	codes [symbols]struct {
		bits   uint32 // low bit first
		length uint
	}
	// children of the inner nodes: node n is children[n-symbols], the last is
	// the root. Smaller numbers are symbols.
	children [symbols - 1][2]uint16
}

var code = newHuffman()

// newHuffman joins the two rarest nodes until one is left. The order decides
// between equals: nodes are sorted by falling frequency, and a joined node
// takes the place of the last but one, then moves in front of rarer ones.
func newHuffman() *huffman {
	type node struct {
		frequency uint32
		id        uint16
	}
	h := &huffman{}
	var nodes []node
	insert := func(n node) {
		at := len(nodes)
		nodes = append(nodes, n)
		for ; at > 0 && nodes[at-1].frequency < n.frequency; at-- {
			nodes[at] = nodes[at-1]
		}
		nodes[at] = n
	}
	for i, f := range frequencies {
		insert(node{f, uint16(i)})
	}
	for i := range h.children {
		rarest, other := nodes[len(nodes)-1], nodes[len(nodes)-2]
		nodes = nodes[:len(nodes)-2]
		h.children[i] = [2]uint16{rarest.id, other.id}
		insert(node{rarest.frequency + other.frequency, uint16(symbols + i)})
	}
	h.assign(h.root(), 0, 0)
	return h
}

func (h *huffman) root() uint16 { return uint16(symbols + len(h.children) - 1) }

// assign assigns a code to every symbol below a node.
func (h *huffman) assign(node uint16, bits uint32, length uint) {
	if node < symbols {
		h.codes[node].bits, h.codes[node].length = bits, length
		return
	}
	children := h.children[node-symbols]
	h.assign(children[0], bits, length+1)
	h.assign(children[1], bits|1<<length, length+1)
}

// Compress appends the Huffman code of data, which may be longer than data: up to 15 bits a byte.
func Compress(b, data []byte) []byte {
	b, _ = compress(b, data, 2*len(data)+3)
	return b
}

// compress is Compress, but it returns false, with b unchanged, if the code
// takes more than most bytes.
func compress(b, data []byte, most int) ([]byte, bool) {
	start, limit := len(b), len(b)+most
	var held uint64 // bits that do not fill a byte yet
	var n uint
	for i := 0; i <= len(data); i++ {
		c := &code.codes[endSymbol]
		if i < len(data) {
			c = &code.codes[data[i]]
		}
		held |= uint64(c.bits) << n
		for n += c.length; n >= 8; n -= 8 {
			if len(b) >= limit {
				return b[:start], false
			}
			b, held = append(b, byte(held)), held>>8
		}
	}
	if len(b) >= limit {
		return b[:start], false
	}
	return append(b, byte(held)), true // even if no bit is left, as in the game
}

// Decompress appends the data that Compress has encoded, at most most bytes. It
// returns an error if the code does not end, if more than padding follows it,
// or if it contains more bytes. Every error Is ErrMalformed.
func Decompress(b, data []byte, most int) ([]byte, error) {
	start, limit := len(b), len(b)+most
	node := code.root()
	for i, c := range data {
		for bit := range 8 {
			if node = code.children[node-symbols][c>>bit&1]; node >= symbols {
				continue
			}
			if node == endSymbol {
				if !padding(c>>bit>>1, 7-bit, data[i+1:]) {
					return b[:start], errPad
				}
				return b, nil
			}
			if len(b) >= limit {
				return b[:start], errInflated
			}
			b, node = append(b, byte(node)), code.root()
		}
	}
	return b[:start], errCode
}

// padding reports whether the rest of a code is valid padding: the remaining
// bits of its byte, and the bytes after it, are zeros, and at most maxPad.
func padding(rest byte, bits int, more []byte) bool {
	return rest == 0 && bits+8*len(more) <= maxPad && (len(more) == 0 || more[0] == 0)
}
