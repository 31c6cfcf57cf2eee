package pace

// leastUnknown is how many packets may always leave in the first round trip of an unknown path, however many controllers start: the initial
// window of RFC 9002, section 7.2.
const leastUnknown = 10

// starters is how many controllers start together, see [Controller.Starters]; 0 counts as one.
type starters int

// part returns the part of each.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns how many packets each may send in the first round trip of an unknown path.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), leastUnknown) }
