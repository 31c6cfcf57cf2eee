package sealed

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestFeedbackBytes(t *testing.T) {
	f := report{largest: 0x01020304, delay: 300 * time.Microsecond, clock: 0x0a0b0c0d0e0f, nruns: 3, ndeltas: 2}
	copy(f.runs[:], []uint64{5, 1, 200})
	copy(f.deltas[:], []int64{60, -1})
	b := f.appendFrame(nil)
	require.Equal(t, []byte{2, 1, 2, 3, 4, 0xac, 0x02, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 3, 2, 5, 1, 0xc8, 0x01, 0x78, 0x01}, b)
	var g frame
	rest, err := g.consume(b)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, f, g.report)
	for n := 1; n < len(b); n++ {
		_, err := g.consume(b[:n])
		require.ErrorIs(t, err, errMalformed, "cut to %d bytes", n)
	}
}

func TestMalformedFrames(t *testing.T) {
	head := binary.BigEndian.AppendUint32([]byte{frameFeedback}, 9)
	head = append(head, 0)
	head = append(head, make([]byte, clockBytes)...)
	huge := binary.AppendUvarint(nil, maxNumber+1)
	for name, b := range map[string][]byte{
		"unknown":         {9},
		"data cut":        {frameData, 0},
		"data empty":      {frameData, 0, 0},
		"data too short":  {frameData, 0, 3, 1, 2},
		"train cut":       {frameTrain},
		"no runs":         append(head[:len(head):len(head)], 0, 0),
		"too many runs":   append(head[:len(head):len(head)], maxRuns+1, 0),
		"too many times":  append(head[:len(head):len(head)], 1, maxDeltas+1, 1),
		"empty run":       append(head[:len(head):len(head)], 1, 0, 0),
		"run too long":    append(append(head[:len(head):len(head)], 1, 0), huge...),
		"endless number":  append(head[:len(head):len(head)], 1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1),
		"delay too long":  append(append([]byte{frameFeedback, 0, 0, 0, 0}, huge...), 0, 0, 0, 0, 0, 0, 1, 0, 1),
		"time too far":    append(append(head[:len(head):len(head)], 1, 1, 1), binary.AppendVarint(nil, 1<<41)...),
		"time missing":    append(head[:len(head):len(head)], 1, 1, 1),
		"padding is last": {framePadding, 9, 9, 9},
	} {
		var f frame
		rest, err := f.consume(b)
		if b[0] == framePadding {
			require.NoError(t, err)
			require.Empty(t, rest)
			continue
		}
		require.ErrorIs(t, err, errMalformed, name)
	}
}

func FuzzFrame(f *testing.F) {
	var fb report
	fb.nruns, fb.runs[0] = 1, 3
	f.Add(fb.appendFrame(nil))
	f.Add([]byte{frameData, 0, 2, 1, 2, framePing, frameTrain, 4, framePadding})
	f.Fuzz(func(t *testing.T, b []byte) {
		var f, g frame
		for len(b) > 0 {
			rest, err := f.consume(b)
			if err != nil {
				return
			}
			require.Less(t, len(rest), len(b))
			if f.kind == frameFeedback {
				_, err := g.consume(f.report.appendFrame(nil))
				require.NoError(t, err)
				require.Equal(t, f.report.runs[:f.report.nruns], g.report.runs[:g.report.nruns])
				require.Equal(t, f.report.deltas[:f.report.ndeltas], g.report.deltas[:g.report.ndeltas])
				require.Equal(t, f.report.clock, g.report.clock)
			}
			b = rest
		}
	})
}

// The sender decodes what the report has encoded.
func TestReportSpans(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	for i, n := range []uint64{0, 1, 2, 4, 5, 9, 8} {
		w.Mark(n)
		r.note(time.Duration(i)*ms, time.Duration(i)*ms, n, askSoon)
	}
	var f report
	require.EqualValues(t, 10, r.fill(7*ms, &f, &w, 1000))
	require.Equal(t, []uint64{2, 2, 2, 1, 3}, f.runs[:f.nruns])
	require.Equal(t, 2*ms, f.delay)
	spans, err := f.appendSpans(nil, 9)
	require.NoError(t, err)
	require.Equal(t, []span{{8, 10}, {4, 6}, {0, 3}}, spans)
	var numbers []uint64
	base := f.largestArrival()
	for _, a := range f.arrivals(nil, spans, 2) {
		numbers = append(numbers, a.number)
		want, known := map[uint64]time.Duration{9: 0, 5: -ms, 4: -2 * ms, 2: -3 * ms}[a.number]
		if !known { // 8 came behind 9, and numbers below 2 behind what an earlier report told of
			want = -base
		}
		require.Equal(t, want, a.at-base, "%d", a.number)
	}
	require.Equal(t, []uint64{9, 8, 5, 4, 2, 1, 0}, numbers)

	f.runs[4] = 4
	_, err = f.appendSpans(nil, 9)
	require.Error(t, err, "below packet 0")
}

