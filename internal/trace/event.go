package trace

// Kind says what an [Event] tells.
type Kind uint8

// The kinds, with what they fill in beside At and Conn.
const (
	Begun    Kind = iota // a connection: Name
	Joined               // it has: Name is its identity
	Ended                // it has: Name is why
	Queued               // a call waits: Channel, Sequence of its last entry, Entries, Bytes, Reliable, Name, Class, Actor
	Bunch                // some of a message is in the packet that is being built: Channel, Sequence, Bytes, Reliable, Again
	Sent                 // a packet left: Number, Bytes, Asks, and by SetStates the states in it
	Unsent               // the last one did not: Number
	Acked                // Number; Again
	Lost                 // Number
	Freed                // the entries of Channel below Sequence are acknowledged
	Dropped              // the oldest unreliable message of Channel
	Received             // a packet: Number, Bytes
	Handled              // a call ran until At: Name, Class, Actor, Number of its packet, Bytes, Arrived, Ran
	Sampled              // by SetSample
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
	Arrived  int64 // At of the call's last packet
	Ran      int64 // At of the beginning of the handler
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

// SetSample notes the numbers of a Sampled event: bytes that were not sent yet, bytes in flight, bytes a second, and ns.
func (e *Event) SetSample(queue, inFlight, rate int, rtt int64) {
	e.Number, e.Channel, e.Sequence, e.Ran = uint64(queue), uint64(inFlight), uint64(rate), rtt
}
