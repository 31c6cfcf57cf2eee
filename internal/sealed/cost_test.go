package sealed

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// BenchmarkHostilePackets is what a packet of a peer costs with its answer: an
// ordinary one, and the dearest that are legal.
func BenchmarkHostilePackets(b *testing.B) {
	data := func(n int) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{frameData}, uint16(n)), make([]byte, n)...)
	}
	ping, next := []byte{framePing}, func(n uint64) uint64 { return n + 1 }
	for _, c := range []struct {
		name   string
		frames func(a *Session) []byte
		next   func(n uint64) uint64 // the number after n
	}{
		{"ping", func(*Session) []byte { return ping }, next},
		{"data of 1200 bytes", func(*Session) []byte { return data(1200) }, next},
		{"data of 8900 bytes", func(*Session) []byte { return data(8900) }, next},
		{"most pings", func(*Session) []byte { return bytes.Repeat(ping, maxFrames) }, next},
		{"most payloads", func(*Session) []byte { return bytes.Repeat([]byte{framePlay, 0, 1, 9}, maxPayloads) }, next},
		{"most runs and times", scattered, next},
		{"numbers that leap", func(*Session) []byte { return ping }, func(n uint64) uint64 { return n + 40 }},
		{"a key for two packets", func(*Session) []byte { return ping }, func(n uint64) uint64 {
			switch {
			case n == 1:
				return 1 << (generationBits - 1) // behind which the next key is derived
			case n%2 == 1:
				return n + 1
			}
			return (n>>generationBits+2)<<generationBits - 3 // the window lies in the next key's numbers
		}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkHostile(b, c.frames, c.next) })
	}
}

// scattered acks what a has sent with as many runs and times as there may be,
// up to a number that was skipped.
func scattered(a *Session) []byte {
	last := a.records.Next - 1
	f := report{largest: uint32(last)}
	for f.nruns < maxRuns && a.records.Has(last-uint64(f.nruns)) && a.records.At(last-uint64(f.nruns)).fate != skipped {
		f.runs[f.nruns] = 1
		f.nruns++
	}
	if f.nruns == 0 {
		return []byte{framePing}
	}
	f.ndeltas = min(maxDeltas, f.nruns/2)
	return append(f.appendFrame(nil), framePing)
}

func benchmarkHostile(b *testing.B, frames func(a *Session) []byte, next func(n uint64) uint64) {
	victim, peer := ends(b, sinkOnly{}, sinkOnly{}, func(c *SessionConfig) { c.NoTrain, c.RTT = true, time.Microsecond })
	now := netsim.Epoch
	victim.Start(now, ID{1})
	number := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		number = next(number)
		p, err := peer.sealer.seal(append(appendHeader(make([]byte, 0, JumboPacket), ID{}, number), frames(victim)...), number)
		require.NoError(b, err)
		now = now.Add(20 * time.Microsecond)
		b.StartTimer()
		if err := victim.Receive(now, p); err != nil {
			b.Fatal(err)
		}
		_ = victim.Advance(now)
		for ok := true; ok; {
			_, _, ok = victim.AppendPacket(now, p[:0], FullPacket)
		}
		victim.NextTimeout()
	}
	b.ReportMetric(float64(victim.Stats().Sent)/float64(b.N), "answers/op")
	require.Zero(b, victim.Stats().Dropped())
}
