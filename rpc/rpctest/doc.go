// Package rpctest plays a game on a bad network inside its own go test: a server and its clients, each a world of the game's, in the
// virtual time of testing/synctest. Minutes take moments, and the same seed gives the same packets the same fates.
//
//	func TestDuelOnABadNetwork(t *testing.T) {
//		rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
//			server := net.Server(newServerWorld())
//			alice, bob := net.Client(newClientWorld()), net.Client(newClientWorld())
//			net.Advance(5 * time.Second)
//			…
//		})
//	}
//
// A [Network] drives all worlds by ticks, 30 a second unless SetTickRate says otherwise, on the goroutine of the test: handlers run
// there, and the test may look at the game's state between two calls of it. Worlds must not be driven otherwise.
//
// Only Client, Join, Advance, Until and UntilDone tick, so a test must not wait otherwise for what a tick does: for a channel, say, that the end of a
// transfer closes. It waits with Until or [Network.UntilDone], or on a goroutine of its own while the test advances. A test that waits for a
// virtual hour without a tick panics and says so.
//
// What the test calls between two Advances leaves at once, so each reliable call takes an entry of the reliable buffer, and the 256th
// of an actor overflows it. In a game's tick calls wait for the Flush, and small ones share an entry: for that make them in [Network.OnTick].
//
// Clients have paths of their own, so their copies of an actor are not of the same age: what one client has after Advance, another may
// still wait for, when its packet was lost. Use [Network.Until] for each client, and not a time that was enough for one of them.
//
// The seed also decides what connections draw, and the program runs on one processor meanwhile: so a failure comes again with
// QUIVER_SEED. What the game itself draws, it should draw from [Network.Seed], and where it calls, starts or spawns it must not range over a map,
// whose order is drawn anew each time; goroutines of its own may still run in any order,
// and so does everything under the race detector, which shuffles goroutines on purpose, and
// once in some hundred runs on a machine that is busy with other things.
//
// Each client has a path of its own to the server and back, with what the [emulation.Settings] says in each direction. [emulation.Settings].Rate is
// the server's uplink, which its clients share, and each client's own; [Network.EmulateOne] gives one client a slow downlink behind it.
// [emulation.Settings].IncomingRate is the downlink of each client; the server's own has no bottleneck. Of the
// uplink each of n clients has an n-th, also while the others send nothing: a transfer to one of many takes up to n times as long as over a real
// one. Where Rate bounds a path, the carrier behaves like a congestion control that knows the rate.
//
// A server may restart: the test closes its world, by w.Close(t.Context(), rpc.HostClosedConnection, "restart"), and another takes its place by
// [Network.Server].
//
// A client or a server crashes by [Network.Crash], without a good-bye. A client comes back by [Network.Client] as a new world with the same Token;
// the server keeps its old connection until that has waited too long for an answer, or Config.MaxConnsPerIdentity ends it.
//
// The network has no TLS, no QUIC and no sealed packets; the option rpc.Config.Emulation shows in real time what a path does to them. It has no
// keep-alives and no idle timeout of QUIC either: a path that is dark ends a connection only when something waits for an answer.
// Clients keep their addresses: where one changes on a real network, QUIC and sealed packets go on below the game, which sees a moment without
// packets, as after [Network.Dark].
//
// So a game may keep its config, but of rpc.Config the fields Sealed, NoJumbo, Emulation, IdleTimeout and KeepAlive change nothing
// here, nor does [rpc.World.SetEmulation]: the weather is that of [Run], [Network.Emulate] and [Network.EmulateOne].
package rpctest
