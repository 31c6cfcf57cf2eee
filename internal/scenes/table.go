package scenes

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

const (
	second = time.Second
	milli  = time.Millisecond
	mib    = 1 << 20
)

// Table returns all rows: the families that RFC 9743, section 5, requires for a congestion
// control, and the conditions of home networks.
func Table() []Row {
	return bound(slices.Concat(
		loss(), jitter(), clumps(), reordering(), weather(), bursts(), queues(), changes(),
		stalls(), wayBack(), products(), satellites(), narrow(), crowds(), crowdsInWeather(),
		near(), roundTrips(), neighbours(), unqueued(), shorts(), constants(), play(), starts(),
		rushes(), little(),
	))
}

// single returns a scene with one transfer of ours over a path.
func single(s Scene, bytes int) Scene {
	s.Flows = []Flow{{Kind: Ours, Begin: second, Bytes: bytes}}
	s.For = second + max(20*s.Ideal(bytes), 10*second)
	return s
}

func named(s Scene, format string, args ...any) Scene {
	s.Name = fmt.Sprintf(format, args...)
	return s
}

// inTime judges the time of the first flow as a multiple of the ideal. It also shows the
// flow's bytes on the wire.
func inTime(most float64) func(Result) []Figure {
	return func(r Result) []Figure {
		return []Figure{atMost("time", ratio(r), most), {Name: "wire", Value: wire(r)}}
	}
}

// always is inTime with one more bound: no seed may take more than twice the bound on the
// median.
func always(most float64) func(Result) []Figure {
	return func(r Result) []Figure {
		return append(inTime(most)(r), Figure{Name: "worst time", Value: ratio(r), Most: 2 * most, Worst: true})
	}
}

func mbit(rate int64) int64 { return rate / 1e6 }

func loss() (rows []Row) {
	for _, rate := range []int64{10e6, 100e6} {
		for _, rtt := range []time.Duration{20, 50, 100, 200} {
			for _, p := range []float64{0, 0.01, 0.02, 0.05, 0.10} {
				s := named(single(Path(rate, rtt*milli, p, 1), 4*mib),
					"%d Mbit/s %d ms %g %%", mbit(rate), rtt, 100*p)
				most := 1.3
				if rate > 50e6 && p > 0.02 {
					most = 2
				}
				rows = append(rows, Row{Family: "loss", Scene: s, Judge: always(most)})
			}
		}
	}
	return append(rows, besidePlay()...)
}

// besidePlay returns transfers in a game's connection. The game's small packets show a
// shorter delay than full packets have.
func besidePlay() (rows []Row) {
	for _, rate := range []int64{2e6, 8e6} {
		for _, rtt := range []time.Duration{20, 100} {
			for _, p := range []float64{0.02, 0.05} {
				s := named(single(Path(rate, rtt*milli, p, 1), 4*mib),
					"%d Mbit/s %d ms %g %% beside play", mbit(rate), rtt, 100*p)
				s.Flows[0].Plays = true
				rows = append(rows, Row{Family: "loss", Scene: s, Judge: always(1.3)})
			}
		}
	}
	return rows
}

func jitter() (rows []Row) {
	for _, rate := range []int64{10e6, 50e6, 100e6} {
		for _, rtt := range []time.Duration{20, 50, 80} {
			for _, j := range []time.Duration{5, 10, 20, 40} {
				for _, p := range []float64{0, 0.001} {
					s := named(single(Path(rate, rtt*milli, p, 1), 4*mib),
						"%d Mbit/s %d ms jitter %d ms %g %%", mbit(rate), rtt, j, 100*p)
					s.There.Jitter, s.Back.Jitter = j*milli, j*milli
					rows = append(rows, Row{Family: "jitter", Scene: s, Judge: func(r Result) []Figure {
						if j > rtt {
							return nil
						}
						return []Figure{atMost("time", ratio(r), 1.5)}
					}, Beside: Reno, Compare: besideReno(1.25)})
				}
			}
		}
	}
	return rows
}

func clumps() (rows []Row) {
	for _, rate := range []int64{10e6, 50e6, 100e6} {
		for _, q := range []time.Duration{5, 10, 20} {
			s := named(single(Path(rate, 50*milli, 0, 1), 4*mib),
				"%d Mbit/s 50 ms clumps of %d ms", mbit(rate), q)
			s.There.Clump, s.Back.Clump = q*milli, q*milli
			rows = append(rows, Row{Family: "clumps", Scene: s, Judge: func(r Result) []Figure {
				return []Figure{atMost("time", ratio(r), 1.25), atMost("wire", wire(r), 1.08*maxPacketWire)}
			}})
		}
	}
	return rows
}

// maxPacketWire is the wire figure of a transfer that sends nothing twice. It is the cost of
// headers alone.
const maxPacketWire = float64(maxPacket+netsim.UDPOverhead) / piece

// spurious judges the share of the first flow's packets that were declared lost but arrived.
func spurious(r Result) Figure {
	return atMost("spurious", float64(r.Flows[0].Spurious)/float64(r.Flows[0].At(r.Scene.For).Sent), 0.02)
}

func reordering() (rows []Row) {
	for _, share := range []float64{0.01, 0.05, 0.1, 0.3} {
		for _, rate := range []int64{10e6, 100e6} {
			s := named(single(Path(rate, 50*milli, 0, 1), 4*mib),
				"%d Mbit/s 50 ms, %g %% late by 25 ms", mbit(rate), 100*share)
			s.There.Reorder, s.There.ReorderDelay = share, 25*milli
			rows = append(rows, Row{Family: "reordering", Scene: s, Judge: func(r Result) []Figure {
				return []Figure{atMost("time", ratio(r), 1.3), spurious(r)}
			}})
		}
	}
	for _, late := range []time.Duration{20 * milli, 40 * milli} {
		for _, rate := range []int64{10e6, 100e6} {
			for _, loss := range []float64{0, 0.01, 0.05} {
				s := named(single(Path(rate, 40*milli, loss, 1), 4*mib),
					"%d Mbit/s 40 ms %g %%, every other packet late by %v", mbit(rate), 100*loss, late)
				s.There.Alternate, s.Back.Alternate = late, late
				rows = append(rows, Row{Family: "reordering", Scene: s, Judge: func(r Result) []Figure {
					return []Figure{atMost("time", ratio(r), 1.5), spurious(r)}
				}})
			}
		}
	}
	return rows
}

