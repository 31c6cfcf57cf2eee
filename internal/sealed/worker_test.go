package sealed

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/timers"
	"github.com/quivernet/quiver/internal/udp"
)

// setAwake pretends that so many carriers have work.
func setAwake(t *testing.T, crowd int) {
	before := awake.Swap(int32(crowd))
	t.Cleanup(func() { awake.Store(before) })
}

// TestWaitsOfACrowd: threads that sleep in the kernel keep processors from all other
// goroutines. With 200 carriers that sent, a server did nothing half of the time.
func TestWaitsOfACrowd(t *testing.T) {
	const short = crowdWait / 4
	procs := runtime.GOMAXPROCS(0)
	w := worker{realTime: true}
	as := func(crowd int) { setAwake(t, crowd) }
	as(procs / 2)
	require.Zero(t, w.minSleep())
	require.Equal(t, short < udp.TimerUnit, w.mayNap(short))
	require.False(t, w.mayNap(2*crowdWait), "the timers keep that")

	as(procs)
	require.Zero(t, w.minSleep())
	require.False(t, w.mayNap(short))

	as(procs + 1)
	require.Equal(t, crowdWait, w.minSleep())
	require.False(t, w.mayNap(short))

	require.Zero(t, new(worker).minSleep(), "in virtual time")
	require.False(t, new(worker).mayNap(short))
}

// TestSeenWakesAreForgotten: a wake that a turn has seen starts no other one.
func TestSeenWakesAreForgotten(t *testing.T) {
	w := worker{working: true, wakeups: bell.New()}
	require.False(t, w.clearWake())
	w.wake()
	w.wake()
	require.True(t, w.clearWake())
	require.False(t, w.clearWake())
}

// TestPoll: a carrier with bulk finds a packet, a wake or a timer without
// sleep, unless others need the processors or time is virtual.
func TestPoll(t *testing.T) {
	setAwake(t, 1)
	synctest.Test(t, func(t *testing.T) { // where the time of a poll does not pass while it looks
		looks := 0
		w := worker{realTime: true, inboxEmpty: func() bool { looks++; return looks < 3 }}
		require.True(t, w.poll(time.Time{}), "a packet comes")
		require.Equal(t, 3, looks)
	})
	w := worker{realTime: true, working: true, wakeups: bell.New(), inboxEmpty: func() bool { return true }}
	require.False(t, w.poll(time.Time{}), "nothing comes")
	require.False(t, w.poll(time.Now().Add(time.Hour)))
	require.True(t, w.poll(time.Now()), "something is due")
	w.wake()
	require.True(t, w.poll(time.Time{}), "somebody wakes it")
	require.True(t, w.clearWake(), "and the wake stays for the turn")

	w.inboxEmpty = func() bool { return false }
	setAwake(t, runtime.GOMAXPROCS(0)+1)
	require.False(t, w.poll(time.Time{}), "in a crowd")
	setAwake(t, 1)
	w.realTime = false
	require.False(t, w.poll(time.Time{}), "in virtual time")
}

// TestSleepLingers where nothing is due for long, and wakes for what is due soon.
func TestSleepLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{working: true, wakeups: bell.New(), inboxEmpty: func() bool { return true }, queue: timers.New()}
		w.alarm.Fire = func() {}
		for _, row := range []struct {
			next, sleeps time.Duration // 0 = nothing is due
			end          bool
		}{{0, lingerTime, true}, {parkAfter + ms, lingerTime, true}, {parkAfter, parkAfter, false}, {ms, ms, false}, {-ms, 0, false}} {
			begin, next := time.Now(), time.Time{}
			if row.next != 0 {
				next = begin.Add(row.next)
			}
			require.Equal(t, row.end, w.sleep(next), "%v", row.next)
			require.Equal(t, row.sleeps, time.Since(begin), "%v", row.next)
		}
		w.stop()
	})
}

// TestTimersThatAreOvertaken: play postpones the next work in each turn. The
// timer is not changed then, and looks again when it fires.
func TestTimersThatAreOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var worked []time.Duration
		begin := time.Now()
		w := &worker{wakeups: bell.New(), inboxEmpty: func() bool { return true }, queue: timers.New()}
		w.alarm.Fire = w.alarmFired
		w.handOff = func() {
			worked = append(worked, time.Since(begin))
			require.True(t, w.tryLeave(time.Time{}))
		}
		for _, next := range []time.Duration{20 * ms, 50 * ms, 80 * ms} {
			require.True(t, w.tryEnter())
			require.True(t, w.tryLeave(begin.Add(next)))
		}
		pass(time.Second)
		require.Equal(t, []time.Duration{80 * ms}, worked)

		begin = time.Now()
		for _, next := range []time.Duration{50 * ms, 20 * ms} {
			require.True(t, w.tryEnter())
			require.True(t, w.tryLeave(begin.Add(next)))
		}
		pass(time.Second)
		require.Equal(t, []time.Duration{80 * ms, 20 * ms}, worked, "an earlier time counts at once")
	})
}
