package logs

import "fmt"

// These methods log records at Debug, each in its category. conn, actor and rpc are the connection,
// actor and RPC in the record, which are formatted only if the record is written.

// Call describes a call that was sent or received.
type Call struct {
	Conn     any
	RPC      fmt.Stringer
	Bytes    int // encoded size
	Entries  int // entries of the reliable buffer, one for each bunch
	Reliable bool
}

// Sent logs a call that was queued for a packet. buffer returns the number of used entries of
// the channel's reliable buffer and the buffer's size in entries. UE: net.Reliable.Debug,
// LogNetPartialBunch.
func (s *Set) Sent(c Call, channel uint64, buffer func() (out, slots int)) {
	if log := s.debugWhen(c.Entries > 1, Partial); log != nil {
		log.Debug("sent in parts", "conn", c.Conn, "rpc", c.RPC.String(), "channel", channel,
			"bytes", c.Bytes, "entries", c.Entries)
	}
	if log := s.debugWhen(c.Reliable, Reliable); log != nil {
		out, slots := buffer()
		log.Debug("sent", "conn", c.Conn, "rpc", c.RPC.String(), "channel", channel,
			"bytes", c.Bytes, "entries", c.Entries, "out", out, "slots", slots)
	}
}

// Received logs a call from the peer that is about to run or to be refused.
func (s *Set) Received(c Call, actor any) {
	if log := s.debugWhen(c.Entries > 1, Partial); log != nil {
		log.Debug("reassembled", "conn", c.Conn, "rpc", c.RPC.String(), "actor", actor, "bytes", c.Bytes)
	}
	if log := s.debugWhen(c.Reliable, Reliable); log != nil {
		log.Debug("received", "conn", c.Conn, "rpc", c.RPC.String(), "actor", actor, "bytes", c.Bytes)
	}
}

// Opened logs that a channel of an actor was opened, by this end or by the server.
func (s *Set) Opened(conn, actor any, channel uint64) {
	if log := s.Debug(Channel); log != nil {
		log.Debug("opened", "conn", conn, "actor", actor, "channel", channel)
	}
}

// Closed logs that a channel of an actor was closed.
func (s *Set) Closed(conn, actor any, channel uint64, why fmt.Stringer) {
	if log := s.Debug(Channel); log != nil {
		log.Debug("closed", "conn", conn, "actor", actor, "channel", channel, "reason", why.String())
	}
}

// Actor logs an event of an actor on a connection.
func (s *Set) Actor(of Category, what string, conn, actor any) {
	if log := s.Debug(of); log != nil {
		log.Debug(what, "conn", conn, "actor", actor)
	}
}

// Updates logs the number of state bytes that a Flush sent, the number of actors that are still
// waiting, and whether their pace delayed some.
func (s *Set) Updates(conn any, bytes, waiting int, held bool) {
	if log := s.debugWhen(bytes > 0 || held, Rep); log != nil {
		log.Debug("states sent", "conn", conn, "bytes", bytes, "actors waiting", waiting, "held", held)
	}
}
