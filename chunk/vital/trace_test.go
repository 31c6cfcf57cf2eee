package vital

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// event is a line of a trace: what two ends of the game did, with a clock in its hands.
type event struct {
	T      float64
	At     string
	From   string
	Queue  string
	Size   int
	Data   string `json:"data_hex"` // its first 64 bytes
	Flush  *int
	Packet string `json:"packet_hex"`
	Lost   bool
	Fed    *int `json:"feed_result"`
	State  string
	Chunks []struct {
		Flags Flags
		Size  int
		Data  string `json:"data_hex"`
	} `json:"chunks_delivered"`
	AckNow int `json:"ack_now"`
}

// replay drives two Conns by a trace, and holds every packet and every delivery of
// theirs against the game's. made names the end whose packets the trace made by hand.
type replay struct {
	t     *testing.T
	v     Version
	made  string
	ends  map[string]*Conn
	wire  []byte // the last packet
	trace []event
	now   float64
}

func newReplay(t *testing.T, release, name, made string) *replay {
	var file struct {
		Vectors []struct {
			Name   string
			Events []event
		}
	}
	load(t, "tw_traces_"+release, &file)
	r := &replay{t: t, v: releases[release], made: made}
	for _, x := range file.Vectors {
		if x.Name == name {
			r.trace = x.Events
		}
	}
	require.NotEmpty(t, r.trace)
	a, b := Config{Version: r.v, AckAfter: -1}, Config{Version: r.v, AckAfter: -1}
	a.Token, b.Token = 0xa1b2c3d4, 0xa1b2c3d4
	if release == "0.6.4" {
		a.Token, b.Token = 0, 0
	}
	if r.v == V07 {
		a.Token, b.Token = 0x456723c6, 0x11223344
	}
	a.PeerToken, b.PeerToken = b.Token, a.Token
	r.ends = map[string]*Conn{"A": newConn(t, a), "B": newConn(t, b)}
	return r
}

// data returns all bytes of a queued chunk, of which the event has the first: a
// later packet carries it.
func (r *replay) data(e event) []byte {
	head := unhex(r.t, e.Data)
	if len(head) == e.Size {
		return head
	}
	for _, later := range r.trace {
		if later.Packet == "" {
			continue
		}
		_, all := chunks(r.t, r.v, unhex(r.t, later.Packet))
		for _, c := range all {
			if len(c.Data) == e.Size && bytes.HasPrefix(c.Data, head) {
				return c.Data
			}
		}
	}
	r.t.Fatalf("the trace never sends %s", e.Data)
	return nil
}

// advance runs A's timers every quarter of a second, as in the trace. Nothing
// may be sent before the event.
func (r *replay) advance(t float64) {
	for r.now+0.25 < t {
		r.now += 0.25
		require.Nil(r.t, packet(r.t, r.ends["A"], at(r.now)), "%v s", r.now)
	}
	r.now = t
	r.ends["A"].Advance(at(t))
}

func (r *replay) play() {
	for i, e := range r.trace {
		r.advance(e.T)
		switch {
		case e.Queue != "":
			flags := Flags(0)
			if e.Queue == "vital" {
				flags = Vital
			}
			require.NoError(r.t, r.ends[e.At].Send(flags, r.data(e)))
		case e.Flush != nil:
			r.ends[e.At].Flush()
		case e.From != "":
			r.sent(e)
		case e.Fed != nil:
			r.fed(i, e)
		case e.State == "ERROR":
			require.ErrorIs(r.t, r.ends[e.At].Err(), ErrNotAcked)
		}
	}
}

func (r *replay) sent(e event) {
	r.wire = unhex(r.t, e.Packet)
	if h, _, err := ParsePacketHeader(r.v, r.wire); e.From == r.made || err != nil || h.Control {
		return
	}
	require.Equal(r.t, e.Packet, hex.EncodeToString(packet(r.t, r.ends[e.From], at(e.T))), "%v s", e.T)
}

func (r *replay) fed(i int, e event) {
	if h, _, err := ParsePacketHeader(r.v, r.wire); err != nil || h.Control {
		return
	}
	c := r.ends[e.At]
	require.NoError(r.t, c.Receive(at(e.T), r.wire))
	got := drain(c)
	require.Equal(r.t, e.AckNow, int(c.received))
	if *e.Fed == 0 { // dropped by the game; TestTraceAckRange
		require.Equal(r.t, "B", r.made)
		return
	}
	require.Len(r.t, got, len(e.Chunks), "event %d", i)
	for i, want := range e.Chunks {
		require.Equal(r.t, want.Flags, got[i].Flags)
		require.Equal(r.t, want.Data, hex.EncodeToString(got[i].Data))
	}
}

// TestTraces does the same as the game, byte for byte.
func TestTraces(t *testing.T) {
	for release := range releases {
		for name, made := range map[string]string{
			"handshake": "", "gap_resend_request": "", "timeout": "", "duplicate_vital": "", "auto_flush_on_size": "", "ack_range": "B",
		} {
			t.Run(release+"/"+name, func(t *testing.T) { newReplay(t, release, name, made).play() })
		}
	}
}

// TestTraceAckRange: of six packets the game drops four for their acknowledgement.
// Those that were merely overtaken keep their chunks here; 3 and 1023 were never sent.
func TestTraceAckRange(t *testing.T) {
	for release := range releases {
		r := newReplay(t, release, "ack_range", "B")
		r.play()
		s := r.ends["A"].Stats()
		require.Equal(t, []uint64{5, 2, 2, 5}, []uint64{s.Taken, s.StaleAcks, s.BadAck, s.Delivered}, release)
	}
}

// TestTraceResendTwice: asked twice for all after 1, the game sends 1 and 2 and 2 again.
func TestTraceResendTwice(t *testing.T) {
	for release, v := range releases {
		r := newReplay(t, release, "resend_request_twice_ack1", "B")
		last := r.trace[len(r.trace)-1]
		r.trace = r.trace[:len(r.trace)-1]
		r.play()
		_, theirs := chunks(t, v, unhex(t, last.Packet))
		require.Len(t, theirs, 3)
		_, ours := chunks(t, v, packet(t, r.ends["A"], at(last.T)))
		require.Equal(t, theirs[2:], ours)
		require.Nil(t, packet(t, r.ends["A"], at(last.T).Add(50*time.Millisecond)), "nor later")
	}
}
