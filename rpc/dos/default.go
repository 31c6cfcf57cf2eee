package dos

import "time"

// Default returns a profile for a game whose clients call up to 60 times a second, with small
// arguments and handlers that take up to about 0.2 ms.
//
// Measure before you change it for another game. Stats has the numbers for each method, and a
// profile whose quotas are all 0 does nothing but count.
//
//	state            a frame                period                      a method runs           cools off  next after
//	Hitch            60, 64 KiB, 5 ms                                   freely                  2 s
//	Burst            240, 256 KiB, 20 ms    240, 256 KiB, 40 ms in 1 s  freely                  4 s
//	PersistentBurst                         800, 1 MiB, 120 ms in 4 s   150, 256 KiB, 30 ms/s   8 s        8 s
//	DoS                                     2,000, 2 MiB, 200 ms in 4 s 150, 128 KiB, 25 ms/s   15 s       2 s
//	ExpensiveDoS                            4,000, 4 MiB, 400 ms in 4 s 150, 64 KiB, 25 ms/s    30 s       3 s
//	Kick                                    8,000, 8 MiB, 4 s in 4 s                            60 s
//
// A client enters Hitch when a second's worth of honest calls arrives in one frame, as after a
// hitch of the client or its path. It enters Burst at four seconds' worth. An outage of 2 s or a
// party of busy clients stays below Burst. Neither state blocks calls.
//
// A client enters PersistentBurst with 200 calls a second for 4 s, more than three times the rate
// of honest clients. In this state, each method may still run 2.5 times as often as an honest
// client calls it. A client enters DoS with 200 ms of handlers in 4 s, which is 5 % of a core. A
// client that uses up rpc.Config.DispatchTime at each tick of 30 Hz exceeds this with 60 ms a
// second.
//
// In every state, a method may run at least as often as an honest client calls it, even if calls
// have been waiting for a second behind a slow handler, or for 1.4 s during an outage of the
// path. A client isn't penalized for a single handler that takes 0.2 s or 0.9 s, for instance
// because of a disk or a busy machine.
//
// If another slow handler runs before the state has cooled off, calls of its method are blocked
// for the rest of the second. After even slower handlers, calls that were waiting meanwhile may
// be blocked. The same may happen if a longer outage follows the slow handlers. But a client is
// kicked for a handler alone only if that handler takes 4 s.
//
// A client that persists while its calls are blocked is kicked 2 + 3 s after it has entered DoS,
// or up to a second later if it uses so many methods that none is blocked. A client with 200 to
// 500 calls a second enters DoS after 8 s. If it rests between bursts, only the seconds with a
// burst count. A client with more than 2,000 calls or 2 MiB a second, which no client sends by
// mistake, is kicked at once.
//
// A game whose clients make 200 calls a second or more, such as with package input at 240 ticks a
// second, needs higher quotas. It's enough to double Frame.Calls and Period.Calls.
//
// Messages that answer the server don't count towards any quota. Neither do a client's messages
// for receiving the server's transfers. The header of each transfer that a client begins counts
// as a call.
//
// A client that stays just below the quotas can cost the server up to 200 calls, 256 KiB and
// 30 ms of handlers per second and identity indefinitely. It may send the calls and bytes of up
// to 40 s at once if it then rests for the same time.
//
// Handler time isn't summed up over bursts, because a busy machine slows down the handlers of
// honest clients as well. If a client rests for five seconds after each burst, then in each burst
// every method may run once, or for 30 ms, up to 4 s of handlers in 4 s. In the 5 s after a join,
// handler time does not count at all, but a client gets this grace at most once in 65 s.
func Default() *Profile {
	const kib, mib = 1 << 10, 1 << 20
	const second, ms = time.Second, time.Millisecond
	return &Profile{
		States: []State{
			{Name: "Normal"},
			{Name: "Hitch", Frame: Load{60, 64 * kib, 5 * ms}, Cooloff: 2 * second},
			{
				Name:    "Burst",
				Frame:   Load{240, 256 * kib, 20 * ms},
				Period:  Load{240, 256 * kib, 40 * ms},
				Window:  second,
				Cooloff: 4 * second,
			},
			{
				Name:         "PersistentBurst",
				Period:       Load{800, mib, 120 * ms},
				Window:       4 * second,
				Repeat:       Load{150, 256 * kib, 30 * ms},
				RepeatWindow: second,
				Cooloff:      8 * second,
				AutoEscalate: 8 * second,
				Log:          true,
			},
			{
				Name:         "DoS",
				Period:       Load{2000, 2 * mib, 200 * ms},
				Window:       4 * second,
				Repeat:       Load{150, 128 * kib, 25 * ms},
				RepeatWindow: second,
				Cooloff:      15 * second,
				AutoEscalate: 2 * second,
				Log:          true,
			},
			{
				Name:         "ExpensiveDoS",
				Period:       Load{4000, 4 * mib, 400 * ms},
				Window:       4 * second,
				Repeat:       Load{150, 64 * kib, 25 * ms},
				RepeatWindow: second,
				Cooloff:      30 * second,
				AutoEscalate: 3 * second,
				Log:          true,
			},
			{
				Name:    "Kick",
				Period:  Load{8000, 8 * mib, 4 * second},
				Window:  4 * second,
				Cooloff: 60 * second,
				Log:     true,
				Kick:    true,
			},
		},
		HitchTime:     500 * ms,   // much longer than a frame at 10 ticks a second or more
		HitchSuspend:  second,     // long enough for waiting calls to run, even under DispatchTime
		JoinTolerance: 5 * second, // clients load, and request objects to spawn

		// Package stream limits its transfers by credit, MaxMemory and MaxTransfers. If we
		// blocked one of its messages, a transfer would break.
		Exempt:    []string{"quiver.stream.lane"},
		Unblocked: []string{"quiver.stream"},

		Remember:   time.Minute, // twice the longest Cooloff of a state that does not kick
		Identities: 1024,        // the default number of connections of a world
	}
}
