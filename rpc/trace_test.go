package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/internal/trace/tracetest"
)

// traced plays a game with losses, and returns what was traced at the server and at the client.
func traced(t *testing.T) (server, client *tracetest.Trace) {
	var files [2]bytes.Buffer
	inNet(t, 0, Config{Trace: &files[0]}, func(n *network) {
		n.join(Config{Trace: &files[1]})
		a := n.spawn(0)
		lost := 0
		n.pipes[0][1].SetDrop(func([]byte) bool {
			lost++
			return lost%10 == 0
		})
		for i := range 60 {
			require.NoError(t, bulk.Call(a, make(Raw, 5000)))
			require.NoError(t, blink.Call(a, i))
			*a.text() = "label " + string(rune('a'+i%26))
			n.tick(1)
		}
		n.pipes[0][1].SetDrop(nil)
		n.tick(10)
	})
	parse := func(file []byte) *tracetest.Trace {
		trace, err := tracetest.Parse(file)
		require.NoError(t, err)
		return trace
	}
	return parse(files[0].Bytes()), parse(files[1].Bytes())
}

// TestTraceOfCalls follows calls from Call over their packets to their acks,
// and at the other end from their arrival to the end of their handlers.
func TestTraceOfCalls(t *testing.T) {
	server, client := traced(t)
	calls := server.Named(tracetest.Begin, "Hero.Bulk")
	require.Len(t, calls, 60)
	require.Equal(t, []string{"quiver server", "conn 1", "Hero 1 out"}, server.Under(calls[0].Track))
	require.Equal(t, map[string]uint64{"bytes": 5001, "channel": 2, "entries": 5}, calls[0].Numbers)
	path := server.Through(calls[0].Flows[0])
	require.Equal(t, "Hero.Bulk", path[0].Name)
	require.GreaterOrEqual(t, len(path), 5, "four packets at least")
	for _, e := range path[1 : len(path)-1] {
		require.Equal(t, "packet", e.Name)
		require.GreaterOrEqual(t, e.At, path[0].At)
	}
	ack := path[len(path)-1]
	require.Equal(t, map[string]string{"fate": "acked"}, ack.Texts)
	require.Equal(t, "acks", server.Tracks[ack.Track].Name)
	require.GreaterOrEqual(t, ack.At-path[0].At, uint64(2*testDelay))

	handled := client.Named(tracetest.Begin, "Hero.Bulk")
	require.Len(t, handled, 60)
	require.Equal(t, []string{"quiver client", "conn 1", "Hero 1 in"}, client.Under(handled[0].Track))
	require.GreaterOrEqual(t, handled[0].At-path[0].At, uint64(testDelay), "it arrived")
	require.Len(t, client.Named(tracetest.Begin, "handler"), 60+len(client.Named(tracetest.Begin, "Hero.Blink")))
	require.Len(t, client.Named(tracetest.Instant, "joined"), 1)
}

// TestTraceOfLosses: the trace shows which packets were lost, which bunches
// were resent, and which were not.
func TestTraceOfLosses(t *testing.T) {
	server, client := traced(t)
	fates := map[string]int{}
	for _, e := range server.Named(tracetest.Instant, "Hero.Blink") {
		fates[e.Texts["fate"]]++
	}
	require.Equal(t, 60, fates["acked"]+fates["lost"])
	require.Positive(t, fates["lost"])
	require.Len(t, client.Named(tracetest.Begin, "Hero.Blink"), fates["acked"])
	require.NotEmpty(t, server.Named(tracetest.Instant, "packet lost"))
	require.Equal(t, "Hero.Bulk", server.Named(tracetest.Instant, "resend")[0].Texts["what"])
	states := uint64(0)
	for _, e := range server.Named(tracetest.Begin, "packet") {
		states += e.Numbers["states"]
	}
	require.GreaterOrEqual(t, states, uint64(60))
	values := map[string]uint64{}
	for _, e := range server.Events {
		if e.Type == tracetest.Value {
			values[server.Tracks[e.Track].Name] = max(values[server.Tracks[e.Track].Name], e.Value)
		}
	}
	require.GreaterOrEqual(t, values["RTT"], uint64(2*testDelay))
	require.Positive(t, values["in flight"])
	require.Greater(t, values["rate out"], uint64(100_000))
	require.NotContains(t, values, "events not in this trace")
}

// broken fails at its second Write.
type broken struct{ writes int }

var errDisk = errors.New("the disk is full")

func (b *broken) Write(p []byte) (int, error) {
	if b.writes++; b.writes > 1 {
		return 0, errDisk
	}
	return len(p), nil
}

// TestTraceOfABrokenWriter: the trace ends, the log says so, and nothing else is affected.
func TestTraceOfABrokenWriter(t *testing.T) {
	var log bytes.Buffer
	inNet(t, 0, Config{Trace: new(broken), Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
		n.join(Config{})
		a := n.spawn(0)
		n.tick(30)
		require.NoError(t, hit.Call(a, 1))
		n.tick(3)
		require.Equal(t, []string{"hit"}, n.clients[0].take())
		err := n.server.Close(context.Background(), 0, "end of test")
		require.ErrorIs(t, err, errDisk)
		require.ErrorContains(t, err, "Config.Trace")
		n.server.World = newTestWorld(t, Config{}).World // which closes without an error
	})
	require.Contains(t, log.String(), "the disk is full")
}

// TestTraceWithoutAConnection: nothing is written, and no goroutine remains.
func TestTraceWithoutAConnection(t *testing.T) {
	w := newTestWorld(t, Config{Trace: io.Discard})
	require.NoError(t, w.Close(context.Background(), 0, "end of test"))
}

// TestTraceOverSealedPackets: the machines are the same, and so is the trace.
// It contains the losses of a carrier.
func TestTraceOverSealedPackets(t *testing.T) {
	var file bytes.Buffer
	path := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.05, Rate: 1e6, Seed: testkit.Seed(t)}
	overSealedWith(t, path, Config{Sealed: true, Trace: &file}, Config{Sealed: true}, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		a := n.spawn(0)
		for i := range 90 {
			require.NoError(t, bulk.Call(a, make(Raw, 2000)))
			require.NoError(t, blink.Call(a, i))
			n.tick(1)
		}
		n.tick(30)
		require.True(t, n.conns[0].Sealed())
		require.NoError(t, n.server.Close(context.Background(), 0, "end of test"))
	})
	trace, err := tracetest.Parse(file.Bytes())
	require.NoError(t, err)
	fates := map[string]int{}
	for _, e := range append(trace.Named(tracetest.Instant, "Hero.Bulk"), trace.Named(tracetest.Instant, "Hero.Blink")...) {
		fates[e.Texts["fate"]]++
	}
	require.Len(t, trace.Named(tracetest.Begin, "Hero.Bulk"), 90)
	require.Greater(t, fates["acked"], 150, "%v: a Blink may be lost, and does not leave at all while the path is full", fates)
	require.LessOrEqual(t, fates["acked"]+fates["lost"]+fates["dropped"], 180)
	require.NotEmpty(t, trace.Named(tracetest.Instant, "packet lost"))
	require.NotEmpty(t, trace.Named(tracetest.Instant, "resend"))
}
