package trace

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/internal/trace/tracetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func server() string { return "server" }

// play encodes events, and reads them back.
func play(t *testing.T, events ...Event) *tracetest.Trace {
	t.Helper()
	e := newEncoder("server")
	file := bytes.Clone(e.header())
	for i := range events {
		events[i].At = max(events[i].At, 1000+int64(i))
		e.take(&events[i])
		file = append(file, e.flush()...)
	}
	trace, err := tracetest.Parse(append(file, e.finish()...))
	require.NoError(t, err)
	return trace
}

// fates lists what became of the calls of a name.
func fates(trace *tracetest.Trace, call string) (list []string) {
	for _, e := range trace.Named(tracetest.Instant, call) {
		if len(e.Ends) > 0 {
			list = append(list, e.Texts["fate"])
		}
	}
	return list
}

func queued(name string, sequence uint64, reliable bool) Event {
	return Event{Kind: Queued, Channel: 2, Name: name, Class: "Fighter", Actor: 7, Sequence: sequence, Entries: 1, Bytes: 10, Reliable: reliable}
}

func inPacket(number uint64, bunches ...Event) []Event {
	return append(bunches, Event{Kind: Sent, Number: number, Bytes: 100, Asks: true})
}

// TestFates of calls, by what becomes of their packets.
func TestFates(t *testing.T) {
	loose, strict := Event{Kind: Bunch, Channel: 2}, Event{Kind: Bunch, Channel: 2, Sequence: 4, Reliable: true}
	again := strict
	again.Again = true
	script := func(rest ...Event) []Event {
		events := append([]Event{{Kind: Begun, Name: "conn"}, queued("A", 4, true), queued("B", 0, false)}, inPacket(1, strict, loose)...)
		return append(events, rest...)
	}
	rows := map[string]struct {
		events []Event
		a, b   []string
	}{
		"both arrive":       {script(Event{Kind: Freed, Channel: 2, Sequence: 5}, Event{Kind: Acked, Number: 1}), []string{"acked"}, []string{"acked"}},
		"lost, and resent":  {script(append(append([]Event{{Kind: Lost, Number: 1}}, inPacket(2, again)...), Event{Kind: Freed, Channel: 2, Sequence: 5})...), []string{"acked"}, []string{"lost"}},
		"nobody knows":      {script(), []string{"unfinished"}, []string{"unfinished"}},
		"the end":           {script(Event{Kind: Ended, Name: "why"}), []string{"unfinished"}, []string{"unfinished"}},
		"it did not leave":  {script(append([]Event{{Kind: Unsent, Number: 1}}, append(inPacket(1, strict, loose), Event{Kind: Acked, Number: 1}, Event{Kind: Freed, Channel: 2, Sequence: 5})...)...), []string{"acked"}, []string{"acked"}},
		"nor will it":       {script(Event{Kind: Unsent, Number: 1}, Event{Kind: Dropped, Channel: 2}), []string{"unfinished"}, []string{"dropped"}},
		"of another":        {script(Event{Kind: Freed, Channel: 2, Sequence: 4}, Event{Kind: Acked, Number: 0, Again: true}), []string{"unfinished"}, []string{"unfinished"}},
		"a channel unknown": {script(Event{Kind: Freed, Channel: 3, Sequence: 9}, Event{Kind: Dropped, Channel: 3}, Event{Kind: Bunch, Channel: 3}), []string{"unfinished"}, []string{"unfinished"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			trace := play(t, row.events...)
			require.Equal(t, row.a, fates(trace, "A"))
			require.Equal(t, row.b, fates(trace, "B"))
		})
	}
}

// TestSlicesThatOverlap are on tracks of the same name; further ones are
// instants, with their flows.
func TestSlicesThatOverlap(t *testing.T) {
	events := []Event{{Kind: Begun, Name: "conn"}}
	for i := range maxLanes + 10 {
		events = append(events, queued("A", uint64(i), true))
	}
	events = append(events, Event{Kind: Freed, Channel: 2, Sequence: 3}, queued("B", uint64(maxLanes+10), true))
	trace := play(t, events...)
	require.Len(t, trace.Named(tracetest.Begin, "A"), maxLanes)
	require.Len(t, fates(trace, "A"), maxLanes+10)
	lanes := 0
	for _, track := range trace.Tracks {
		if track.Name == "Fighter 7 out" {
			lanes++
		}
	}
	require.Equal(t, maxLanes, lanes)
	require.Len(t, trace.Named(tracetest.Begin, "B"), 1, "on a lane that is free again")
}

