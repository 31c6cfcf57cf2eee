package bunch

import (
	"slices"
	"testing"
)

// same and atMost are cheap enough to be called millions of times, unlike their counterparts in
// require.
func same(t testing.TB, want, got int64, what string) {
	if want != got {
		t.Fatalf("%s: %d, counted are %d", what, want, got)
	}
}

func atMost(t testing.TB, is, limit int64, what string) {
	if is > limit {
		t.Fatalf("%s: %d is over %d", what, is, limit)
	}
}

// checkConn asserts the invariants that hold between any two calls.
func checkConn(t testing.TB, c *Conn) {
	if c.err != nil {
		return
	}
	copies := checkFlights(t, c)
	entries, memory, owed, behind, unreliables := 0, 0, 0, 0, backlog{}
	var queued, behindBytes [levels]int
	for number, ch := range c.channels.open {
		if number != ch.number {
			t.Fatalf("channel %d is filed under %d", ch.number, number)
		}
		if ch.firstUnsent < ch.first || ch.firstUnsent > ch.next {
			t.Fatalf("channel %d: entry %d is the next new one, of %d to %d", number, ch.firstUnsent, ch.first, ch.next)
		}
		waiting := checkEntries(t, c, ch, copies)
		entries += ch.outstanding()
		if ch.isPlay() {
			memory += ch.memory()
		}
		if ch.awaitsAnswer() {
			owed++
		}
		for i := int(ch.unreliable.head); i < len(ch.unreliable.items); i++ {
			u := ch.unreliable.items[i]
			unreliables.add(1, len(u.payload)-int(u.part)*EntryBytes)
			waiting += len(u.payload) - int(u.part)*EntryBytes
		}
		if waiting != ch.queuedBytes {
			t.Fatalf("channel %d: %d bytes wait, %d are counted", number, waiting, ch.queuedBytes)
		}
		level := 0
		if number != 0 {
			level = 1 + int(ch.priority)
		}
		queued[level] += waiting
		held := ch.predecessor != nil
		if held {
			behind += ch.unreliable.len()
			behindBytes[level] += waiting
		}
		if held && (ch.inUnsentQueue || ch.firstUnsent > 0 || ch.predecessor.outstanding() == 0 || ch.predecessor.successor != ch) {
			t.Fatalf("channel %d comes after channel %d, and is not held", number, ch.predecessor.number)
		}
		if ch.hasUnsent() && !ch.inUnsentQueue && !held || ch.resend.len() > 0 && !ch.inResendQueue {
			t.Fatalf("channel %d is not scheduled", number)
		}
	}
	checkQueues(t, c)
	for i := range queued {
		if lv := &c.levels[i]; queued[i] != lv.queued || behindBytes[i] != lv.deferred {
			t.Fatalf("level %d: %d bytes wait, %d are counted; %d of them behind other channels, %d are counted", i, queued[i], lv.queued, behindBytes[i], lv.deferred)
		}
	}
	same(t, int64(entries), int64(c.flow.entries), "entries in reliable buffers")
	same(t, int64(memory), int64(c.flow.held), "bytes of entries of play")
	same(t, int64(owed), int64(c.unanswered.count), "answers that the peer owes")
	same(t, int64(unreliables.messages), int64(c.unreliables.messages), "unreliable messages that wait")
	same(t, int64(unreliables.bytes), int64(c.unreliables.bytes), "unreliable bytes that wait")
	same(t, int64(behind), int64(c.saturation.deferred), "unreliable messages behind other channels")
	checkTracked(t, c)
	checkReceiver(t, c)
}

// checkTracked asserts that queued tracked messages may be sent and are counted correctly.
func checkTracked(t testing.TB, c *Conn) {
	q, bytes := &c.tracked.waiting, 0
	for _, m := range q.items[q.head:] {
		bytes += m.size()
		if c.channels.open[m.channel.number] != m.channel || !m.channel.ours || m.channel.outClosed {
			t.Fatalf("a tracked message waits on channel %d, which takes none", m.channel.number)
		}
	}
	same(t, int64(bytes), int64(c.tracked.bytes), "tracked bytes that wait")
}

// checkQueues asserts that each channel is queued at most once, and in its own level.
func checkQueues(t testing.TB, c *Conn) {
	for i := range c.levels {
		lv := &c.levels[i]
		for _, q := range []*queue[*channel]{&lv.unsent, &lv.resend} {
			for j, ch := range q.items[q.head:] {
				if c.level(ch) != lv {
					t.Fatalf("channel %d waits in level %d", ch.number, i)
				}
				for _, other := range q.items[q.head:][:j] {
					if other == ch {
						t.Fatalf("channel %d waits twice in level %d", ch.number, i)
					}
				}
			}
		}
	}
}

type pieceKey struct {
	channel  *channel
	sequence uint64
	off      uint16
}

// checkFlights counts the pieces in flight.
func checkFlights(t testing.TB, c *Conn) map[pieceKey]uint16 {
	copies := make(map[pieceKey]uint16)
	bytes, packets, loaded := 0, 0, 0
	for n := c.sent.Oldest; n < c.sent.Next; n++ {
		p := c.sent.At(n)
		if p.hasBunches {
			loaded++
		}
		if p.fate != inFlight {
			continue
		}
		bytes += p.size
		packets++
		for _, it := range p.items {
			copies[pieceKey{it.channel, it.sequence, it.off}]++
		}
	}
	if bytes != c.sent.bytesInFlight || packets != c.sent.packetsInFlight {
		t.Fatalf("%d packets with %d bytes fly, %d with %d are counted", packets, bytes, c.sent.packetsInFlight, c.sent.bytesInFlight)
	}
	same(t, int64(loaded), int64(c.sent.withBunches), "packets remembered that carried bunches")
	return copies
}

