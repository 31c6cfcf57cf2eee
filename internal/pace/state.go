package pace

// State is what the controller is doing.
type State uint8

const (
	Start   State = iota // looks for the rate of a path it does not know
	Drain                // empties the queue
	Cruise               // paces at the estimate
	Up                   // looks for more rate
	Dip                  // leaves the path half empty for a round trip, to see its least delay
	Compete              // shares a queue that others fill
	Dark                 // hears nothing: a packet a PTO
	Stopped              // has heard nothing for 10 s
)

func (s State) String() string {
	return [...]string{"start", "drain", "cruise", "up", "dip", "compete", "dark", "stopped"}[s]
}
