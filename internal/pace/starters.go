package pace

// leastUnknown packets may leave at first over an unknown path, however many start: the initial window of RFC 9002, 7.2.
const leastUnknown = 10

// starters is how many controllers start together, see [Controller.Starters]; 0 counts as one.
type starters int

// part returns the part of each.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns how many packets each may send in the first round trip of an unknown path.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), leastUnknown) }
