package stream

import (
	"fmt"

	"github.com/quivernet/quiver/rpc"
)

// Handlers of what peers send. All run on the world's goroutine.

// violate closes the connection of a peer that broke a rule.
func (p *Peer) violate(format string, args ...any) {
	p.conn.Close(rpc.PayloadFail, "stream: "+fmt.Sprintf(format, args...))
}

func (p *Peer) onLimits(m limits) {
	p.taken, p.early = m.transfers, int64(m.early)
	if len(m.hashes) > 0 {
		p.hashes.Store(uint32(m.hashes[0]))
	}
	if !p.streams.world.IsServer() {
		p.lanes.stay = m.lanes
	} else if m.lanes > p.lanes.asked {
		p.lanes.asked = m.lanes // for the next tick
	}
}

// outgoing finds the transfer that a message of its receiver is about; nil when it has ended.
func (p *Peer) outgoing(id uint64) *Transfer {
	for _, t := range p.sending {
		if t.header.id == id && !t.over {
			return t
		}
	}
	if id > p.lastID {
		p.violate("message about transfer %d, the last one is %d", id, p.lastID)
	}
	p.late++
	return nil
}

func (p *Peer) onAccept(m accept) {
	if t := p.outgoing(m.id); t != nil {
		if err := t.onAccept(m); err != nil {
			p.violate("%v", err)
		}
	}
}

func (p *Peer) onGrant(m grant) {
	if t := p.outgoing(m.id); t != nil {
		if err := t.onGrant(m); err != nil {
			p.violate("%v", err)
		}
	}
}

func (p *Peer) onDone(m done) {
	if t := p.outgoing(m.id); t != nil {
		if err := t.onDone(); err != nil {
			p.violate("%v", err)
		}
	}
}

func (p *Peer) onReject(m reject) {
	if t := p.outgoing(m.id); t != nil {
		t.onReject(m.stop)
	}
}

// incoming finds a transfer that the peer sends; nil when it has ended or does not exist.
func (p *Peer) incoming(id uint64) *incoming {
	for _, in := range p.receiving {
		if in.header.id == id {
			return in
		}
	}
	return nil
}

// onHeader begins an incoming transfer. Its first parts may have overtaken it.
func (p *Peer) onHeader(m header) {
	if m.id != p.lastHeader+1 {
		p.violate("header of transfer %d follows that of %d", m.id, p.lastHeader)
		return
	}
	p.lastHeader = m.id
	in := p.incoming(m.id)
	if in == nil {
		if in = p.expect(m.id); in == nil {
			return
		}
	}
	if err := in.begin(m); err != nil {
		p.violate("%v", err)
		return
	}
	if in.cause() == nil { // it was not refused before its header came
		p.streams.open(in)
	}
}

// expect makes room for a transfer whose header comes now or is on its way.
func (p *Peer) expect(id uint64) *incoming {
	if most := max(1, p.streams.config.maxTransfers()); len(p.receiving) >= 2*most {
		p.violate("transfer %d: %d go on already, the limit is %d", id, len(p.receiving), most)
		return nil
	}
	in := newIncoming(p, id)
	if !p.live.receive(in) {
		p.late++
		return nil
	}
	p.watch()
	p.account.MustBorrow(incomingBytes)
	p.receiving = append(p.receiving, in)
	return in
}

func (p *Peer) onPart(message []byte) {
	m, err := parsePart(message)
	if err != nil {
		p.violate("%v", err)
		return
	}
	in := p.incoming(m.id)
	if in == nil {
		if m.id <= p.lastHeader {
			p.late++
			return
		}
		if most := max(1, p.streams.config.maxTransfers()); m.id > p.lastHeader+uint64(most) {
			p.violate("part of transfer %d, the last header was %d and the limit is %d at once", m.id, p.lastHeader, most)
			return
		}
		if in = p.expect(m.id); in == nil {
			return
		}
	}
	if err := in.add(m); err != nil {
		p.violate("transfer %d: %v", m.id, err)
	}
}

func (p *Peer) onEnd(m end) {
	in := p.incoming(m.id)
	if in == nil || !in.known {
		p.unknown(m.id)
		return
	}
	if err := in.onEnd(m); err != nil {
		p.violate("%v", err)
	}
}

func (p *Peer) onCancel(m cancel) {
	in := p.incoming(m.id)
	if in == nil || !in.known {
		p.unknown(m.id)
		return
	}
	in.finish(m.stop.err(sender))
}

// unknown drops a message about a transfer that has ended, and refuses one about a transfer that never began.
func (p *Peer) unknown(id uint64) {
	if id > p.lastHeader {
		p.violate("message about transfer %d before its header", id)
		return
	}
	p.late++
}