// TestReportKeepsTheNewestArrival: a packet that is late by as many numbers as there
// are slots does not replace the newest arrival, whose time is the report's clock.
func TestReportKeepsTheNewestArrival(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	for i, n := range []uint64{0, initialArrivals + 8, 8} {
		w.Mark(n)
		r.note(time.Duration(i)*ms, time.Duration(i)*ms, n, askSoon)
	}
	var f report
	r.fill(7*ms, &f, &w, 1000)
	require.EqualValues(t, initialArrivals+8, f.largest)
	require.Equal(t, 6*ms, f.delay, "since the newest came")
}

// TestReportCoversWhatItTells: the peer's ack for a report shows that it knows
// what was in that report, and nothing else: it knows nothing of reports that
// were lost, eight in a row, or that had no room.
func TestReportCoversWhatItTells(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	var f report
	for n := range uint64(40) {
		w.Mark(n)
		r.note(0, 0, n, askSoon)
		covers := r.fill(0, &f, &w, 1000)
		low := uint64(f.largest) + 1
		for _, run := range f.runs[:f.nruns] {
			low -= run
		}
		require.LessOrEqual(t, low, max(n+1, 8)-8, "report %d leaves out what the last 8 were to tell", n)
		if low > 0 {
			require.Zero(t, covers, "report %d tells of %d and more", n, low)
		} else {
			require.Equal(t, n+1, covers)
		}
	}
	for n := uint64(41); n < 100; n += 2 {
		w.Mark(n)
		r.note(0, 0, n, askSoon)
	}
	require.Zero(t, r.fill(0, &f, &w, minReport))
	r.knownBelow = 98
	require.EqualValues(t, 100, r.fill(0, &f, &w, minReport))
}

// TestReportReachesBelowWhatIsLate: 25 ms of 100 Mbit/s are 208 packets. While
// 3 in 10 of them are late, earlier late packets are reported, too.
func TestReportReachesBelowWhatIsLate(t *testing.T) {
	rng := testkit.Rand(t)
	r := newReporter(0)
	var w recovery.Window
	for n := range uint64(2000) {
		if n < 1792 || n == 1999 || rng.IntN(10) >= 3 {
			w.Mark(n)
			r.note(0, 0, n, askSoon)
		}
	}
	var f report
	require.EqualValues(t, 2000, r.fill(0, &f, &w, SafePacket))
}

// TestReportTellsOfTheLate: every other packet is late by 40 ms of 250 Mbit/s,
// below 250 gaps at any time. All are reported soon after they arrived.
func TestReportTellsOfTheLate(t *testing.T) {
	const late, each = 500, 4
	r := newReporter(0)
	var w recovery.Window
	var f report
	told := map[uint64]bool{}
	for n := uint64(0); n < 6000; n += each {
		for i := n; i < n+each; i++ {
			if i%2 == 0 {
				w.Mark(i)
				r.note(0, 0, i, askSoon)
			}
			if i%2 == 1 && i > late {
				w.Mark(i - late)
				r.note(0, 0, i-late, askSoon)
			}
		}
		r.fill(0, &f, &w, SafePacket)
		high := uint64(f.largest) + 1
		require.True(t, w.Has(high-1))
		for i, run := range f.runs[:f.nruns] {
			for k := high - run; k < high && i%2 == 0; k++ {
				told[k] = true
			}
			high -= run
		}
		for k, since := int64(n)-late-40*each, 0; k > 0 && since < 400; k, since = k-1, since+1 {
			require.True(t, told[uint64(k)], "%d at %d", k, n)
		}
	}
}

// TestReportTurnsToOlderAgain: numbers that had no room are not repeated once
// the peer may know them from a report that had room for all. Those for which a
// later report has no room are reported as well.
func TestReportTurnsToOlderAgain(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	var f report
	gaps := func(from, to uint64) {
		for n := from; n < to; n += 2 {
			w.Mark(n)
			r.note(0, 0, n, askSoon)
		}
	}
	gaps(0, 1000)
	r.fill(0, &f, &w, SafePacket)
	require.NotZero(t, r.backlogEnd)
	r.knownBelow = 1000
	gaps(1000, 2000)
	r.reports = reportMemory
	low := uint64(2000)
	for range 12 {
		r.noteLate(1000)
		r.fill(0, &f, &w, SafePacket)
		end := uint64(f.largest) + 1
		for _, run := range f.runs[:f.nruns] {
			end -= run
		}
		low = min(low, end)
	}
	require.LessOrEqual(t, low, uint64(1000))
}

