package pace

// State names what the controller is doing.
type State uint8

const (
	Start   State = iota // looks for the rate of an unknown path
	Drain                // empties the queue
	Cruise               // paces at the estimate
	Up                   // looks for more rate
	Dip                  // leaves the path half empty for a round trip, to see its least delay
	Compete              // shares a queue that others fill
	Yield                // leaves a part of the path, to see whether its losses go with it
	Dark                 // no ack comes: sends one packet each PTO
	Stopped              // no ack has come for 10 s: sends nothing
)

func (s State) String() string {
	return [...]string{"start", "drain", "cruise", "up", "dip", "compete", "yield", "dark", "stopped"}[s]
}
