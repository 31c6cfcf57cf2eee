package sealed

// State is the state of a carrier.
type State uint8

const (
	// Opening means that no packet was acked yet. Only probes, the train and feedback are
	// sent.
	Opening State = iota
	// Open means that payloads are sent.
	Open
	// Silent means that no ack has arrived for silentPTOs. Unless there is another carrier
	// and only play was in flight, silentTime has passed as well. If there is another
	// carrier, the peer was heard over it.
	//
	// All payloads in flight count as lost, and the source is not asked for more. A probe
	// is sent every PTO, and an ack makes the carrier Open again.
	Silent
	// Closed means that the carrier was closed by its owner, after 10 s without an ack, or
	// by an error. It never opens again.
	Closed
)

func (s State) String() string {
	names := [...]string{"opening", "open", "silent", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}