// weather returns endless transfers with losses and delays that do not come from a queue. The
// delays are late packets, or jitter no longer than a short queue. Mistaking one for the
// other costs most of the link.
func weather() (rows []Row) {
	for _, rate := range []int64{20e6, 100e6} {
		for _, p := range []float64{0.02, 0.05} {
			even := Path(rate, 50*milli, p, 1)
			late, jittery := even, even
			for _, way := range []*netsim.Config{&late.There, &late.Back} {
				way.Reorder, way.ReorderDelay = p, 6*milli
			}
			jittery.There.Jitter, jittery.Back.Jitter = 2*milli, 2*milli
			rows = append(rows, endless(named(late, "%d Mbit/s 50 ms %g %%, as many late by 6 ms", mbit(rate), 100*p), nil),
				endless(named(late,
					"%d Mbit/s 50 ms %g %%, as many late by 6 ms, every other second", mbit(rate), 100*p), inEven),
				endless(named(jittery, "%d Mbit/s 50 ms %g %% jitter 2 ms", mbit(rate), 100*p), nil))
		}
	}
	return slices.Concat(rows, swaying(), spells(), profiles())
}

// spells returns paths that lose most packets for a tenth of each second, like a radio
// disturbed by another one.
func spells() (rows []Row) {
	for _, rate := range []int64{20e6, 50e6} {
		for _, rtt := range []time.Duration{20 * milli, 50 * milli} {
			for _, loss := range []float64{0.3, 0.6} {
				s := named(single(Path(rate, rtt, 0, 1), 0),
					"%d Mbit/s %d ms, %g %% for 100 ms of each second", mbit(rate), rtt/milli, 100*loss)
				for i := range time.Duration(30) {
					at := i*second + i*i*37%500*milli
					s.Trips = append(s.Trips, Trip{At: at, RTT: rtt, Loss: loss}, Trip{At: at + 100*milli, RTT: rtt})
				}
				s.For = 30 * second
				rows = append(rows, Row{Family: "weather", Scene: s, Beside: Reno, Compare: func(ours, theirs Result) []Figure {
					return []Figure{
						atLeast("of what the path carries", carried(ours), 0.6),
						atLeast("of a quic stream's", carried(ours)/carried(theirs), 1),
					}
				}})
			}
		}
	}
	return rows
}

// profiles returns transfers through UE's network emulation profiles behind a fast link. A profile
// delays each packet by a random time, which varies by as much as half of the shortest round trip.
func profiles() (rows []Row) {
	for _, e := range []struct {
		name   string
		lag    [2]time.Duration
		loss   float64
		within float64 // the slowest, in seconds
	}{{"Average", [2]time.Duration{30, 60}, 0.01, 2}, {"Bad", [2]time.Duration{100, 200}, 0.05, 8}} {
		for _, plays := range []bool{false, true} {
			s := named(single(Path(100e6, 2*e.lag[0]*milli, e.loss, 1), 4*mib),
				"UE's profile %s on 100 Mbit/s%s", e.name, map[bool]string{true: ", play"}[plays])
			s.There.Jitter, s.Back.Jitter = (e.lag[1]-e.lag[0])*milli, (e.lag[1]-e.lag[0])*milli
			s.Flows[0].Plays, s.For = plays, 100*second
			rows = append(rows, Row{Family: "weather", Scene: s, Judge: func(r Result) []Figure {
				return []Figure{
					{Name: "slowest, s", Value: ratio(r) * r.Scene.Ideal(4*mib).Seconds(), Most: e.within, Worst: true},
				}
			}, Beside: Reno, Compare: besideReno(1)})
		}
	}
	return rows
}

// swaying returns transfers over a long path with much random loss, jitter and packets that
// overtake each other.
func swaying() (rows []Row) {
	for _, w := range [][2]time.Duration{{3, 3}, {5, 5}, {15, 20}} {
		s := named(single(Path(20e6, 150*milli, 0.05, 1), 8*mib),
			"20 Mbit/s 150 ms 5 %%, jitter of %d ms, every other packet late by %d ms", w[0], w[1])
		for _, way := range []*netsim.Config{&s.There, &s.Back} {
			way.Jitter, way.Alternate = w[0]*milli, w[1]*milli
		}
		s.For = 100 * second
		rows = append(rows, Row{Family: "weather", Scene: s, Judge: always(2)})
	}
	return rows
}

// inEven reports whether since is in an even second.
func inEven(since time.Duration) bool { return int(since/second)%2 == 0 }

// endless returns an endless transfer with pauses. It is judged by its share of what random
// loss leaves of the link.
func endless(s Scene, pause func(time.Duration) bool) Row {
	s.Flows, s.For = []Flow{{Begin: second, Pause: pause}}, 12*second
	return Row{Family: "weather", Scene: s, Judge: func(r Result) []Figure {
		sent, all := 0.0, 0.0
		for at := second; at < s.For; at += second {
			if pause == nil || !pause(at) {
				sent, all = sent+r.Flows[0].Rate(at, at+second)*maxPacketWire, all+float64(s.There.Rate)*(1-s.There.Loss)
			}
		}
		return []Figure{
			atLeast("of the link", sent/all, 0.9),
			{Name: "worst part left idle", Value: 1 - sent/all, Most: 0.3, Worst: true},
		}
	}}
}

// fades returns losses in runs with a given mean length in packets, like those of a fading
// radio. A fade also ends if nothing is sent. Otherwise, one in fourteen of the longest fades
// would last for all ten seconds in which a carrier tries to open.
func fades(loss, length float64) netsim.Burst {
	b := netsim.Bursts(loss, length)
	b.Idle = 50 * milli
	return b
}

// bursts returns losses in runs. A run says no more about a queue than one lost packet does.
func bursts() (rows []Row) {
	for _, rate := range []int64{20e6, 100e6} {
		for _, rtt := range []time.Duration{20, 60, 150} {
			for _, length := range []float64{3, 8, 20} {
				s := named(single(Path(rate, rtt*milli, 0, 1), int(rate/20e6)*8*mib),
					"%d Mbit/s %d ms 10 %% in runs of %g", mbit(rate), rtt, length)
				s.There.Burst = fades(0.1, length)
				rows = append(rows, Row{Family: "bursts", Scene: s, Judge: always(1.5)})
			}
		}
	}
	return rows
}

