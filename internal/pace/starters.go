package pace

// leastUnknown packets may leave over a path of which nothing is known however many start: the initial window of RFC 9002, 7.2.
const leastUnknown = 10

// starters is how many share a link and start at present.
type starters int

// part returns one's part of what who starts alone would take.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns how many packets may leave in the first round trip of a path of which nothing is known.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), leastUnknown) }
