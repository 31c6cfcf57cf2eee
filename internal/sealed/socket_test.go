package sealed

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/ipv4"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/timers"
	"github.com/quivernet/quiver/internal/udp"
)

var here = &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5}

// script is a packetReader that hands out what a test wrote down.
type script struct {
	batches [][]string // of packets; "gro:3:abcdef" is joined from packets of 3 bytes
	joined  func(size int) (oob []byte)
	end     error
}

func (s *script) Read() (ms []udp.Message, waited bool, err error) {
	if len(s.batches) == 0 {
		return nil, false, s.end
	}
	for _, p := range s.batches[0] {
		m := udp.Message{From: udp.AddrPort(here), Data: []byte(p)}
		if rest, ok := strings.CutPrefix(p, "gro:"); ok {
			size, body, _ := strings.Cut(rest, ":")
			m.Data, m.OOB = []byte(body), s.joined(int(size[0]-'0'))
		}
		ms = append(ms, m)
	}
	s.batches = s.batches[1:]
	return ms, false, nil
}

// oobBytes is the size of the out-of-band bytes that quic-go asks for.
const oobBytes = 128

// messages are what quic-go reads into.
func messages(n int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i] = ipv4.Message{Buffers: [][]byte{make([]byte, FullPacket)}, OOB: make([]byte, oobBytes)}
	}
	return ms
}

func text(ms []ipv4.Message) (s []string) {
	for _, m := range ms {
		s = append(s, string(m.Buffers[0][:m.N]))
	}
	return s
}

// sealedFor is something that looks like a sealed packet.
func sealedFor(id ID, fill string) string {
	return string(appendHeader(nil, id, 1)) + strings.Repeat(fill, tagBytes)
}

// TestPacketsThatCameEarly: the first packets of a peer may arrive before their carrier is made.
func TestPacketsThatCameEarly(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	at := time.Now()
	late, early, others := sealedFor(ID{1}, "a"), sealedFor(ID{1}, "b"), sealedFor(ID{2}, "c")
	s.route(at.Add(-2*earlyTime), udp.AddrPort(here), []byte(late))
	for range earlyPackets - 2 {
		s.route(at, udp.AddrPort(here), []byte(others))
	}
	for range 3 {
		s.route(at, udp.AddrPort(here), []byte(early)) // the last two take the places of the oldest two
	}
	box := newInbox(func(bool) {})
	box.setRemote(udp.AddrPort(here))
	require.NoError(t, s.register(box, ID{1}))
	require.ErrorContains(t, s.register(box, ID{3}, ID{1}), "in use")
	var got []string
	for waits := box.take(); waits.more(); {
		_, p := box.next(&waits)
		got = append(got, string(p))
	}
	require.Equal(t, []string{early, early, early}, got)
	require.Equal(t, earlyPackets-3, s.early.packets.Len(), "for others, but the oldest of them")
}

func TestReadBatchKeepsOurs(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	box := newInbox(func(bool) {})
	box.setRemote(udp.AddrPort(here))
	id := s.issue(box)
	ours, unknown := sealedFor(id, "x"), sealedFor(ID{}, "y")
	end := errors.New("closed")
	c := &udpConn{systemConn: systemConn{plainConn: &plainConn{socket: s}}, reader: &script{end: end, batches: [][]string{
		{ours, "@quic1", ours, unknown, "@quic2", "\x0f"},
		{ours, ours},
		{},
		{"", "\x03stun", "\x10zrtp"},
	}}}
	ms := messages(8)
	var buffers []*byte
	for _, m := range ms {
		buffers = append(buffers, &m.Buffers[0][0])
	}
	n, err := c.ReadBatch(ms, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"@quic1", "@quic2"}, text(ms[:n]))
	require.Equal(t, here.String(), ms[1].Addr.String())

	n, err = c.ReadBatch(ms, 0)
	require.NoError(t, err, "batches without a packet for QUIC are not told of")
	require.Equal(t, []string{"\x03stun", "\x10zrtp"}, text(ms[:n]))
	n, err = c.ReadBatch(ms, 0)
	require.Zero(t, n)
	require.ErrorIs(t, err, end)
	require.Equal(t, make([]string, 8), text(ms), "quic-go reads slots after some errors")
	for i, m := range ms {
		require.Same(t, buffers[i], &m.Buffers[0][0], "buffers stay where quic-go put them")
	}
	require.Equal(t, []uint64{4, 1, 1}, []uint64{s.routed.Load(), s.unknown.Load(), s.badSize.Load()})
	waits := box.take()
	at, packet := box.next(&waits)
	require.Equal(t, ours, string(packet))
	require.Less(t, time.Since(at), time.Minute)
}

