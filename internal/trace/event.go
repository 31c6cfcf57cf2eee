package trace

// Kind is what happened in an [Event].
type Kind uint8

// The kinds, with the fields that each fills in beside At and Conn.
const (
	Begun    Kind = iota // a connection began: Name
	Joined               // the connection joined: Name is its identity
	Ended                // the connection ended: Name is the reason
	Queued               // a call waits: Channel, Sequence of its last entry, Entries, Bytes, Reliable, Name, Class, Actor
	Bunch                // a part of a message went into the packet that is being built: Channel, Sequence, Bytes, Reliable, Again
	Sent                 // a packet left: Number, Bytes, Asks, and by SetStates the states in it
	Unsent               // the packet sent last did not leave: Number
	Acked                // a packet was acknowledged: Number; Again if it had counted as lost
	Lost                 // a packet counts as lost: Number, Bytes
	Freed                // the entries of Channel below Sequence are acknowledged
	Dropped              // the oldest unreliable message of Channel was dropped
	Received             // a packet arrived: Number, Bytes
	Handled              // a call ran until At: Name, Class, Actor, Number of its packet, Bytes, Arrived, Ran
	Sampled              // counters of the connection, set by SetSample
)

// Event is one thing that happened on a connection. Strings are kept until they are written.
type Event struct {
	At       int64 // ns, of the trace's clock
	Number   uint64
	Channel  uint64
	Sequence uint64
	Actor    uint64
	Name     string
	Class    string
	Arrived  int64 // when the call's last packet arrived, as At
	Ran      int64 // when the handler began, as At
	Conn     uint32
	Bytes    uint32
	Entries  uint16
	Kind     Kind
	Reliable bool
	Again    bool
	Asks     bool
}

// SetStates notes in a Sent event how many updates of states the packet holds, and their bytes.
func (e *Event) SetStates(updates, bytes int) { e.Sequence, e.Actor = uint64(updates), uint64(bytes) }

// SetSample notes the counters of a Sampled event: queue bytes that were not sent yet, inFlight bytes in flight, rate bytes a second that
// leave, and rtt in ns.
func (e *Event) SetSample(queue, inFlight, rate int, rtt int64) {
	e.Number, e.Channel, e.Sequence, e.Ran = uint64(queue), uint64(inFlight), uint64(rate), rtt
}