func queues() (rows []Row) {
	standing := func(r Result) []Figure {
		f := r.Scene.Flows[0]
		until := f.Begin + max(r.Flows[0].Ended, 500*milli)
		most := max(5*milli, r.Scene.RTT()/4)
		return []Figure{atMost("time", ratio(r), 1.2),
			atMost("queue in ms", r.StandingQueue(f.Begin+500*milli, until).Seconds()*1e3, most.Seconds()*1e3),
			{Name: "dropped", Value: r.Drops(Ours, 0, r.Scene.For)}}
	}
	for _, rate := range []int64{20e6, 100e6} {
		for _, q := range []float64{1. / 16, 1. / 4, 1, 4, 10} {
			s := named(single(Path(rate, 50*milli, 0, q), int(rate/20e6)*4*mib),
				"%d Mbit/s 50 ms, queue %.3g products", mbit(rate), q)
			rows = append(rows, Row{Family: "queue", Scene: s, Judge: standing})
		}
		s := named(single(Path(rate, 50*milli, 0, 10), int(rate/20e6)*4*mib),
			"%d Mbit/s 50 ms, CoDel", mbit(rate))
		s.There.CoDel = true
		rows = append(rows, Row{Family: "queue", Scene: s, Judge: standing})
		s = named(s, "%d Mbit/s 50 ms, PIE", mbit(rate))
		s.There.CoDel, s.There.PIE = false, true
		rows = append(rows, Row{Family: "queue", Scene: s, Judge: standing})
		p := named(single(Path(rate, 50*milli, 0, 1), int(rate/20e6)*4*mib),
			"%d Mbit/s 50 ms, policed", mbit(rate))
		p.There.Police, p.There.Bucket = rate, max(p.Product()/4, 15_000)
		p.There.Rate, p.There.Queue = 1e9, 1<<20
		rows = append(rows, Row{Family: "queue", Scene: p, Judge: func(r Result) []Figure {
			ideal := 25*milli + time.Duration(float64(r.Scene.Flows[0].Bytes)*8e9/float64(rate))
			return []Figure{
				atMost("time", r.took(0).Seconds()/ideal.Seconds(), 1.5),
				atMost("dropped", r.Drops(Ours, second, r.Scene.For), 0.05),
			}
		}})
	}
	return append(rows, fewPackets()...)
}

// fewPackets returns queues with room for so few packets that they drop most of a train,
// beside the play of a game.
func fewPackets() (rows []Row) {
	for _, rate := range []int64{500e3, 2e6, 10e6} {
		for _, packets := range []int{2, 4} {
			s := named(Path(rate, 50*milli, 0, 1).With(1, Flow{Begin: second, Plays: true}, 0),
				"%g Mbit/s 50 ms, queue of %d packets, beside play", float64(rate)/1e6, packets)
			s.There.Queue, s.For = packets*1500, 21*second
			rows = append(rows, Row{Family: "queue", Scene: s, Judge: func(r Result) []Figure {
				dropped := r.Drops(Ours, second, r.Scene.For)
				return []Figure{atMost("dropped", dropped, 0.05), atLeast("of the link", r.Share(Ours, second, r.Scene.For), 0.75),
					{Name: "worst dropped", Value: dropped, Most: 0.1, Worst: true}}
			}})
		}
	}
	return rows
}

func changes() (rows []Row) {
	swing := named(single(Path(50e6, 40*milli, 0, 1), 4*mib), "50 Mbit/s, a fifth of it every other 200 ms")
	for i := range 300 {
		rate := int64(50e6)
		if i%2 == 0 {
			rate = 10e6
		}
		swing.Rates = append(swing.Rates, Rate{time.Duration(i) * 200 * milli, rate})
	}
	rows = append(rows, Row{Family: "change", Scene: swing, Judge: inTime(0), Beside: Reno, Compare: besideReno(1)})

	fall := named(single(Path(10e6, 50*milli, 0, 2), 0), "10 Mbit/s, 2 from 5 s, 10 from 12 s")
	fall.Rates, fall.For = []Rate{{5 * second, 2e6}, {12 * second, 10e6}}, 20*second
	rows = append(rows, Row{Family: "change", Scene: fall, Judge: func(r Result) []Figure {
		return []Figure{
			atMost("queue from 1 s after the fall, ms", r.StandingQueue(6*second, 8*second).Seconds()*1e3, 15),
			atLeast("of 2 Mbit/s", r.Flows[0].Rate(6*second, 12*second)/2e6, 0.8),
			atLeast("of 10 Mbit/s again, from 2 s on", r.Flows[0].Rate(14*second, 19*second)/10e6, 0.85),
		}
	}})

	crash := named(single(Path(20e6, 50*milli, 0, 4), 0), "20 Mbit/s that fall to 0.5 at 5 s")
	crash.Rates, crash.For = []Rate{{5 * second, 500e3}}, 20*second
	rows = append(rows, Row{Family: "change", Scene: crash, Judge: func(r Result) []Figure {
		return []Figure{
			// What was in flight takes two seconds at the new rate, at which a
			// packet takes 24 ms. The aim is three packets.
			atMost("queue from 5 s after the fall, ms", r.StandingQueue(10*second, 20*second).Seconds()*1e3, 75),
			atLeast("of 0.5 Mbit/s", r.Flows[0].Rate(6*second, 20*second)/500e3, 0.8),
		}
	}})

	fade := named(single(Path(20e6, 50*milli, 0, 1), 0), "20 Mbit/s that fade to 4 over 10 s and come back")
	fade.For = 25 * second
	for i := range 200 {
		part := 1 - 0.8*float64(min(i, 200-i))/100
		fade.Rates = append(fade.Rates, Rate{2*second + time.Duration(i)*100*milli, int64(20e6 * part)})
	}
	rows = append(rows, Row{Family: "change", Scene: fade, Judge: func(r Result) []Figure {
		return []Figure{atMost("queue in ms", r.StandingQueue(2*second, 12*second).Seconds()*1e3, 20),
			atLeast("of 12 Mbit/s", r.Flows[0].Rate(2*second, 22*second)/12e6, 0.8)}
	}})
	for _, dark := range []time.Duration{100 * milli, 500 * milli, second, 5 * second} {
		s := named(single(Path(20e6, 50*milli, 0, 1), 4*mib), "20 Mbit/s, dark for %v", dark)
		s.Dark = []Span{{1500 * milli, 1500*milli + dark}}
		rows = append(rows, Row{Family: "change", Scene: s, Judge: inTime(0), Beside: Reno, Compare: besideReno(1)})
	}
	for _, dark := range []time.Duration{200 * milli, 700 * milli} {
		s := named(single(Path(20e6, 300*milli, 0, 1), 8*mib), "20 Mbit/s 300 ms, dark for %v", dark)
		s.Dark = []Span{{2500 * milli, 2500*milli + dark}}
		rows = append(rows, Row{Family: "change", Scene: s, Judge: inTime(0), Beside: Reno, Compare: besideReno(1)})
	}
	return slices.Concat(rows, trips(), routes(), onsets())
}

