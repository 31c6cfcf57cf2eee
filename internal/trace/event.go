package trace

// Kind says what happened in an [Event].
type Kind uint8

// The kinds, with the fields that are set besides At and Conn.
const (
	Begun  Kind = iota // a connection has begun: Name
	Joined             // the connection has joined: Name is its identity
	Ended              // the connection has ended: Name is the reason
	// A call was queued: Channel, Sequence of its last entry, Entries, Bytes,
	// Reliable, Name, Class, Actor.
	Queued
	// A part of a message was put into the packet being built: Channel,
	// Sequence, Bytes, Reliable, Again.
	Bunch
	Sent     // a packet was sent: Number, Bytes, Asks, and the states in it (see SetStates)
	Unsent   // the last packet was not sent after all: Number
	Acked    // a packet was acknowledged: Number; Again if it had counted as lost
	Lost     // a packet was lost: Number, Bytes
	Freed    // the entries of Channel below Sequence were acknowledged
	Dropped  // the oldest unreliable message of Channel was dropped
	Received // a packet was received: Number, Bytes
	Handled  // a call ran until At: Name, Class, Actor, Number of its packet, Bytes, Arrived, Ran
	Sampled  // counters of the connection, set by SetSample
)

// An Event is something that happened on a connection. Its strings are retained until they
// are written.
type Event struct {
	At       int64 // ns, on the trace's clock
	Number   uint64
	Channel  uint64
	Sequence uint64
	Actor    uint64
	Name     string
	Class    string
	Arrived  int64 // arrival of the call's last packet, on the clock of At
	Ran      int64 // start of the handler, on the clock of At
	Conn     uint32
	Bytes    uint32
	Entries  uint16
	Kind     Kind
	Reliable bool
	Again    bool
	Asks     bool
}

// SetStates sets the number of state updates in the packet of a Sent event, and their size in
// bytes.
func (e *Event) SetStates(updates, bytes int) {
	e.Sequence = uint64(updates)
	e.Actor = uint64(bytes)
}

// SetSample sets the counters of a Sampled event: the bytes queued but not sent, the bytes in
// flight, the bytes sent per second, and the round trip in ns.
func (e *Event) SetSample(queue, inFlight, rate int, rtt int64) {
	e.Number = uint64(queue)
	e.Channel = uint64(inFlight)
	e.Sequence = uint64(rate)
	e.Ran = rtt
}