// checkEntries asserts that each byte of the reliable buffer is acknowledged, in flight or
// queued, and returns the number of bytes that were never sent.
func checkEntries(t testing.TB, c *Conn, ch *channel, copies map[pieceKey]uint16) (waiting int) {
	resends := make(map[uint64]bool)
	for i := int(ch.resend.head); i < len(ch.resend.items); i++ {
		resends[ch.resend.items[i]] = true
	}
	for n := ch.first; n < ch.next; n++ {
		e := ch.out.at(n)
		end := uint16(0)
		for i := range e.all() {
			p := &e.pieces[i]
			switch {
			case p.off != end:
				t.Fatalf("channel %d entry %d: piece %d begins at %d, not %d", ch.number, n, i, p.off, end)
			case !p.acked && p.copies != copies[pieceKey{ch, n, p.off}]:
				t.Fatalf("channel %d entry %d piece %d: %d copies fly, %d are counted", ch.number, n, i, copies[pieceKey{ch, n, p.off}], p.copies)
			case p.acked && p.queued:
				t.Fatalf("channel %d entry %d piece %d is acked and queued", ch.number, n, i)
			case !p.acked && p.copies == 0 && !p.queued:
				t.Fatalf("channel %d entry %d piece %d is nowhere", ch.number, n, i)
			case p.queued && !resends[n] && n < ch.firstUnsent:
				t.Fatalf("channel %d entry %d piece %d will never be sent", ch.number, n, i)
			case p.sent && !e.started:
				t.Fatalf("channel %d entry %d piece %d left before its entry", ch.number, n, i)
			}
			end = p.end
			if !p.sent {
				waiting += int(p.end - p.off)
			}
		}
		if int(end) != len(e.payload) {
			t.Fatalf("channel %d entry %d: its pieces end at %d of %d", ch.number, n, end, len(e.payload))
		}
	}
	return waiting
}

// charged returns the costs of what c holds that must be charged to the peer's limit and to
// that of channel 0.
func charged(c *Conn) (reliable, control int) {
	for _, m := range slices.Collect(c.AllReady) {
		switch {
		case m.Delivery >= Unreliable:
		case m.Channel == 0:
			control += int(m.receipt.cost)
		default:
			reliable += int(m.receipt.cost)
		}
	}
	for number, ch := range c.channels.open {
		cost := ch.run.cost
		for i := range ch.in.len() {
			cost += slotCharge(ch.in.at(i))
		}
		if ch.lingers || !ch.ours && number != 0 && ch.expected == 0 {
			cost += channelCost
		}
		if number == 0 {
			control += cost
		} else {
			reliable += cost
		}
	}
	return reliable, control
}

func slotCharge(s *slot) int {
	if s.state == delivered {
		return entryCost
	}
	messages := 1
	if s.state == full && s.flags&flagWhole == flagWhole {
		messages = messagesIn(s.payload)
	}
	return costOf(s.flags&^flagOpen, len(s.payload), messages)
}

func checkReceiver(t testing.TB, c *Conn) {
	unreliable, pinned := 0, 0
	ready := slices.Collect(c.AllReady)
	same(t, int64(len(ready)), int64(c.ready.len()), "messages that wait")
	for i := range ready {
		pinned += int(ready[i].receipt.pinned)
		if ready[i].Delivery >= Unreliable {
			unreliable += unreliableCost(1, len(ready[i].Payload))
		}
	}
	for _, ch := range c.channels.open {
		pinned += ch.run.pinned
		for i := range ch.in.len() {
			s := ch.in.at(i)
			if s.state != delivered {
				pinned += int(s.pinned)
			}
			if s.number < ch.expected || i > 0 && s.number <= ch.in.at(i-1).number {
				t.Fatalf("channel %d: entry %d is parked out of order", ch.number, s.number)
			}
		}
	}
	reliable, control := charged(c)
	same(t, int64(reliable), int64(c.flow.received-c.flow.consumed), "cost of what is held")
	same(t, int64(control), int64(c.flow.control), "cost of what channel 0 holds")
	same(t, int64(unreliable), int64(c.assemblies.waiting), "cost of the unreliable messages that wait")
	same(t, int64(pinned), int64(c.payloads.pinned), "pinned bytes")
	atMost(t, int64(c.payloads.pinned), maxPinned, "pinned bytes")
	parked := 0
	perChannel := make(map[*channel]int)
	for _, a := range c.assemblies.all {
		parked += assemblyCost + a.size
		perChannel[a.channel]++
		atMost(t, int64(a.newest)+1, int64(c.received.Next), "packet of an assembly")
	}
	same(t, int64(parked), int64(c.assemblies.cost), "cost of the assemblies")
	for ch, n := range perChannel {
		same(t, int64(n), int64(len(ch.assemblies)), "assemblies of a channel")
		atMost(t, int64(n), maxAssemblies, "assemblies of a channel")
	}
	atMost(t, int64(c.flow.received), int64(c.flow.advertised), "the limit")
}