// Each kind of socket keeps the abilities that quic-go looks for, and gets no other.
func TestAbilities(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer func() { _ = udp.Close() }()
	type batcher interface {
		ReadBatch(ms []ipv4.Message, flags int) (int, error)
	}
	for name, conn := range map[string]net.PacketConn{"udp": udp, "simulated": netsim.NewPacketConn(), "bare": struct{ net.PacketConn }{udp}} {
		q := NewSocket(conn, SocketConfig{}).QUIC()
		_, oob := q.(quic.OOBCapablePacketConn)
		_, batch := q.(batcher)
		_, system := q.(interface {
			SyscallConn() (syscall.RawConn, error)
		})
		require.Equal(t, name == "udp", oob, name)
		require.Equal(t, name == "udp", batch, name)
		require.Equal(t, name != "bare", system, name)
	}
}

func TestReadFromKeepsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netsim.Pipe(netsim.Config{}, netsim.Config{})
		s := NewSocket(b, SocketConfig{})
		for _, p := range []string{"\x04", sealedFor(ID{}, "x"), "@quic"} {
			_, err := a.WriteTo([]byte(p), b.LocalAddr())
			require.NoError(t, err)
		}
		p := make([]byte, 100)
		n, from, err := s.QUIC().ReadFrom(p)
		require.NoError(t, err)
		require.Equal(t, "@quic", string(p[:n]))
		require.Equal(t, a.LocalAddr(), from)
		require.Equal(t, []uint64{0, 1, 1}, []uint64{s.routed.Load(), s.unknown.Load(), s.badSize.Load()})
	})
}

// TestLinkLocalAddressWithoutAZone: a client that dials such an address, and has one
// network, reaches the server. Packets from there have the zone of the interface, and do not
// count as from another address; packets from another zone than the one that was dialed do.
func TestLinkLocalAddressWithoutAZone(t *testing.T) {
	b := newInbox(func(bool) {})
	for _, row := range []struct {
		remote, from string
		same         bool
	}{
		{"[fe80::1]:7777", "[fe80::1%eth0]:7777", true},
		{"[fe80::1%eth0]:7777", "[fe80::1%eth0]:7777", true},
		{"[fe80::1%eth0]:7777", "[fe80::1%eth1]:7777", false},
		{"[fe80::1]:7777", "[fe80::1%eth0]:7778", false},
		{"[fe80::1]:7777", "[fe80::2%eth0]:7777", false},
		{"192.0.2.1:7777", "192.0.2.1:7777", true},
		{"192.0.2.1:7777", "192.0.2.2:7777", false},
	} {
		b.setRemote(netip.MustParseAddrPort(row.remote))
		b.sawOther.Store(false)
		b.put(time.Now(), netip.MustParseAddrPort(row.from), make([]byte, 100))
		require.Equal(t, !row.same, b.sawOther.Load(), "%s from %s", row.remote, row.from)
	}
}

