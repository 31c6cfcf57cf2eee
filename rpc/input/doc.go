// Package input brings what players do to the ticks for which they did it: a client predicts its own actor at a tick of the server's that
// is still to come, tags each input with it, and the server applies it exactly then.
//
// An input for the tick that the server is at now would come half a round trip late. So a client is ahead of the server: by the way there,
// and by a margin for its jitter.
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
// Every message repeats the inputs that the server may still lack and use, so that a lost input comes with the next message. The
// server answers with the time that was left, as Teeworlds does, and that steers the lead: predicted time runs at up to twice its speed
// when inputs come late, and a sixteenth slower when even the slowest of the last 6 to 12 s came too early. The two clocks are never
// compared, and the measurements do not depend on the lead in force, so the lead does not swing.
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
// Only the copy at the client that owns the actor has a [Predictor]. The owner is known when the constructor runs, and SetOwner may
// change it later: so make the Predictor in the constructor, and anew in OnOwner.
//
//	func (p *player) possess() { // in the constructor, and rpc.OnOwner(players, (*player).possess)
//		p.moves = nil
//		if p.actor.Role() == rpc.AutonomousProxy { // on the server it is Authority
//			p.moves = Moves.Predictor(p.actor)
//		}
//	}
//
// A [Queue] begins anew by itself when inputs of another owner come. A Predictor that is kept after its client has lost the actor does
// no harm: its Tick returns ErrNotOwner.
//
// When the server's state after tick n comes, a client sets its actor to that, and steps again with all inputs of p.moves.After(n).
// When a player shoots, the server rewinds the others to queue.Seen(): as that player saw them.
//
// UE's CharacterMovement sends moves with the client's own time (ServerMove), applies them as they come, and holds back a client that is
// too fast (time discrepancy); it keeps saved moves and replays them, as here. Its moves are late or early by the jitter of the path;
// inputs here meet their tick, at the price of the margin.
//
// A hostile client gains nothing: inputs that are more than a second from the server's tick are dropped, the first copy of a tick's input
// counts, messages are limited to twice the rate of ticks, and for a client that is slow on purpose ticks go on without it. A
// hostile server can make its own client predict any tick, but no more than half a second of them a frame.
//
// # Figures
//
// They are from rpc/rpctest, in virtual time, with one client and a frame for each tick. Late is how many inputs of a thousand missed
// their tick, once the margin has settled, within a second after joining; the margin is how early inputs come then; latency is from
// the making of an input until the server's answer that it was applied.
//
//	                                  30 Hz: late   margin   latency   60 Hz: late   margin   latency
//	40 ms of round trip                       0.6    13 ms     53 ms           0.7    13 ms     53 ms
//	Average: 60 to 120 ms, 1 % lost           2.1    55 ms    145 ms           1.3    38 ms    128 ms
//	Bad: 200 to 400 ms, 5 % lost              0.6    86 ms    389 ms           0.2    64 ms    380 ms
//	40 ms, 5 % lost                           2.2    66 ms    108 ms           1.5    50 ms     91 ms
//	40 ms, 20 % lost                          5.6   129 ms    176 ms           2.0    67 ms    112 ms
//
// Each is the mean of eight runs of two minutes; where few of the first ticks after joining were late, these are included.
//
// A round trip that rises from 40 to 200 ms costs the inputs of 0.4 s; when it falls again, the margin has fallen 14 s later.
package input