// TestReportTellsOfWhatCameBelowItsFloor: a peer that acked a report knows
// which packets were received then. Packets below them that arrive later are
// reported as well, and soon, because they would otherwise count as lost.
func TestReportTellsOfWhatCameBelowItsFloor(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	var f report
	for n := range uint64(12) {
		if n != 5 {
			w.Mark(n)
			r.note(0, 0, n, askSoon)
		}
	}
	require.EqualValues(t, 12, r.fill(0, &f, &w, SafePacket))
	require.EqualValues(t, []uint64{6, 1, 5}, f.runs[:f.nruns])
	r.knownBelow = 12
	w.Mark(5)
	r.note(0, 0, 5, askSoon)
	r.noteLate(5)
	r.fill(0, &f, &w, SafePacket)
	require.EqualValues(t, []uint64{7}, f.runs[:f.nruns])
}

// TestReportTellsOfTheLateAtOnce: a report covers the last eight, but a packet
// that arrived below them is in the next one.
func TestReportTellsOfTheLateAtOnce(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	var f report
	take := func(n uint64) (runs []uint64) {
		w.Mark(n)
		r.note(0, 0, n, askSoon)
		if n+1 < w.Next {
			r.noteLate(n)
		}
		r.fill(0, &f, &w, SafePacket)
		return f.runs[:f.nruns]
	}
	for n := range uint64(30) {
		if n != 5 {
			take(n)
		}
	}
	require.NotZero(t, r.reports%reportMemory, "not the one that repeats all")
	require.EqualValues(t, []uint64{30}, take(5))
	require.Less(t, take(30)[0], uint64(10), "once")
}

// TestEverySecondReportIsOfTheNewest: however many older numbers are still to
// be reported, packets that arrive meanwhile do not wait for that.
func TestEverySecondReportIsOfTheNewest(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	var f report
	for n := uint64(0); n < 3000; n += 2 {
		w.Mark(n)
		r.note(0, 0, n, askSoon)
	}
	for range 4 {
		for _, newest := range []bool{true, false} {
			r.fill(0, &f, &w, minReport)
			require.Equal(t, newest, uint64(f.largest) == w.Next-1)
		}
		w.Mark(w.Next + 1)
		r.note(0, 0, w.Next-1, askSoon)
	}
}

// TestTimesOfNumbersThatLeap: whatever numbers a peer skips, a report has the
// times of the packets that arrived since the report before the last.
func TestTimesOfNumbersThatLeap(t *testing.T) {
	random := testkit.Rand(t)
	r := newReporter(0)
	var w recovery.Window
	var f report
	came := make(map[uint64]time.Duration)
	reported := []uint64{0, 0} // one above the largest number of each report
	take := func(n uint64, at time.Duration) {
		if came[n] == 0 && !w.Below(n) {
			w.Mark(n)
			r.note(at, at, n, askSoon)
			came[n] = at
		}
	}
	for at := time.Duration(1); at < 2000; at++ {
		take(w.Next+uint64(random.IntN([]int{1, 3, 70, 300, 4000, recovery.WindowSize + 200}[random.IntN(6)])), at*ms)
		if random.IntN(3) == 0 {
			take(w.Next-1-min(w.Next-1, uint64(random.IntN(300))), at*ms)
		}
		if random.IntN(3) > 0 {
			continue
		}
		r.fill(at*ms, &f, &w, SafePacket)
		var want []int64
		last := came[w.Next-1]
		for n := w.Next - 1; n > max(w.Floor(), reported[len(reported)-2]) && len(want) < maxDeltas; {
			n--
			if came[n] == 0 {
				continue
			}
			if r.arrivals.slot(n).number != n {
				break
			}
			want = append(want, int64((last-came[n])/clockUnit))
			last = came[n]
		}
		require.Equal(t, want, append([]int64(nil), f.deltas[:f.ndeltas]...))
		reported = append(reported, w.Next)
	}
}

// A report never exceeds its room.
func TestReportRoom(t *testing.T) {
	r := newReporter(0)
	var w recovery.Window
	for n := uint64(0); n < 6000; n += 1 + n%7 {
		w.Mark(n)
		r.note(time.Duration(n*n)*time.Microsecond, time.Duration(n*n)*time.Microsecond, n, askSoon)
	}
	for room := minReport; room < 600; room++ {
		again := r
		var f report
		again.fill(time.Hour, &f, &w, room)
		require.LessOrEqual(t, len(f.appendFrame(nil)), room)
		require.Positive(t, f.nruns)
	}
}