func TestInboxIsBounded(t *testing.T) {
	firsts := 0
	b := newInbox(func(bool) {})
	b.setRemote(udp.AddrPort(here))
	p := bytes.Repeat([]byte{7}, 1000)
	put := func() {
		if b.put(time.Now(), udp.AddrPort(here), p) {
			firsts++
		}
	}
	for range 2 * inboxBytes / 1000 {
		put()
	}
	fit := inboxBytes / blockBytes * (len(block{}.records) / (1000 + inboxHeader))
	require.Equal(t, 1, firsts)
	require.EqualValues(t, 2*inboxBytes/1000-fit, b.droppedFull.Load())
	waits := b.take()
	n := 0
	for rest := waits; rest.more(); n++ {
		_, packet := b.next(&rest)
		require.Equal(t, p, packet)
	}
	require.Equal(t, fit, n)
	put()
	require.True(t, b.empty(), "what is being opened counts")
	b.release(waits)
	require.Zero(t, b.heldBytes)
	put()
	require.Equal(t, 2, firsts)
	require.False(t, b.empty())
	b.close()
	put()
	require.True(t, b.empty())
}

// TestBusyReader: a reader that has not waited for packets for a while leaves the turns to others.
func TestBusyReader(t *testing.T) {
	var looks []bool
	var r reader
	now := time.Now()
	serve := func() bool {
		looks = nil
		r.inboxes = append(r.inboxes, newInbox(func(atOnce bool) { looks = append(looks, atOnce) }))
		r.notifyInboxes(now)
		require.Empty(t, r.inboxes)
		require.Len(t, looks, 1)
		return looks[0]
	}
	require.False(t, serve())
	r.noteRead(now, now.Add(udp.LongRead))
	now = now.Add(udp.LongRead)
	require.True(t, serve())
	now = now.Add(promptTime - 1)
	r.noteRead(now, now.Add(1))
	require.True(t, serve())
	now = now.Add(1)
	require.False(t, serve())
}

func TestElsewhereIsLimited(t *testing.T) {
	b := newInbox(func(bool) {})
	b.setRemote(udp.AddrPort(here))
	other := netip.MustParseAddrPort("10.0.0.2:5")
	now := time.Now()
	for i := range 500 {
		b.put(now.Add(time.Duration(i)*ms), other, []byte("x"))
	}
	require.EqualValues(t, 400, b.droppedFromOthers.Load())
	b.put(now.Add(time.Second), other, []byte("x"))
	b.put(now, udp.AddrPort(here), []byte("x"))
	require.EqualValues(t, 400, b.droppedFromOthers.Load())
}

func TestGroups(t *testing.T) {
	var b burst
	at := 0
	for _, size := range []int{100, 100, 60, 100, 120, 120, 50} {
		b.add(at, at+size)
		at += size
	}
	require.Equal(t, []group{{0, 260, 100}, {260, 360, 100}, {360, 650, 120}}, b.groups[:b.n])
	b.reset()
	for i := range udp.MaxSegments + 1 {
		b.add(i*10, i*10+10)
	}
	require.Equal(t, 2, b.n, "a call takes no more")
}