// TestTheEncoderIsBounded: whatever events it gets, and if their ends never arrive.
func TestTheEncoderIsBounded(t *testing.T) {
	e := newEncoder("server")
	e.header()
	for i := range uint64(3 * maxPending) {
		call := queued("A", i, i%2 == 0)
		call.Actor, call.Channel = i, i
		for _, ev := range append([]Event{call}, inPacket(i, Event{Kind: Bunch, Channel: i, Reliable: i%2 == 0, Sequence: i})...) {
			e.take(&ev)
		}
		handled := Event{Kind: Handled, Name: strings.Repeat("x", 1000), Class: "C", Actor: i + 1<<40}
		e.take(&handled)
		e.flush()
	}
	c := e.conns[0]
	require.LessOrEqual(t, len(c.packets), maxPending)
	require.LessOrEqual(t, c.pending, maxPending)
	require.LessOrEqual(t, len(c.actors), 2*maxPending+1)
	require.LessOrEqual(t, len(c.channels), 2*maxPending)
}

// TestEndsThatAreLost: connections that begin and end while the writer cannot
// keep up are not remembered forever, and those that continue keep their tracks.
func TestEndsThatAreLost(t *testing.T) {
	e := newEncoder("server")
	file := bytes.Clone(e.header())
	take := func(events ...Event) {
		for i := range events {
			events[i].At = e.at + 1
			e.take(&events[i])
		}
		file = append(file, e.flush()...)
	}
	take(Event{Kind: Begun, Name: "who stays"})
	for i := range uint32(5 * maxConns) {
		take(Event{Kind: Begun, Conn: 1 + i, Name: "who leaves"}) // and the end is lost
		if i%100 == 0 {
			e.gap(7)
			take(Event{Kind: Received})
		}
	}
	require.LessOrEqual(t, len(e.conns), maxConns)
	trace, err := tracetest.Parse(append(file, e.finish()...))
	require.NoError(t, err)
	packets := trace.Named(tracetest.Instant, "packet")
	require.Len(t, packets, 5*maxConns/100+1)
	for _, packet := range packets {
		require.Equal(t, []string{"server", "who stays", "packets in"}, trace.Under(packet.Track))
	}
}

// TestUndecidedPackets: the calls in packets beyond those that are followed end
// with them, so that others can be followed.
func TestUndecidedPackets(t *testing.T) {
	e := newEncoder("server")
	e.header()
	take := func(events ...Event) {
		for i := range events {
			e.take(&events[i])
		}
		e.flush()
	}
	for i := range uint64(maxPending) {
		take(inPacket(i)...)
	}
	for i := range uint64(10) {
		take(queued("A", 0, false))
		take(inPacket(maxPending+i, Event{Kind: Bunch, Channel: 2})...)
	}
	require.Zero(t, e.conns[0].pending)
}

// slow takes nothing until it is let go.
type slow struct {
	bytes.Buffer
	goOn chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.goOn
	return s.Buffer.Write(p)
}

// TestASlowWriter holds nobody up: what it does not take is missing, and the trace says so.
func TestASlowWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slow{goOn: make(chan struct{})}
		w := NewWriter(out, server, func(error) {})
		add := func(n int) {
			for i := range n {
				w.Add(&Event{Kind: Received, At: w.Time(time.Now()), Number: uint64(i)})
			}
		}
		add(1)
		time.Sleep(time.Second)
		synctest.Wait() // it waits for out
		add(bufferEvents + 123)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
		close(out.goOn)
		require.NoError(t, w.Close(context.Background()))
		add(1) // nobody hears
		trace, err := tracetest.Parse(out.Bytes())
		require.NoError(t, err)
		for _, e := range trace.Events {
			if e.Type == tracetest.Value {
				require.Equal(t, "events not in this trace", trace.Tracks[e.Track].Name)
				require.Equal(t, uint64(124), e.Value, "the first one still stood in the buffer")
				return
			}
		}
		t.Fatal("the trace says nothing")
	})
}