// routes returns slow paths that change between two routes every 3 s. The longer route looks
// like a competitor's queue.
func routes() (rows []Row) {
	for _, rate := range []int64{2e6, 5e6, 10e6} {
		s := named(single(Path(rate, 50*milli, 0, 4), 0),
			"%d Mbit/s 50 ms, 90 for 3 s of 6, queue 4 products", mbit(rate))
		for i := range 5 {
			at := time.Duration(6*i) * second
			s.Trips = append(s.Trips, Trip{At: at + 3*second, RTT: 90 * milli}, Trip{At: at + 6*second, RTT: 50 * milli})
		}
		s.For = 31 * second
		rows = append(rows, Row{Family: "change", Scene: s, Judge: func(r Result) []Figure {
			packets := time.Duration(4 * maxPacket * 8e9 / rate)
			return []Figure{atMost("queue in ms", r.StandingQueue(4*second, s.For).Seconds()*1e3, (s.RTT()/4+packets).Seconds()*1e3),
				atLeast("of the link", r.Share(Ours, 4*second, s.For)*maxPacketWire, 0.9)}
		}})
	}
	return rows
}

// onsets returns paths on which jitter or clumps begin or end during a transfer. Somebody
// walks away from the access point, or another device begins to send.
func onsets() (rows []Row) {
	type weather struct{ jitter, clump time.Duration }
	for _, rate := range []int64{20e6, 100e6} {
		for _, w := range []weather{{jitter: 10}, {jitter: 25}, {jitter: 50}, {clump: 10}, {clump: 20}, {clump: 50}} {
			bad, calm := Trip{RTT: 50 * milli, Jitter: w.jitter * milli, Clump: w.clump * milli}, Trip{RTT: 50 * milli}
			what := fmt.Sprintf("jitter of %v", bad.Jitter)
			if w.clump > 0 {
				what = fmt.Sprintf("clumps of %v", bad.Clump)
			}
			begins := named(single(Path(rate, 50*milli, 0, 1), int(rate/20e6)*16*mib),
				"%d Mbit/s 50 ms, %s from 2 s on", mbit(rate), what)
			begins.Trips = []Trip{at(bad, 3*second)}
			swings := begins
			swings.Name = fmt.Sprintf("%d Mbit/s 50 ms, %s for 1 s of 3", mbit(rate), what)
			swings.Trips = nil
			for i := range time.Duration(20) {
				swings.Trips = append(swings.Trips, at(bad, (3+3*i)*second), at(calm, (4+3*i)*second))
			}
			for _, s := range []Scene{begins, swings} {
				rows = append(rows, Row{Family: "change", Scene: s, Judge: inTime(0), Beside: Reno, Compare: func(ours, theirs Result) []Figure {
					return []Figure{
						atMost("of a quic stream", ratio(ours)/ratio(theirs), 1.25),
						{Name: "worst of a quic stream", Value: ratio(ours) / ratio(theirs), Most: 2, Worst: true},
					}
				}})
			}
		}
	}
	return rows
}

func at(t Trip, when time.Duration) Trip {
	t.At = when
	return t
}

// trips returns paths whose round trip changes because of another route, a handover or
// another satellite.
func trips() (rows []Row) {
	for _, c := range [][2]time.Duration{{20, 200}, {50, 150}, {150, 30}} {
		for _, loss := range []float64{0, 0.01, 0.05} {
			s := named(single(Path(20e6, c[0]*milli, loss, 1), 8*mib),
				"20 Mbit/s %d ms %g %%, %d ms from 1 s on", c[0], 100*loss, c[1])
			s.Trips = []Trip{{At: 2 * second, RTT: c[1] * milli}}
			rows = append(rows, Row{Family: "change", Scene: s, Judge: inTime(0), Beside: Reno, Compare: besideReno(1)})
		}
	}
	for _, loss := range []float64{0, 0.005} {
		s := named(single(Path(50e6, 40*milli, loss, 1), 0),
			"50 Mbit/s %g %%, 40, 70, 55, 90 ms, another one every 5 s after 40 ms of darkness", 100*loss)
		for i, trip := range []time.Duration{70, 55, 90, 40, 70, 55, 90} {
			at := time.Duration(i+1) * 5 * second
			s.Trips, s.Dark = append(s.Trips, Trip{At: at, RTT: trip * milli}), append(s.Dark, Span{at, at + 40*milli})
		}
		s.For = 40 * second
		rows = append(rows, Row{Family: "change", Scene: s, Beside: Reno, Compare: func(ours, theirs Result) []Figure {
			return []Figure{
				atLeast("of the link", ours.Share(Ours, 4*second, s.For), 0),
				atLeast("of a quic stream's", ours.Share(Ours, 4*second, s.For)/theirs.Share(Reno, 4*second, s.For), 1),
			}
		}})
	}
	return append(rows, handovers())
}

// handovers returns a satellite's path. Every 5 s, another satellite takes over, with a
// different rate and route, after a moment of darkness.
func handovers() Row {
	s := named(single(Path(50e6, 40*milli, 0.005, 2), 0),
		"50 or 25 Mbit/s, 0.5 %%, 40, 56, 46, 60 ms, jitter of 4 ms, another one every 5 s after 80 ms of darkness")
	for i, trip := range []time.Duration{56, 46, 60, 40, 56, 46, 60} {
		at := time.Duration(i+1) * 5 * second
		s.Trips, s.Dark = append(s.Trips, Trip{At: at, RTT: trip * milli, Jitter: 4 * milli}), append(s.Dark, Span{at, at + 80*milli})
		s.Rates = append(s.Rates, Rate{at, []int64{25e6, 50e6}[i%2]})
	}
	s.For = 40 * second
	return Row{Family: "change", Scene: s, Beside: Reno, Compare: func(ours, theirs Result) []Figure {
		return []Figure{
			atLeast("of what the path carries", carried(ours), 0.6),
			atLeast("of a quic stream's", carried(ours)/carried(theirs), 1),
		}
	}}
}

// stalls returns paths that repeatedly stand still for some time and lose nothing by it. A
// radio that scans or waits for the medium does this, as does a host that takes its cores
// away.
func stalls() (rows []Row) {
	for _, rate := range []int64{10e6, 50e6} {
		for _, still := range []time.Duration{50 * milli, 100 * milli} {
			for _, every := range []time.Duration{200 * milli, 600 * milli} {
				s := named(Path(rate, 50*milli, 0, 1).Stalls(still, every, 16*second, 1),
					"%d Mbit/s still for %v every %v", mbit(rate), still, every)
				s.Flows, s.For = []Flow{{Kind: Ours, Begin: second}}, 16*second
				rows = append(rows, Row{Family: "stalls", Scene: s, Beside: Reno, Compare: func(ours, theirs Result) []Figure {
					return []Figure{
						atLeast("of what the path carries", carried(ours), 0),
						atLeast("of what a quic stream carries", carried(ours)/carried(theirs), 0.9),
					}
				}})
			}
		}
	}
	return rows
}