// The other ways to read a socket keep ours from QUIC too.
func TestOtherReads(t *testing.T) {
	for _, c := range []SocketConfig{{}, {NoOffload: true}} {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		s := NewSocket(udp, c)
		q := s.QUIC().(quic.OOBCapablePacketConn)
		for range 2 {
			for _, p := range []string{"\x04short", "@quic"} {
				_, _, err := q.WriteMsgUDP([]byte(p), nil, udp.LocalAddr().(*net.UDPAddr))
				require.NoError(t, err)
			}
		}
		b := make([]byte, 100)
		n, from, err := q.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, "@quic", string(b[:n]))
		require.Equal(t, udp.LocalAddr().String(), from.String())
		n, _, _, addr, err := q.ReadMsgUDP(b, make([]byte, oobBytes))
		require.NoError(t, err)
		require.Equal(t, "@quic", string(b[:n]))
		require.Equal(t, udp.LocalAddr().String(), addr.String())
		require.EqualValues(t, 2, s.badSize.Load())
		require.NoError(t, udp.Close())
		_, _, err = q.ReadFrom(b)
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

// unreadable is a socket of which each read fails at once.
type unreadable struct {
	net.PacketConn
	err   error
	tries int
}

func (u *unreadable) ReadFrom([]byte) (int, net.Addr, error) {
	u.tries++
	return 0, nil, u.err
}

// TestFailedReadsDoNotSpin: quic-go reads again at once after some errors, as
// that of a deadline which the socket's owner has set.
func TestFailedReadsDoNotSpin(t *testing.T) {
	for err, ends := range map[error]bool{os.ErrDeadlineExceeded: false, syscall.ENETDOWN: true, net.ErrClosed: true} {
		synctest.Test(t, func(t *testing.T) {
			u := &unreadable{PacketConn: netsim.NewPacketConn(), err: err}
			q, begin, reads := NewSocket(u, SocketConfig{}).QUIC(), time.Now(), 0
			for temporary := true; temporary && time.Since(begin) < time.Minute; reads++ {
				_, _, failed := q.ReadFrom(nil)
				require.ErrorIs(t, failed, err)
				late, ok := failed.(net.Error)
				temporary = ok && late.Timeout()
			}
			require.Less(t, u.tries, 1000)
			require.Equal(t, ends, reads == 1)
			require.Less(t, time.Since(begin), 2*time.Minute)
			if err == net.ErrClosed {
				require.Zero(t, time.Since(begin))
			}
		})
	}
}

// rough is a socket of which some reads fail: script says how many do before each that does not.
type rough struct {
	net.PacketConn
	err    error
	script func(read int) (fails int)
	reads  int
	fails  int
}

func (r *rough) ReadFrom(p []byte) (int, net.Addr, error) {
	if r.fails < r.script(r.reads) {
		r.fails++
		return 0, nil, r.err
	}
	r.fails = 0
	r.reads++
	time.Sleep(50 * time.Millisecond)
	return copy(p, "@quic"), &net.UDPAddr{}, nil
}

// TestReadsThatFailNowAndThen: a socket of which others succeed is not given
// up, however long that lasts.
func TestReadsThatFailNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rough{PacketConn: netsim.NewPacketConn(), err: syscall.ENOBUFS, script: func(int) int { return 2 }}
		q, begin, p := NewSocket(r, SocketConfig{}).QUIC(), time.Now(), make([]byte, 100)
		for time.Since(begin) < time.Minute {
			_, _, err := q.ReadFrom(p)
			require.NoError(t, err, "after %v", time.Since(begin))
		}
		require.Greater(t, r.reads, 1000, "and it waits for few of them")
	})
}

// TestDatagramsThatDoNotFit: Windows says so of each that is longer than the
// buffer, and anybody can send some. They hold up no other.
func TestDatagramsThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rough{PacketConn: netsim.NewPacketConn(), err: &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("wsarecvfrom", udp.TooLong)}, script: func(int) int { return 20 }}
		q, begin, p := NewSocket(r, SocketConfig{}).QUIC(), time.Now(), make([]byte, 100)
		for r.reads < 100 {
			if _, _, err := q.ReadFrom(p); err != nil {
				require.ErrorIs(t, err, udp.TooLong)
			}
		}
		require.Equal(t, 100*50*time.Millisecond, time.Since(begin))
	})
}

// TestInboxBorrows what a socket lends all its inboxes together, and gives it
// back when the packets are opened.
func TestInboxBorrows(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	boxes := make([]*inbox, 40)
	p := bytes.Repeat([]byte{7}, 1000)
	held := 0
	for i := range boxes {
		b := newInbox(func(bool) {})
		b.allBorrowed = &s.borrowed
		b.setRemote(udp.AddrPort(here))
		boxes[i] = b
		for range 5000 {
			b.put(time.Now(), udp.AddrPort(here), p)
		}
		held += b.heldBytes
		require.GreaterOrEqual(t, b.heldBytes, inboxBytes, "everybody has his own")
	}
	require.InDelta(t, maxBorrowed, s.borrowed.Load(), 2*borrowStep)
	require.LessOrEqual(t, held, len(boxes)*inboxBytes+maxBorrowed)
	require.Greater(t, held, len(boxes)*inboxBytes+maxBorrowed-(len(boxes)+2)*borrowStep)

	boxes[0].release(boxes[0].take())
	require.Less(t, s.borrowed.Load(), int64(maxBorrowed))
	for _, b := range boxes {
		b.close()
	}
	require.Zero(t, s.borrowed.Load())
}