// TestEventsAreWrittenSoon, though nobody closes the Writer, and its memory goes round.
func TestEventsAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := NewWriter(&out, server, func(error) {})
		for range 10 {
			w.Add(&Event{Kind: Received})
			time.Sleep(2 * gatherTime)
			synctest.Wait()
			before := out.Len()
			require.Positive(t, before)
		}
		event := Event{Kind: Received}
		require.Zero(t, testing.AllocsPerRun(100, func() { w.Add(&event) }))
		for range bufferEvents { // half of it is a reason not to wait
			w.Add(&event)
		}
		require.NoError(t, w.Close(context.Background()))
		trace, err := tracetest.Parse(out.Bytes())
		require.NoError(t, err)
		require.Greater(t, len(trace.Events), 10)
	})
}

// TestNothingIsTraced by what is not there.
func TestNothingIsTraced(t *testing.T) {
	w := NewWriter(nil, server, nil)
	require.NoError(t, w.Close(context.Background()))
	var config bunch.Config
	tap := w.Tap(1, "conn", time.Now(), &config)
	require.Nil(t, config.Trace)
	tap.Joined("")
	tap.Ended("")
	tap.About("", "", 0)
	tap.Took()
	tap.Handled("", "", 0, 0, tap.Begin())
	require.False(t, tap.Due(time.Now()))
}

func BenchmarkAdd(b *testing.B) {
	w := NewWriter(new(bytes.Buffer), server, func(error) {})
	w.running.Store(true) // nobody writes
	event := Event{Kind: Received}
	for b.Loop() {
		w.Add(&event)
		if len(w.events) == bufferEvents {
			b.StopTimer()
			for range bufferEvents {
				<-w.events
			}
			b.StartTimer()
		}
	}
}

// BenchmarkEncode is an unreliable call, its packet and its ack.
func BenchmarkEncode(b *testing.B) {
	e := newEncoder("server")
	e.header()
	n := uint64(0)
	for b.Loop() {
		n++
		call, packet, acked := queued("A", 0, false), Event{Kind: Sent, Number: n, Asks: true}, Event{Kind: Acked, Number: n}
		e.take(&call)
		e.take(&Event{Kind: Bunch, Channel: 2})
		e.take(&packet)
		e.take(&acked)
		e.flush()
	}
}

// TestTextsAreValid: a peer's identity and its reason may be any bytes, and names may be long.
func TestTextsAreValid(t *testing.T) {
	for text, want := range map[string]string{
		"\xff\xfe bye": "\uFFFD bye", strings.Repeat("x", 300): strings.Repeat("x", maxText), strings.Repeat("é", 200): strings.Repeat("é", maxText/2),
		strings.Repeat("x", maxText-1) + "é": strings.Repeat("x", maxText-1), "": "",
	} {
		require.Equal(t, want, cut(text))
	}
	require.LessOrEqual(t, len(cut(strings.Repeat("\xff!", 300))), maxText, "each bad byte grows to three")
}

// TestDamagedFiles: Parse does not panic when a file was cut or changed.
func TestDamagedFiles(t *testing.T) {
	e := newEncoder("server")
	file := bytes.Clone(e.header())
	for _, ev := range append([]Event{{Kind: Begun, Name: "conn"}, queued("A", 4, true), {Kind: Sampled}}, inPacket(1, Event{Kind: Bunch, Channel: 2})...) {
		ev.At = 1000
		e.take(&ev)
		file = append(file, e.flush()...)
	}
	file = append(file, e.finish()...)
	_, err := tracetest.Parse(file)
	require.NoError(t, err)
	for at := range file {
		_, _ = tracetest.Parse(file[:at])
		for _, change := range []byte{0x07, 0x80} {
			damaged := bytes.Clone(file)
			damaged[at] ^= change
			_, _ = tracetest.Parse(damaged)
		}
	}
}
