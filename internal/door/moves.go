package door

import (
	"iter"
	"net/netip"
)

// ConnID is a connection id that a server has given out, of quicconn.ConnectionIDBytes.
type ConnID [17]byte

// moves knows where clients have perhaps moved to: whose packets have the connection id that came from another address before. A NAT that
// gives a client another port does not tell it, so the id stays (RFC 9000, section 9.5).
type moves struct {
	at     map[uint64]netip.AddrPort         // where each connection is, by its number
	before map[uint64]netip.AddrPort         // empty between two renewals; then the last at
	ids    map[netip.AddrPort]ConnID         // the newest that came from a proven address
	homes  map[ConnID]netip.AddrPort         // the proven address that an id of ids came from
	away   map[netip.AddrPort]netip.AddrPort // from where the packets come of a client, by its proven address
	copied map[netip.AddrPort]int            // bytes of copies for it beyond three times what came from there, by its proven address
}

// move is where a client has moved to, and the newest id of its packets.
type move struct {
	at netip.AddrPort
	id ConnID
}

func newMoves() moves {
	return moves{
		at: make(map[uint64]netip.AddrPort), before: make(map[uint64]netip.AddrPort),
		ids: make(map[netip.AddrPort]ConnID), homes: make(map[ConnID]netip.AddrPort), away: make(map[netip.AddrPort]netip.AddrPort),
		copied: make(map[netip.AddrPort]int),
	}
}

// stays notes a packet, and reports whether it came from the proven address from which others with its id have come.
func (m *moves) stays(from netip.AddrPort, id ConnID) bool {
	old, ok := m.ids[from]
	if !ok || old != id {
		return false
	}
	delete(m.away, from)
	return true
}

// home notes a packet from a proven address with another id than before.
func (m *moves) home(from netip.AddrPort, id ConnID) {
	m.forget(from)
	m.ids[from], m.homes[id] = id, from
}

// abroad notes a packet from an address that is not proven.
func (m *moves) abroad(from netip.AddrPort, id ConnID, size int) {
	home, ok := m.homes[id]
	if !ok {
		return
	}
	m.away[home] = from
	if copied := m.copied[home] - amplification*size; copied > 0 {
		m.copied[home] = copied
	} else {
		delete(m.copied, home)
	}
}

// gone forgets an address that no connection has proven any more. Until then it is remembered what was copied, whatever comes from there.
func (m *moves) gone(home netip.AddrPort) {
	m.forget(home)
	delete(m.copied, home)
}

// renew notes where all connections are. What is known of an address goes with the connection that has left it: its packets may come from
// elsewhere already when it is proven.
func (m *moves) renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	m.at, m.before = m.before, m.at
	var moved []move // noted when all have left, for one may be where another was
	for conn, at := range remotes {
		m.at[conn] = at
		left := m.before[conn]
		if id, ok := m.ids[left]; ok && left != at {
			m.forget(left)
			moved = append(moved, move{at, id})
		}
	}
	for _, to := range moved {
		m.home(to.at, to.id)
	}
	clear(m.before)
}

// forget forgets an address that is no longer proven.
func (m *moves) forget(home netip.AddrPort) {
	if id, ok := m.ids[home]; ok && m.homes[id] == home {
		delete(m.homes, id)
	}
	delete(m.ids, home)
	delete(m.away, home)
}