// carried returns the first flow's share, from the fourth second on, of what the path could
// carry.
func carried(r Result) float64 {
	could := 0.0
	for t := 4 * second; t < r.Scene.For; t += milli {
		could += r.Scene.RateAt(t)
	}
	could /= float64((r.Scene.For - 4*second) / milli)
	return r.Flows[0].Rate(4*second, r.Scene.For) * maxPacketWire / could
}

func wayBack() []Row {
	s := named(single(Path(50e6, 40*milli, 0, 1), 4*mib), "50 Mbit/s there, 0.5 back")
	s.Back.Rate, s.Back.Queue = 500e3, 16<<10
	return []Row{{Family: "way back", Scene: s, Judge: inTime(1.3)}}
}

func products() []Row {
	return []Row{
		{Family: "product", Scene: named(single(Path(1e9, 50*milli, 0.001, 1), 32*mib),
			"32 MiB, 1 Gbit/s 50 ms 0.1 %%"), Judge: inTime(1.4)},
		{Family: "product", Scene: named(single(Path(100e6, 200*milli, 0.01, 1), 32*mib),
			"32 MiB, 100 Mbit/s 200 ms 1 %%"), Judge: inTime(1.3)},
		{Family: "product", Scene: named(single(Path(100e6, 200*milli, 0.05, 1), 32*mib),
			"32 MiB, 100 Mbit/s 200 ms 5 %%"), Judge: inTime(1.7)},
	}
}

// satellites returns transfers over a geostationary satellite.
func satellites() (rows []Row) {
	for _, rate := range []int64{2e6, 10e6, 50e6} {
		for _, loss := range []float64{0, 0.01} {
			s := named(single(Path(rate, 600*milli, loss, 1), int(rate/8)*10),
				"%d Mbit/s 600 ms %g %%", mbit(rate), loss*100)
			rows = append(rows, Row{Family: "satellite", Scene: s, Judge: inTime(1.4)})
		}
	}
	return rows
}

// narrow returns transfers beside somebody else's play, over links on which a packet takes 10
// to 40 ms. Over slower links, QUIC's handshake takes so long that sealed sessions begin with
// small packets. No row plays that.
func narrow() (rows []Row) {
	const playRate = 30 * (100 + netsim.UDPOverhead) * 8
	for _, rate := range []int64{256e3, 512e3, 1e6} {
		for _, q := range []float64{4, 20} {
			s := single(Path(rate, 60*milli, 0, q), int(rate/8)*20)
			s = named(s.With(1, Flow{Kind: Play}, 0), "%d kbit/s 60 ms, queue %.3g products", rate/1000, q)
			rows = append(rows, Row{Family: "narrow", Scene: s, Judge: func(r Result) []Figure {
				fourPackets := time.Duration(4 * 1300 * 8e9 / rate) // the least window of BBR
				wait := Percentile(r.Flows[1].Delays, 0.5) - r.Scene.RTT()/2
				return []Figure{atMost("time at what play leaves", ratio(r)*float64(rate-playRate)/float64(rate), 1.2), {Name: "wire", Value: wire(r)},
					atMost("play's wait in ms", wait.Seconds()*1e3, (r.Scene.RTT()/4+fourPackets).Seconds()*1e3)}
			}})
		}
	}
	return rows
}

// company judges flows of ours that share a path over the 10 s that begin at from.
func company(from time.Duration, lost, fair float64) func(Result) []Figure {
	return func(r Result) []Figure {
		until := from + 10*second
		rates := r.Rates(Ours, from, until)
		return []Figure{
			atMost("dropped", r.Drops(Ours, from, until), lost),
			atLeast("Jain", Jain(rates), fair),
			atLeast("of the link", r.Share(Ours, from, until)/(1-r.Scene.There.Loss)*maxPacketWire, 0.9),
		}
	}
}

func crowds() (rows []Row) {
	for _, q := range []float64{1. / 8, 1. / 4, 1, 4} {
		for _, n := range []int{2, 4, 8, 16} {
			lost, fair := 0.02, 0.95
			if q < 1 {
				fair = 0.9
			}
			if q < 0.2 {
				lost = 0.05
			}
			s := named(Path(20e6, 50*milli, 0, q).With(n, Flow{Begin: second}, 0),
				"%d together, queue %.3g products", n, q)
			s.For = 25 * second
			rows = append(rows, Row{Family: "crowd", Scene: s, Judge: company(14*second, lost, fair)})

			s = named(Path(20e6, 50*milli, 0, q).With(n, Flow{Begin: second}, 6*second/time.Duration(n)),
				"%d one by one, queue %.3g products", n, q)
			s.Flows[n-1].Begin = 10 * second
			s.For = 30 * second
			rows = append(rows, Row{Family: "crowd", Scene: s, Judge: func(r Result) []Figure {
				late := r.Flows[n-1].Rate(13*second, 15*second) * float64(n) / 20e6
				return append(company(19*second, lost, fair)(r), atLeast("latecomer's part of its share", late, 0.5))
			}})
		}
	}
	for _, n := range []int{2, 4, 8} {
		s := Path(20e6, 50*milli, 0, 1).With(n/2, Flow{Begin: second}, 0).With(n/2, Flow{Begin: second, Plays: true}, 0)
		s = named(s, "%d together, half of them beside their play", n)
		s.For = 25 * second
		rows = append(rows, Row{Family: "crowd", Scene: s, Judge: company(14*second, 0.02, 0.9)})
	}
	return rows
}

func crowdsInWeather() (rows []Row) {
	for _, n := range []int{4, 8, 16} {
		s := named(Path(20e6, 50*milli, 0.02, 1).With(n, Flow{Begin: second}, 100*milli), "%d, 2 %% lost", n)
		s.For = 25 * second
		rows = append(rows, Row{Family: "crowd and weather", Scene: s, Judge: company(14*second, 0.02, 0.9)})
		s = named(Path(20e6, 50*milli, 0, 1).With(n, Flow{Begin: second}, 100*milli), "%d, jitter of 10 ms", n)
		s.There.Jitter, s.Back.Jitter = 10*milli, 10*milli
		s.For = 25 * second
		rows = append(rows, Row{Family: "crowd and weather", Scene: s, Judge: company(14*second, 0.02, 0.9)})
	}
	return rows
}

