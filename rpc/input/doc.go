// Package input applies what players do in the ticks for which they did it. A client predicts
// its own actor at a server tick that has not happened yet, and tags each input with that
// tick. The server applies the input exactly then.
//
// If a client made an input for the server's current tick, the input would arrive half a
// round trip late. A client is therefore ahead of the server, by the time of the way to the
// server and by a margin for its jitter.
//
//	time       ─────────────────────────────────────────────────────────────►
//	server          100        101        102        103        104   … Take(now, 104): there
//	                 │                               ▲          ▲
//	                 │ state of 100                  │◄──left──►│     how early 104 came
//	                 │                               │
//	client           └──────────► Saw(100)           │
//	predicts        104 ─────────────────────────────┘                input of 104, and 103, 102 again
//	                 │◄──────────── the lead ──────────────────►│
//
// Every message repeats the inputs that the server may still lack and use, so the next
// message brings an input that was lost. The server answers with the time that was left
// before the input's tick, as Teeworlds does, and the client adjusts its lead by that time.
//
// If inputs arrive late, predicted time runs at up to twice its speed. If even the
// slowest input of the last 6 to 12 s was too early, predicted time runs a sixteenth
// slower. The two clocks are never compared. The measurements do not depend on the
// current lead, so the lead does not oscillate.
//
//	var Moves = input.New[Move](PlayerClass, "Move", 60) // 60 ticks a second; both ends share it
//
//	// Both ends:
//	input.Serve(players, Moves, func(p *player) *input.Queue[Move] { return &p.inputs })
//	input.Predict(players, Moves, func(p *player) *input.Predictor[Move] { return p.moves })
//
//	// The server, for every tick that it simulates:
//	move, ok := p.inputs.Take(now, tick) // not ok: the newest before is repeated
//	p.step(move)
//
//	// A client, each frame between Dispatch and Flush, for the player that it owns:
//	err := p.moves.Tick(now, func(tick uint64) Move { m := keys(); p.step(m); return m })
//
// Only the copy on the client that owns the actor has a [Predictor]. The owner is known when
// the constructor runs, and SetOwner may change it later. Make the Predictor in the
// constructor, and a new one in OnOwner.
//
//	func (p *player) possess() { // in the constructor, and rpc.OnOwner(players, (*player).possess)
//		p.moves = nil
//		if p.actor.Role() == rpc.AutonomousProxy { // on the server it is Authority
//			p.moves = Moves.Predictor(p.actor)
//		}
//	}
//
// A [Queue] resets itself when inputs of another owner arrive. A Predictor whose client has
// lost the actor does no harm: its Tick returns ErrNotOwner.
//
// When the server's state after tick n arrives, a client sets its actor to that state, and
// steps again with all inputs of p.moves.After(n). When a player shoots, the server rewinds
// the other actors to queue.Seen(), where that player saw them.
//
// UE's CharacterMovement sends moves with the client's own time (ServerMove), applies them
// when they arrive, and holds back a client that is too fast (time discrepancy). It saves
// moves and replays them, as this package does. Its moves are late or early by the jitter of
// the path. Inputs of this package are applied in their tick, at the price of the margin.
//
// A hostile client gains nothing. Inputs more than a second from the server's tick are
// dropped. The first copy of a tick's input counts. Messages are limited to twice the tick
// rate. The server does not wait for a client that is slow on purpose.
//
// A hostile server can make its own client predict any tick, but no
// more than half a second of ticks in a frame.
//
// # Figures
//
// The figures are from rpc/rpctest, in virtual time, with one client and a frame for each
// tick. Late is the number of inputs in a thousand that missed their tick once the margin had
// settled, within a second after joining. Margin is how early inputs arrived then. Latency is
// the time from making an input to the server's answer that it was applied.
//
//	                                  30 Hz: late   margin   latency   60 Hz: late   margin   latency
//	40 ms of round trip                       0.6    13 ms     53 ms           0.7    13 ms     53 ms
//	Average: 60 to 120 ms, 1 % lost           2.1    55 ms    145 ms           1.3    38 ms    128 ms
//	Bad: 200 to 400 ms, 5 % lost              0.6    86 ms    389 ms           0.2    64 ms    380 ms
//	40 ms, 5 % lost                           2.2    66 ms    108 ms           1.5    50 ms     91 ms
//	40 ms, 20 % lost                          5.6   129 ms    176 ms           2.0    67 ms    112 ms
//
// Each figure is the mean of eight runs of two minutes. Where few of the first ticks after
// joining were late, these are included.
//
// A round trip that rises from 40 to 200 ms makes the inputs of 0.4 s late. 14 s after it
// falls again, the margin has fallen too.
package input