// guards holds back what goes to one address, and copies what goes to another to a third.
type guards struct {
	refused, copied, also net.Addr
	came                  []byte
}

func (g *guards) Received(_ netip.AddrPort, packet []byte) {
	if len(packet) == 0 {
		panic("an empty packet")
	}
	g.came = append(g.came, packet...)
}

func (g *guards) Route(to net.Addr, _ []byte) (also net.Addr, ok bool) {
	if to == g.copied {
		also = g.also
	}
	return also, to != g.refused
}

// TestGuard sees what QUIC gets, but no sealed packet, and decides what it sends.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := netsim.NewPacketConn()
		var peers [3]*netsim.PacketConn
		for i := range peers {
			peers[i] = netsim.NewPacketConn()
			netsim.Connect(server, peers[i], netsim.Config{}, netsim.Config{})
			defer peers[i].Close()
		}
		defer server.Close()
		g := &guards{refused: peers[0].LocalAddr(), copied: peers[1].LocalAddr(), also: peers[2].LocalAddr()}
		q := NewSocket(server, SocketConfig{Guard: g}).QUIC()
		for _, p := range peers {
			n, err := q.WriteTo([]byte{0x40, 1, 2}, p.LocalAddr())
			require.NoError(t, err)
			require.Equal(t, 3, n, "QUIC takes it for sent")
		}
		for i, want := range []uint64{0, 1, 2} {
			require.Equal(t, want, server.To(peers[i]).Stats().Packets, "peer %d", i)
		}
		for _, packet := range []string{sealedFor(ID{1}, "x"), "", "@for QUIC"} {
			_, err := peers[0].WriteTo([]byte(packet), server.LocalAddr())
			require.NoError(t, err)
		}
		for range 2 {
			_, _, err := q.ReadFrom(make([]byte, FullPacket))
			require.NoError(t, err)
		}
		require.Equal(t, "@for QUIC", string(g.came))
	})
}

// TestNoJumboPacketWaitsForItsCarrier: a carrier begins with smaller packets,
// and the room for early ones is theirs.
func TestNoJumboPacketWaitsForItsCarrier(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	b, id := newInbox(func(bool) {}), NewID()
	b.allBorrowed = &s.borrowed
	b.setRemote(udp.AddrPort(here))
	packet := []byte(sealedFor(id, "x"))
	s.route(time.Now(), udp.AddrPort(here), append(packet[:len(packet):len(packet)], make([]byte, FullPacket)...))
	s.route(time.Now(), udp.AddrPort(here), packet)
	require.NoError(t, s.register(b, id))
	waiting := b.take()
	require.True(t, waiting.more())
	_, p := b.next(&waiting)
	require.Len(t, p, len(packet))
	require.False(t, waiting.more())
}

// TestTimersOfABubble: a test in a bubble that opens the kernel's sockets has timers
// of its own. The runtime ended the whole process when another one used the same.
func TestTimersOfABubble(t *testing.T) {
	open := func() *Socket {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer conn.Close()
		return NewSocket(conn, SocketConfig{})
	}
	for range 2 {
		synctest.Test(t, func(*testing.T) {
			s, fired := open(), 0
			s.timers.Set(&timers.Timer{Fire: func() { fired++ }}, time.Now().Add(time.Second))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, 1, fired)
			require.False(t, s.realTime, "nor may who works wait for real time to pass")
		})
	}
	s := open()
	require.True(t, s.realTime)
	require.Same(t, kernelTimers, s.timers)
}