// near returns paths to a server in the same town. They have round trips of a few
// milliseconds, of which a second has hundreds, and equally short queues.
func near() (rows []Row) {
	for _, rate := range []int64{20e6, 100e6} {
		for _, rtt := range []time.Duration{3, 10} {
			for _, p := range []float64{0, 0.03, 0.08} {
				s := named(single(Path(rate, rtt*milli, p, 1./4), int(rate/20e6)*4*mib),
					"%d Mbit/s %d ms %g %%, queue 0.25 products", mbit(rate), rtt, 100*p)
				rows = append(rows, Row{Family: "near", Scene: s, Judge: inTime(1.3)})
			}
		}
	}
	for _, q := range []float64{1. / 4, 1} {
		for _, n := range []int{2, 8} {
			s := named(Path(100e6, 10*milli, 0, q).With(n, Flow{Begin: second}, 500*milli),
				"%d on 100 Mbit/s 10 ms, queue %.3g products", n, q)
			s.For = 19 * second
			rows = append(rows, Row{Family: "near", Scene: s, Judge: company(8*second, 0.02, 0.9)})
		}
		for _, kind := range []Kind{Reno, Cubic} {
			rows = append(rows, neighbour(named(Path(100e6, 10*milli, 0, q),
				"2 + 2 with %v on 100 Mbit/s 10 ms, queue %.3g products", kind, q), "near", kind, 2))
		}
	}
	return append(rows, togetherNear()...)
}

// togetherNear returns flows of ours that begin together over queues no deeper than the blur
// of clocks.
func togetherNear() (rows []Row) {
	for _, rate := range []int64{100e6, 1e9} {
		for _, n := range []int{2, 8} {
			s := named(Path(rate, 10*milli, 0, 1./8).With(n, Flow{Begin: second}, 0),
				"%d together on %d Mbit/s 10 ms, queue 0.125 products", n, mbit(rate))
			s.For = 19 * second
			rows = append(rows, Row{Family: "near", Scene: s, Judge: company(8*second, 0.05, 0.9)})
		}
	}
	return rows
}

func roundTrips() []Row {
	s := named(Path(20e6, 20*milli, 0, 2), "20 ms beside 100 ms")
	s.Flows = []Flow{{Begin: second}, {Begin: 2 * second, Delay: 40 * milli}}
	s.For = 35 * second
	return []Row{{Family: "round trips", Scene: s, Judge: func(r Result) []Figure {
		a, b := r.Flows[0].Rate(15*second, 35*second), r.Flows[1].Rate(15*second, 35*second)
		return []Figure{
			atLeast("the longer one's part", b/(a+b), 0.3),
			atLeast("of the link", (a+b)/20e6*maxPacketWire, 0.9),
		}
	}}}
}

func neighbours() (rows []Row) {
	for _, kind := range []Kind{Reno, Cubic, BBR} {
		for _, q := range []float64{1. / 8, 1, 4} {
			for _, k := range []int{1, 2, 4} {
				s := named(Path(20e6, 50*milli, 0, q), "%d + %d with %v, queue %.3g products", k, k, kind, q)
				rows = append(rows, neighbour(s, "neighbours", kind, k))
			}
		}
		for _, k := range []int{1, 2, 4} {
			s := named(Path(20e6, 50*milli, 0, 10), "%d + %d with %v, PIE", k, k, kind)
			s.There.PIE = true
			rows = append(rows, neighbour(s, "neighbours", kind, k))
		}
	}
	return rows
}

// unqueued returns neighbours on paths that drop whatever exceeds their rate, before there is
// a queue that a round trip could show.
func unqueued() (rows []Row) {
	const rate = 20e6
	police, codel, short := Path(100e6, 50*milli, 0, 10), Path(rate, 100*milli, 0, 10), Path(rate, 50*milli, 0, 0)
	police.There.Police, police.There.Bucket = rate, 30_000 // a quarter of a product
	codel.There.CoDel = true
	short.There.Queue = 4 * 1300
	for _, kind := range []Kind{Reno, Cubic} {
		for _, k := range []int{1, 2, 4} {
			for _, s := range []Scene{named(police, "a policer"), named(codel, "100 ms, CoDel"), named(short, "a queue of 4 packets")} {
				rows = append(rows, neighbour(named(s,
					"%d + %d with %v, %s", k, k, kind, s.Name), "neighbours without a queue", kind, k))
			}
		}
	}
	return rows
}

// neighbour returns a row in which n flows of ours share a path with n flows of another kind.
func neighbour(s Scene, family string, kind Kind, n int) Row {
	s = s.With(n, Flow{Kind: Ours, Begin: 1200 * milli}, 300*milli).With(n, Flow{Kind: kind, Begin: second}, 300*milli)
	s.For = 50 * second
	return Row{Family: family, Scene: s, Beside: kind, Compare: func(r, alone Result) []Figure {
		theirs, ours := r.Share(kind, 10*second, 50*second), r.Share(Ours, 10*second, 50*second)
		own := alone.Share(kind, 10*second, 50*second) / 2 // what an equal number of their own kind would leave them
		return []Figure{atLeast("their part", theirs/(theirs+ours), 0.45), atLeast("of what their own kind leaves them", theirs/own, 0.7),
			atLeast("our part", ours/(theirs+ours), 0.25)}
	}}
}

// shorts returns rows in which a short transfer begins every second beside a long one. They are
// compared with the same scenes in which New Reno takes the place of our flows.
func shorts() (rows []Row) {
	const n = 12
	for _, q := range []float64{1. / 4, 1} {
		for _, kinds := range [][2]Kind{{Ours, Ours}, {Ours, Reno}, {Reno, Ours}} {
			long, short := kinds[0], kinds[1]
			s := Path(20e6, 50*milli, 0, q).With(1, Flow{Kind: long, Begin: second}, 0).With(n, Flow{Kind: short, Begin: 6 * second, Bytes: 256 << 10}, second)
			s = named(s, "256 KiB by %v each second beside %v, queue %.3g products", short, long, q)
			s.For = (6 + n + 3) * second
			rows = append(rows, Row{Family: "short flows", Scene: s, Beside: Reno, Compare: func(r, theirs Result) []Figure {
				until := (6 + n) * second
				return []Figure{atMost("their median time of New Reno's alone", shortTime(r)/shortTime(theirs), 1.25),
					atLeast("the long one's rate of New Reno's alone", r.Flows[0].Rate(6*second, until)/theirs.Flows[0].Rate(6*second, until), 0.8)}
			}})
		}
	}
	return rows
}

