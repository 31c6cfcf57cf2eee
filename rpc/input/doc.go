// Package input applies each input of a player in exactly the tick for which the player made it.
// A client predicts its own actor at a future server tick, and tags each input with that tick.
// The server applies the input when it reaches the tick.
//
// An input made for the server's current tick would arrive half a round trip late. A client
// therefore keeps ahead of the server by the time that a packet takes to get there, plus a margin
// for jitter. This is called the client's lead.
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
// Every message repeats the inputs that the server may be missing and can still use. If a message
// is lost, the next message makes up for it. As in Teeworlds, the server's answer contains the
// time that an input had left before its tick, and the client adjusts its lead accordingly.
//
// If inputs arrive late, predicted time runs at up to twice its speed. If even the slowest input
// of the last 6 to 12 s was too early, predicted time runs a sixteenth slower. The two clocks are
// never compared. The lead doesn't oscillate, because the measurements don't depend on its
// current value.
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
// # Predictors and queues
//
// Only the copy on the client that owns the actor has a [Predictor]. The owner is known when the
// constructor runs, but SetOwner may change it later. Make the Predictor in the constructor, and
// make a new one in OnOwner.
//
//	func (p *player) possess() { // in the constructor, and rpc.OnOwner(players, (*player).possess)
//		p.moves = nil
//		if p.actor.Role() == rpc.AutonomousProxy { // on the server it is Authority
//			p.moves = Moves.Predictor(p.actor)
//		}
//	}
//
// A [Queue] resets itself when inputs arrive from a new owner. A Predictor whose client has lost
// the actor does no harm, because its Tick returns ErrNotOwner.
//
// When the server's state after tick n arrives, the client resets its actor to that state and
// repeats all steps since, with the inputs of p.moves.After(n). When a player shoots, the server
// rewinds the other actors to the tick queue.Seen(), where that player saw them.
//
// # Differences from Unreal
//
// UE's CharacterMovement sends moves with the client's own time (ServerMove), applies them when
// they arrive, and holds back a client that is too fast (time discrepancy). Like this package, it
// saves moves and replays them. Its moves, however, are early or late by the jitter of the path.
// This package applies inputs in their tick, at the cost of the margin.
//
// # Hostile peers
//
// A hostile client has nothing to gain. Inputs more than a second away from the server's tick are
// dropped, only the first copy of a tick's input counts, and a client may send no more than about
// two messages per tick. If a client is slow on purpose, the server doesn't wait for it.
//
// A hostile server can make its own client predict any tick, but no more than half a second of
// ticks in a frame.
//
// # Figures
//
// These were measured in rpc/rpctest, in virtual time, with one client and a frame for each tick.
// Late is the number of inputs in a thousand that missed their tick once the margin had settled,
// which took less than a second after joining. Margin is how early inputs arrived after that.
// Latency is the time from making an input to receiving the server's answer that the input was
// applied.
//
//	                                  30 Hz: late   margin   latency   60 Hz: late   margin   latency
//	40 ms of round trip                       0.6    13 ms     53 ms           0.7    13 ms     53 ms
//	Average: 60 to 120 ms, 1 % lost           2.1    55 ms    145 ms           1.3    38 ms    128 ms
//	Bad: 200 to 400 ms, 5 % lost              0.6    86 ms    389 ms           0.2    64 ms    380 ms
//	40 ms, 5 % lost                           2.2    66 ms    108 ms           1.5    50 ms     91 ms
//	40 ms, 20 % lost                          5.6   129 ms    176 ms           2.0    67 ms    112 ms
//
// Each figure is the mean of eight runs of two minutes. Inputs that miss their tick before the
// margin has settled are included only in part. At Bad and 60 Hz, the server takes 30 to 40 ticks
// without an input in the first seconds after joining, and 40 to 65 after SetOwner, since the new
// owner first hears of it, and then has to find its lead. Let a pawn stand, or continue, for a
// second after either.
//
// When the round trip rises from 40 to 200 ms, inputs are late for 0.4 s. When it falls again,
// the margin follows within 14 s.
package input
