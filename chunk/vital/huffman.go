package vital

// The game's Huffman code. Every peer builds the same tree from the same frequencies. A code
// begins with its low bit, and the code of symbol 256 ends the data.
const (
	endSymbol = 256
	symbols   = endSymbol + 1

	// maxPad is how many zero bits may follow the end: the rest of its byte or, if it fills its
	// byte, the whole byte that the game then appends.
	maxPad = 8
)

// frequencies holds how often each byte occurred in the data from which the game's code was made.
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

// A huffman is a Huffman code for both directions.
type huffman struct {
	codes [symbols]struct {
		bits   uint32 // low bit first
		length uint
	}
	// children holds the children of the inner nodes. Node n is children[n-symbols], and
	// the last one is the root. Node numbers below symbols are symbols.
	children [symbols - 1][2]uint16
}

var code = newHuffman()

// newHuffman builds the tree by joining the two rarest nodes until only one is left.
//
// All peers must build the same tree, so it matters how we choose between nodes of the same
// frequency. They stay sorted by falling frequency, and a joined node goes to the end and then
// moves up past rarer nodes only.
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

// assign assigns codes to all symbols below a node. bits and length are the node's own code.
func (h *huffman) assign(node uint16, bits uint32, length uint) {
	if node < symbols {
		h.codes[node].bits = bits
		h.codes[node].length = length
		return
	}
	children := h.children[node-symbols]
	h.assign(children[0], bits, length+1)
	h.assign(children[1], bits|1<<length, length+1)
}

// Compress appends the Huffman code of data. It may be longer than data, up to 15 bits per byte.
func Compress(b, data []byte) []byte {
	b, _ = compress(b, data, 2*len(data)+3)
	return b
}

// compress is Compress with a limit. It returns false, with b unchanged, if the code takes
// more than maxBytes.
func compress(b, data []byte, maxBytes int) ([]byte, bool) {
	start, limit := len(b), len(b)+maxBytes
	var held uint64 // bits not appended yet
	var n uint      // number of bits in held
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
			b = append(b, byte(held))
			held >>= 8
		}
	}
	if len(b) >= limit {
		return b[:start], false
	}
	// Append the last byte even if no bit is left, as the game does.
	return append(b, byte(held)), true
}

// Decompress appends the data that Compress encoded, unless it has more than maxBytes. Then, or if
// the code has no end or anything but padding follows it, the error wraps ErrMalformed.
func Decompress(b, data []byte, maxBytes int) ([]byte, error) {
	start, limit := len(b), len(b)+maxBytes
	node := code.root()
	for i, c := range data {
		for bit := range 8 {
			node = code.children[node-symbols][c>>bit&1]
			if node >= symbols {
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
			b = append(b, byte(node))
			node = code.root()
		}
	}
	return b[:start], errCode
}

// padding reports whether what follows the end of a code is valid padding: at most maxPad bits, all
// of them zero. rest has the bits that remain of the end's byte, and more has the bytes after it.
func padding(rest byte, bits int, more []byte) bool {
	return rest == 0 && bits+8*len(more) <= maxPad && (len(more) == 0 || more[0] == 0)
}