// shortTime returns the median time of all flows except the first, in seconds.
func shortTime(r Result) float64 {
	var took []time.Duration
	for i := 1; i < len(r.Flows); i++ {
		took = append(took, r.took(i))
	}
	return Percentile(took, 0.5).Seconds()
}

func constants() (rows []Row) {
	for _, q := range []float64{0.25, 1} {
		s := named(Path(20e6, 50*milli, 0, q), "beside 90 %% of constant rate, queue %.3g products", q)
		s.Flows = []Flow{{Kind: Constant, Rate: 18e6}, {Kind: Ours, Begin: 2 * second}}
		s.For = 32 * second
		rows = append(rows, Row{Family: "constant", Scene: s, Judge: func(r Result) []Figure {
			return []Figure{atMost("it loses", r.Drops(Constant, 5*second, 32*second), 0.02),
				atLeast("of the rest", r.Flows[1].Rate(5*second, 32*second)*maxPacketWire/2e6, 0.5)}
		}})
	}
	return rows
}

func play() (rows []Row) {
	for _, n := range []int{1, 4, 8} {
		s := named(Path(20e6, 50*milli, 0, 1).With(1, Flow{Kind: Play}, 0).With(n, Flow{Kind: Ours, Begin: second}, 200*milli),
			"play beside %d", n)
		s.For = 30 * second
		rows = append(rows, Row{Family: "play", Scene: s, Judge: func(r Result) []Figure {
			return []Figure{
				atMost("p99 above the unloaded, ms", (Percentile(r.Flows[0].Delays, 0.99)-25*milli).Seconds()*1e3, 25),
			}
		}})
	}
	return slices.Concat(rows, playBesideAServer(), playBesideTwo(), playInTransfers(), leavers())
}

// leavers returns play in the connection of a transfer, beside which a flow of New Reno fills the
// queue and then ends. The queue has to go away again.
func leavers() (rows []Row) {
	for _, rate := range []int64{1e6, 2e6, 5e6} {
		for _, q := range []float64{2, 6} {
			s := named(Path(rate, 63*milli, 0, q),
				"play in the connection of a transfer, %d Mbit/s, queue %g products, a New Reno has left", mbit(rate), q)
			s.Flows = []Flow{{Begin: second, Bytes: int(6 * rate), Plays: true}, {Kind: Reno, Begin: 5 * second, Bytes: int(rate * 3 / 4)}}
			s.For = 60 * second
			rows = append(rows, Row{Family: "play", Scene: s, Judge: func(r Result) []Figure {
				left := s.Flows[1].Begin + r.Flows[1].Ended
				most := s.RTT()/4 + maxPacket*8*second/time.Duration(rate)
				return []Figure{{Name: "worst standing queue 10 to 20 s later, ms", Worst: true, Most: most.Seconds() * 1e3,
					Value: r.StandingQueue(left+10*second, left+20*second).Seconds() * 1e3}}
			}})
		}
	}
	return rows
}

// playBesideAServer returns somebody else's play beside downloads from one server, which find
// out together that the queue is theirs.
func playBesideAServer() (rows []Row) {
	for _, q := range []float64{1, 4} {
		for _, n := range []int{8, 16} {
			s := Path(20e6, 50*milli, 0, q).With(1, Flow{Kind: Play}, 0).With(n, Flow{Kind: Ours, Begin: second}, 200*milli)
			s = named(s, "play beside %d of one server, queue %.3g products", n, q)
			s.OneServer, s.For = true, 40*second
			rows = append(rows, Row{Family: "play", Scene: s, Judge: func(r Result) []Figure {
				delays := r.Flows[0].Delays
				wait := Percentile(delays[len(delays)/2:], 0.5) - r.Scene.RTT()/2
				return []Figure{atMost("median wait of the second half, ms", wait.Seconds()*1e3, 25),
					atLeast("Jain", Jain(r.Rates(Ours, 20*second, 40*second)), 0.9), atLeast("used", r.Share(Ours, 20*second, 40*second)*maxPacketWire, 0.9)}
			}})
		}
	}
	return rows
}

// playBesideTwo returns somebody else's play beside two transfers over a home's link. They
// are downloads from one server, or from two servers, which know as little of each other as
// the uploads of two programs.
func playBesideTwo() (rows []Row) {
	for _, rate := range []int64{2e6, 5e6} {
		for _, s := range []Scene{twoDownloads(rate), twoServers(rate)} {
			rows = append(rows, Row{Family: "play", Scene: s, Judge: func(r Result) []Figure {
				return []Figure{atMost("part of the time with more than 80 ms of queue", r.Above(80*milli, 20*second, 60*second), 0.2),
					atLeast("Jain", Jain(r.Rates(Ours, 20*second, 60*second)), 0.9)}
			}})
		}
	}
	return rows
}

func twoDownloads(rate int64) Scene {
	s := two(rate, "downloads of a home")
	s.OneServer = true
	return s
}

func twoServers(rate int64) Scene { return two(rate, "downloads of two servers") }

// two returns three players beside two transfers.
func two(rate int64, what string) Scene {
	s := Path(rate, 50*milli, 0, 4).With(3, Flow{Kind: Play}, 0).With(2, Flow{Begin: second, Plays: true}, 700*milli)
	s = named(s, "play beside two %s, %d Mbit/s", what, mbit(rate))
	s.For = 60 * second
	return s
}

// playInTransfers returns play in the same connection as a transfer.
func playInTransfers() (rows []Row) {
	for _, rate := range []int64{2e6, 10e6, 50e6} {
		for _, rtt := range []time.Duration{20 * milli, 50 * milli, 100 * milli} {
			s := named(Path(rate, rtt, 0, 1).With(1, Flow{Begin: 2 * second, Plays: true}, 0),
				"play in the connection of a transfer, %d Mbit/s %v", mbit(rate), rtt)
			s.For = 30 * second
			rows = append(rows, Row{Family: "play", Scene: s, Judge: func(r Result) []Figure {
				most := rtt/4 + 4*maxPacket*8*second/time.Duration(rate) // queues of a look, of the aim, and of a packet being sent
				return []Figure{atMost("p99 above the unloaded, ms", (Percentile(r.Flows[0].Delays, 0.99)-rtt/2).Seconds()*1e3, most.Seconds()*1e3),
					atLeast("used", r.Flows[0].Rate(5*second, 30*second)/float64(rate), 0.9)}
			}})
		}
	}
	return rows
}

func starts() (rows []Row) {
	for _, lie := range []float64{0.1, 0.3, 3, 10} {
		for _, bytes := range []int{256 << 10, 4 * mib} {
			s := named(single(Path(20e6, 50*milli, 0, 1), bytes),
				"%d KiB after a train that lied by %g", bytes>>10, lie)
			s.Flows[0].Train = lie * 20e6
			rows = append(rows, Row{Family: "start", Scene: s, Judge: func(r Result) []Figure {
				return []Figure{atMost("time", ratio(r), 1.6), atMost("wire", wire(r), 1.15*maxPacketWire)}
			}})
		}
	}
	for _, n := range []int{8, 16} {
		s := named(Path(20e6, 50*milli, 0, 1).With(n, Flow{Begin: second}, 100*milli/time.Duration(n)),
			"%d within 100 ms", n)
		s.For = 11 * second
		rows = append(rows, Row{Family: "start", Scene: s, Judge: func(r Result) []Figure {
			return []Figure{
				atMost("lost in 10 s", r.Drops(Ours, 0, 11*second), 0.03),
				{Name: "lost in the first second", Value: r.Drops(Ours, second, 2*second)},
			}
		}})
	}
	for _, plays := range []bool{true, false} {
		for _, n := range []int{8, 16} {
			rows = append(rows, downloads(n, plays))
		}
	}
	return rows
}

// rushes returns [rush] over paths on which each flow's part is worth a start, with and
// without jitter and clumps.
func rushes() (rows []Row) {
	swaying, clumped := Path(50e6, 100*milli, 0, 1), Path(20e6, 50*milli, 0, 1)
	swaying.There.Jitter, swaying.Back.Jitter = 5*milli, 5*milli
	clumped.There.Clump, clumped.Back.Clump = 5*milli, 5*milli
	for _, n := range []int{4, 8} {
		jittery, clumpy := rush(swaying, n, true), rush(clumped, n, true)
		jittery.Scene.Name += ", jitter 5 ms"
		clumpy.Scene.Name += ", clumps of 5 ms"
		rows = append(rows, jittery, clumpy)
	}
	paths := []Scene{
		Path(10e6, 100*milli, 0, 1), Path(20e6, 100*milli, 0, 1), Path(50e6, 20*milli, 0, 1),
		Path(100e6, 50*milli, 0.01, 1), Path(100e6, 100*milli, 0, 1),
	}
	for _, path := range paths {
		for _, n := range []int{4, 8, 16, 32} {
			if path.Product()/n >= leastPart {
				rows = append(rows, rush(path, n, true), rush(path, n, false))
			}
		}
	}
	return rows
}

// leastPart is twice the four packets that each flow may always have in flight. If fair
// shares are smaller, these packets alone fill the queue, however a start begins.
const leastPart = 2 * 4 * maxPacket

// rush returns n transfers that begin within 50 ms and last 5 s in fair parts. They come from
// one server or from n servers.
func rush(path Scene, n int, oneServer bool) Row {
	bytes := int(path.There.Rate) / 8 * 5 / n
	s := path.With(n, Flow{Begin: second, Bytes: bytes}, 50*milli/time.Duration(n))
	owners := "many"
	if oneServer {
		owners = "one server's"
	}
	s = named(s,
		"%d within 50 ms, %s, on %d Mbit/s %d ms", n, owners, mbit(path.There.Rate), path.RTT().Milliseconds())
	s.OneServer, s.For = oneServer, 30*second
	ideal := time.Duration(float64(n) * float64(s.Ideal(bytes)))
	return Row{Family: "rush", Scene: s, Judge: func(r Result) []Figure {
		last, speeds := time.Duration(0), make([]float64, n)
		for i := range r.Flows {
			last, speeds[i] = max(last, r.took(i)), 1/r.took(i).Seconds()
		}
		return []Figure{atMost("lost by the queue", r.Drops(Ours, 0, s.For), 0.03), atMost("time of the last", last.Seconds()/ideal.Seconds(), 1.25),
			atLeast("Jain of their speeds", Jain(speeds), 0.9), {Name: "lost by the queue in the first second", Value: r.Drops(Ours, second, 2*second)}}
	}}
}

// downloads returns players that fetch the same data at the same moment, as when a match
// begins. They do so while they play or before. One more player only plays.
func downloads(n int, plays bool) Row {
	beside := "behind a lobby"
	if plays {
		beside = "beside their play"
	}
	s := Path(20e6, 50*milli, 0, 1).With(n, Flow{Begin: 4 * second, Lead: 3 * second, Bytes: mib, Plays: plays}, 0)
	s = named(s.With(1, Flow{Kind: Play}, 0), "%d times 1 MiB at once %s", n, beside)
	s.OneServer = true
	s.For = 40 * second
	return Row{Family: "start", Scene: s, Judge: func(r Result) []Figure {
		last := time.Duration(0)
		for i := range n {
			last = max(last, r.took(i))
		}
		ideal := float64(n) * mib * 8 / 20e6 * maxPacketWire
		return []Figure{atMost("lost", r.Drops(Ours, 0, s.For), 0.03), atMost("time of the last", last.Seconds()/ideal, 1.2),
			{Name: "play's p99 above the unloaded, ms", Value: (Percentile(r.Flows[n].Delays, 0.99) - 25*milli).Seconds() * 1e3}}
	}}
}

func little() (rows []Row) {
	trickle := named(single(Path(20e6, 50*milli, 0, 1), 4*mib), "30 packets a second for 60 s, then bulk")
	trickle.Flows[0].Bytes += 1800 * piece
	trickle.Flows[0].Pause = func(since time.Duration) bool { return since < 61*second && since%(second/30) > milli/2 }
	trickle.For = 81 * second
	rows = append(rows, Row{Family: "little to send", Scene: trickle, Judge: func(r Result) []Figure {
		bulk := max(r.took(0)-60*second, 0)
		return []Figure{atMost("time", bulk.Seconds()/r.Scene.Ideal(4*mib).Seconds(), 1.2)}
	}})
	ticks := named(single(Path(20e6, 50*milli, 0, 1), 4*mib), "a source refilled once a tick of 33 ms")
	ticks.Flows[0].Refill = 33 * milli
	rows = append(rows, Row{Family: "little to send", Scene: ticks, Judge: inTime(1.15)})
	moved := named(single(Path(20e6, 50*milli, 0, 1), 4*mib), "the address changes")
	moved.Flows[0].Moves = 1800 * milli
	rows = append(rows, Row{Family: "little to send", Scene: moved, Judge: inTime(1.3)})
	return rows
}
